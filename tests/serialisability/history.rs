//! The reads, writes and outcomes of transactions.
//!
//! A key is a row and a column, as `row:column`. Its value is a list of elements; an empty list is
//! the same as an absent key. Only one transaction appends an element to a key, so a reader of the
//! element follows that one. A key is deleted at most once, by a transaction that has read it, and
//! no transaction appends to it afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// The value of a key.
pub(crate) type List = Vec<String>;

/// A read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// One cell.
    Cell { key: String, found: List },
    /// All keys from one to before another: a row, or a range of rows. Keys that are not in it were
    /// absent.
    Span {
        start: String,
        stop: String,
        found: BTreeMap<String, List>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Append { key: String, element: String },
    Delete { key: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Committed,
    /// Rejected, aborted or given up: no transaction may read its writes.
    NotApplied,
    /// The outcome is unknown. It was committed if any of its writes exists.
    Unknown,
}

/// One attempt at a transaction. Its reads precede its writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) name: String,
    pub(crate) fate: Fate,
    /// The times of the call and of its answer, since some moment in the past.
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
    pub(crate) reads: Vec<Read>,
    pub(crate) writes: Vec<Write>,
}

/// All transactions of one partition, and its final state.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) end: BTreeMap<String, List>,
}

impl Transaction {
    /// A transaction without reads and writes, which will be committed.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            fate: Fate::Committed,
            began: Duration::ZERO,
            ended: Duration::MAX,
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    pub(crate) fn read(&mut self, key: impl Into<String>, found: List) -> &mut Self {
        let key = key.into();
        self.reads.push(Read::Cell { key, found });
        self
    }

    pub(crate) fn read_span(
        &mut self,
        start: impl Into<String>,
        stop: impl Into<String>,
        found: BTreeMap<String, List>,
    ) -> &mut Self {
        let (start, stop) = (start.into(), stop.into());
        self.reads.push(Read::Span { start, stop, found });
        self
    }

    pub(crate) fn append(&mut self, key: impl Into<String>, element: impl Into<String>) -> &mut Self {
        let (key, element) = (key.into(), element.into());
        self.writes.push(Write::Append { key, element });
        self
    }

    pub(crate) fn delete(&mut self, key: impl Into<String>) -> &mut Self {
        self.writes.push(Write::Delete { key: key.into() });
        self
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.fate == Fate::Committed
    }
}

impl History {
    /// Determines unknown outcomes by the writes that were read. Returns the number of them.
    pub(crate) fn settle_unknown(&mut self) -> usize {
        let reads = self
            .transactions
            .iter()
            .flat_map(|transaction| &transaction.reads);
        let mut seen: BTreeSet<String> = self.end.values().flatten().cloned().collect();
        for read in reads {
            match read {
                Read::Cell { found, .. } => seen.extend(found.iter().cloned()),
                Read::Span { found, .. } => seen.extend(found.values().flatten().cloned()),
            }
        }
        let mut settled = 0;
        for transaction in &mut self.transactions {
            if transaction.fate == Fate::Unknown {
                transaction.fate = if seen.contains(&transaction.name) {
                    Fate::Committed
                } else {
                    Fate::NotApplied
                };
                settled += 1;
            }
        }
        settled
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} ", self.name, self.fate)?;
        match self.ended {
            Duration::MAX => f.write_str("some time:")?,
            ended => write!(f, "{:.6}..{:.6}:", self.began.as_secs_f64(), ended.as_secs_f64())?,
        }
        for read in &self.reads {
            write!(f, " {read}")?;
        }
        for write in &self.writes {
            match write {
                Write::Append { key, element } => write!(f, " append({key}, {element})")?,
                Write::Delete { key } => write!(f, " delete({key})")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell { key, found } => write!(f, "read({key} = [{}])", found.join(" ")),
            Self::Span { start, stop, found } => {
                write!(f, "span({start:?}..{stop:?} =")?;
                for (key, list) in found {
                    write!(f, " {key}[{}]", list.join(" "))?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for transaction in &self.transactions {
            writeln!(f, "{transaction}")?;
        }
        for (key, list) in &self.end {
            writeln!(f, "end {key} = [{}]", list.join(" "))?;
        }
        Ok(())
    }
}
