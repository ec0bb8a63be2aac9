//! Operations as the checker reads them, and the order of their calls and returns.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use hbase_txn::client::{Cell, Row};
use serde_json::{Value, json};

use super::program::{COUNTER, FAMILIES};

/// The values of cells by their names.
pub(crate) type Found = BTreeMap<String, String>;

/// The cells of a scope: a cell, a family, a row, or the whole partition.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) scope: String,
    pub(crate) found: Found,
}

/// A condition about the value of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) cell: String,
    pub(crate) is: &'static str,
    pub(crate) value: String,
}

/// A change of a cell, or the delete of a scope.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put { cell: String, value: String },
    Append { cell: String, value: String },
    Increment { cell: String, by: i64 },
    Delete { scope: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// The conditions did not all hold at one moment of the call.
    Rejected,
    /// It had its effect at any moment after the call, or none.
    Unknown,
}

/// What was called, and what was returned.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) called: i64,
    pub(crate) returned: i64,
    pub(crate) what: String,
    pub(crate) outcome: Outcome,
    pub(crate) reads: Vec<Read>,
    pub(crate) checks: Vec<Check>,
    pub(crate) changes: Vec<Change>,
    pub(crate) results: Found,
}

/// The operations of all partitions.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The number of calls and returns so far. It orders them as a clock would, without ties.
    events: AtomicI64,
    operations: Mutex<BTreeMap<String, Vec<Operation>>>,
    /// What is wrong without a check: two answers that contradict each other.
    contradictions: Mutex<Vec<String>>,
}

impl Log {
    /// Returns the place of a call or return among all.
    pub(crate) fn tick(&self) -> i64 {
        self.events.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn note(&self, partition: &str, operation: Operation) {
        let mut operations = self.operations.lock().unwrap();
        operations
            .entry(partition.to_owned())
            .or_default()
            .push(operation);
    }

    pub(crate) fn contradict(&self, text: String) {
        self.contradictions.lock().unwrap().push(text);
    }

    pub(crate) fn contradictions(&self) -> Vec<String> {
        self.contradictions.lock().unwrap().clone()
    }

    /// Removes all operations, and returns them as the checker reads them, and their number.
    pub(crate) fn take(&self) -> (String, usize) {
        let mut text = String::new();
        let mut count = 0;
        for (partition, operations) in std::mem::take(&mut *self.operations.lock().unwrap()) {
            count += operations.len();
            for operation in operations {
                writeln!(text, "{}", operation.line(&partition)).unwrap();
            }
        }
        (text, count)
    }
}

impl Operation {
    /// Creates a read of one moment.
    pub(crate) fn read(client: usize, called: i64, returned: i64, what: &str, reads: Vec<Read>) -> Self {
        Self {
            client,
            called,
            returned,
            what: what.to_owned(),
            outcome: Outcome::Committed,
            reads,
            checks: Vec::new(),
            changes: Vec::new(),
            results: Found::new(),
        }
    }

    fn line(&self, partition: &str) -> Value {
        let reads = self.reads.iter();
        let reads: Vec<_> = reads
            .map(|read| json!({"in": read.scope, "found": read.found}))
            .collect();
        let checks = self.checks.iter();
        let checks: Vec<_> = checks
            .map(|check| json!({"cell": check.cell, "is": check.is, "value": check.value}))
            .collect();
        let changes: Vec<_> = self.changes.iter().map(Change::line).collect();
        let outcome = match self.outcome {
            Outcome::Committed => "committed",
            Outcome::Rejected => "rejected",
            Outcome::Unknown => "unknown",
        };
        json!({
            "history": partition,
            "client": self.client,
            "call": self.called,
            "return": self.returned,
            "what": self.what,
            "outcome": outcome,
            "reads": reads,
            "if": checks,
            "do": changes,
            "results": self.results,
        })
    }
}

impl Change {
    fn line(&self) -> Value {
        match self {
            Self::Put { cell, value } => json!({"op": "put", "in": cell, "value": value}),
            Self::Append { cell, value } => json!({"op": "append", "in": cell, "value": value}),
            Self::Increment { cell, by } => json!({"op": "increment", "in": cell, "by": by}),
            Self::Delete { scope } => json!({"op": "delete", "in": scope}),
        }
    }
}

/// Returns the name of a cell. The row is without its partition.
pub(crate) fn name(row: &str, family: &str, qualifier: &str) -> String {
    format!("{row}/{family}:{qualifier}")
}

/// Returns the text that stands for a value.
pub(crate) fn text(qualifier: &[u8], value: &[u8]) -> String {
    if qualifier == COUNTER.as_bytes()
        && let Ok(number) = value.try_into()
    {
        return i64::from_be_bytes(number).to_string();
    }
    String::from_utf8_lossy(value).into_owned()
}

/// Returns the cells of the rows of a partition that all tasks use, without those of other
/// families.
pub(crate) fn found<'r>(partition: &str, rows: impl IntoIterator<Item = &'r Row>) -> Found {
    found_in(partition, "r", rows)
}

/// Returns the cells of the rows of a partition that begin with this text.
pub(crate) fn found_in<'r>(partition: &str, prefix: &str, rows: impl IntoIterator<Item = &'r Row>) -> Found {
    let cells = rows.into_iter().flat_map(Row::cells);
    cells
        .filter(|cell| FAMILIES.iter().any(|family| cell.family == *family))
        .map(|cell| named(partition, cell))
        .filter(|(cell, _)| cell.starts_with(prefix))
        .collect()
}

fn named(partition: &str, cell: &Cell) -> (String, String) {
    let row = String::from_utf8_lossy(&cell.row);
    let row = row.strip_prefix(partition).unwrap_or(&row);
    let [family, qualifier] = [&cell.family, &cell.qualifier].map(|part| String::from_utf8_lossy(part));
    (name(row, &family, &qualifier), text(&cell.qualifier, &cell.value))
}
