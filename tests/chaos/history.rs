//! The attempts and their outcomes, compared with the table.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    time::Duration,
};

use hbase_txn::{
    Outcome,
    client::{Row, Scan, Table},
};

use crate::cluster::{FAMILY, QUALIFIER};

/// Groups are identified by partition, writer and number; the rows of a group are adjacent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId {
    pub(crate) partition: String,
    pub(crate) writer: u32,
    pub(crate) number: u32,
}

impl GroupId {
    pub(crate) fn row(&self, index: u32) -> String {
        format!("{self}.{index}")
    }

    /// Returns the value of every row of a group with this number of rows; no other group has it.
    pub(crate) fn value(&self, rows: u32) -> String {
        format!("{self}/{rows}")
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:02}-{:07}", self.partition, self.writer, self.number)
    }
}

/// The reported outcome of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Told {
    Committed,
    NotApplied,
    Unknown,
}

impl Told {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Committed(_) => Self::Committed,
            Outcome::Invalid(_) | Outcome::Aborted(_) => Self::NotApplied,
            _ => Self::Unknown,
        }
    }
}

/// One commit.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) group: GroupId,
    pub(crate) rows: u32,
    pub(crate) told: Told,
    pub(crate) took: Duration,
    /// The text of the error, if there was one.
    pub(crate) error: Option<String>,
}

/// All commits of a test.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) commits: Vec<Commit>,
}

impl History {
    pub(crate) fn count(&self, told: Told) -> usize {
        self.commits.iter().filter(|commit| commit.told == told).count()
    }

    pub(crate) fn slowest(&self) -> Duration {
        self.commits
            .iter()
            .map(|commit| commit.took)
            .max()
            .unwrap_or_default()
    }

    /// Asserts that the table agrees with the outcomes: every committed group whole, no group that
    /// was not applied, unknown ones whole or absent, and no other rows.
    pub(crate) async fn check(&self, test: &str, table: &Table) {
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        let mut scanner = table.scan(Scan::new().family(FAMILY)).unwrap();
        while let Some(row) = scanner.next().await.unwrap() {
            let (key, value) = text(&row);
            let last = found.last_key_value().map(|(key, _)| key.clone());
            assert!(last.as_ref() < Some(&key), "row {key} came after {last:?}");
            found.insert(key, value);
        }
        let mut wrong = Vec::new();
        let mut lucky = 0;
        for Commit {
            group,
            rows,
            told,
            error,
            ..
        } in &self.commits
        {
            let value = group.value(*rows);
            let there = (0..*rows)
                .filter(|index| found.remove(&group.row(*index)).as_ref() == Some(&value))
                .count();
            let whole = there == *rows as usize;
            lucky += usize::from(*told == Told::Unknown && whole);
            let right = match told {
                Told::Committed => whole,
                Told::NotApplied => there == 0,
                Told::Unknown => whole || there == 0,
            };
            if !right {
                wrong.push(format!(
                    "{group}: {told:?}, {there} of {rows} rows are there; {error:?}"
                ));
            }
        }
        let mut reasons: HashMap<&str, usize> = HashMap::new();
        for error in self.commits.iter().filter_map(|commit| commit.error.as_deref()) {
            let reason = error.rsplit(": ").next().unwrap_or(error);
            let end = reason.find(|c: char| c == ';' || c.is_ascii_digit());
            *reasons.entry(&reason[..end.unwrap_or(reason.len())]).or_default() += 1;
        }
        println!(
            "{test}: {} committed, {} not applied, {} unknown ({lucky} of them there), slowest {:?}; {reasons:?}",
            self.count(Told::Committed),
            self.count(Told::NotApplied),
            self.count(Told::Unknown),
            self.slowest(),
        );
        assert!(
            wrong.is_empty(),
            "{} groups are wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        assert!(found.is_empty(), "rows that nobody wrote: {found:?}");
        assert!(self.count(Told::Committed) > 0, "nothing was committed at all");
    }
}

/// A row's key and value.
pub(crate) fn text(row: &Row) -> (String, String) {
    let value = row.value(FAMILY, QUALIFIER).cloned().unwrap_or_default();
    (
        String::from_utf8_lossy(row.key()).into_owned(),
        String::from_utf8_lossy(&value).into_owned(),
    )
}

/// Asserts that the rows of one scan show no group partially. Returns the number of whole groups.
pub(crate) fn check_whole(rows: &[Row]) -> usize {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        let (key, value) = text(row);
        groups.entry(value).or_default().insert(key);
    }
    for (value, keys) in &groups {
        let expected: usize = value.rsplit('/').next().unwrap().parse().unwrap();
        assert_eq!(keys.len(), expected, "half a group was seen: {value}: {keys:?}");
    }
    groups.len()
}
