//! What a check finds, and how it is told.

use std::fmt;

use serde::Serialize;

use super::name::Name;
use crate::model::{BytesBinary, Partition, TableName};

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// It stops what the table is for, transactions or locks, some or all of it.
    Broken,
    /// It stops nothing today.
    Note,
}

/// Something about a table, or a cluster, that is not as transactions, locks or latches need it. In JSON the keys and their
/// order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The table, unless it is the cluster as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// How grave it is.
    pub grade: Grade,
    /// The finding's name: it stays the same from version to version.
    pub finding: &'static str,
    /// The partition that is concerned, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The encoded names of the regions that are concerned, where it is not the table as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
    /// What is so.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What mends it, in words.
    pub mend: String,
    /// The command that does, for a shell; what is to be chosen stands in it in capitals (`--prefix-length N`). Where none
    /// can, the one that shows more of it. It may be HBase's own, to be run where `mend` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Finding {
    pub(super) fn new(grade: Grade, name: Name, what: impl Into<String>, why: &str) -> Self {
        Self {
            table: None,
            grade,
            finding: name.text(),
            partition: None,
            regions: Vec::new(),
            what: what.into(),
            why: why.to_owned(),
            mend: String::new(),
            command: None,
        }
    }

    pub(super) fn broken(name: Name, what: impl Into<String>, why: &str) -> Self {
        Self::new(Grade::Broken, name, what, why)
    }

    pub(super) fn note(name: Name, what: impl Into<String>, why: &str) -> Self {
        Self::new(Grade::Note, name, what, why)
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

    /// What mends it in words, where no command does; and the command that shows more of it.
    #[must_use]
    pub(super) fn looked_into_by(mut self, command: &str, how: &str) -> Self {
        self.mend = format!("{how}; {command} shows more");
        self.command = Some(command.to_owned());
        self
    }

    /// The command that mends it, and what is to be said of that.
    #[must_use]
    pub(super) fn mended_by(mut self, command: String, remark: &str) -> Self {
        self.mend = match remark.is_empty() {
            true => command.clone(),
            false => format!("{command}; {remark}"),
        };
        self.command = Some(command);
        self
    }
}

impl fmt::Display for Grade {
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
            "{}: {}: {}\n  why it matters: {}\n  what mends it: {}",
            self.grade, self.finding, self.what, self.why, self.mend
        )
    }
}
