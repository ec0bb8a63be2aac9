//! Findings of an audit, and their texts.

use std::fmt;

use hbase_client::{BytesBinary, TableName};
use hbase_txn::Partition;
use serde::Serialize;

use super::name::Name;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It prevents some or all transactions, locks or latches of the table.
    Broken,
    /// It prevents no operation at present.
    Note,
}

/// A problem of a table or a cluster with transactions, locks or latches. In JSON the keys and
/// their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The table, or `None` for the cluster as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Its severity.
    pub severity: Severity,
    /// Its name, which is the same in all versions.
    pub finding: &'static str,
    /// The partition, if the finding is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The encoded names of the regions, unless the finding is about the whole table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
    /// The problem.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// A description of the fix.
    pub fix: String,
    /// The shell command that fixes it, with placeholders in capitals (`--prefix-length N`). If no
    /// command fixes it, a command that shows details. It may be one of HBase's own commands, to be
    /// run where `fix` specifies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Finding {
    pub(super) fn new(severity: Severity, name: Name, what: impl Into<String>, why: &str) -> Self {
        Self {
            table: None,
            severity,
            finding: name.text(),
            partition: None,
            regions: Vec::new(),
            what: what.into(),
            why: why.to_owned(),
            fix: String::new(),
            command: None,
        }
    }

    pub(super) fn broken(name: Name, what: impl Into<String>, why: &str) -> Self {
        Self::new(Severity::Broken, name, what, why)
    }

    pub(super) fn note(name: Name, what: impl Into<String>, why: &str) -> Self {
        Self::new(Severity::Note, name, what, why)
    }

    #[must_use]
    pub(super) fn of_table(mut self, table: &TableName) -> Self {
        self.table = Some(table.to_string());
        self
    }

    #[must_use]
    pub(super) fn in_partition(mut self, partition: &Partition) -> Self {
        self.partition = Some(BytesBinary(partition.prefix()).to_string());
        self
    }

    #[must_use]
    pub(super) fn in_regions(mut self, regions: Vec<String>) -> Self {
        self.regions = regions;
        self
    }

    /// Adds the description of a fix that is not a command, and a command that shows details.
    #[must_use]
    pub(super) fn looked_into_by(mut self, command: &str, how: &str) -> Self {
        self.fix = format!("{how}; {command} shows more");
        self.command = Some(command.to_owned());
        self
    }

    /// Adds the command that fixes the problem, and a remark on it.
    #[must_use]
    pub(super) fn fixed_by(mut self, command: String, remark: &str) -> Self {
        self.fix = if remark.is_empty() {
            command.clone()
        } else {
            format!("{command}; {remark}")
        };
        self.command = Some(command);
        self
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broken => "broken",
            Self::Note => "note",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {}: {}\n  why it matters: {}\n  fix: {}",
            self.severity,
            self.table.as_deref().unwrap_or("the cluster"),
            self.finding,
            self.what,
            self.why,
            self.fix
        )
    }
}
