//! What a check finds, and how it is told.

use std::fmt;

use serde::Serialize;

use crate::model::TableName;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// It stops what the table is for, transactions or locks, some or all of it.
    Broken,
    /// It stops nothing today.
    Note,
}

/// Something about a table that is not as transactions, or locks, need it. In JSON the keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The table.
    pub table: String,
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
    /// What mends it: a command, where there is one.
    pub mend: String,
}

impl Finding {
    /// Of a table as a whole.
    pub(crate) fn broken(
        table: &TableName,
        finding: &'static str,
        what: String,
        why: &str,
        mend: String,
    ) -> Self {
        Self {
            table: table.to_string(),
            grade: Grade::Broken,
            finding,
            partition: None,
            regions: Vec::new(),
            what,
            why: why.to_owned(),
            mend,
        }
    }

    /// Of a table as a whole.
    pub(crate) fn note(
        table: &TableName,
        finding: &'static str,
        what: String,
        why: &str,
        mend: String,
    ) -> Self {
        Self {
            grade: Grade::Note,
            ..Self::broken(table, finding, what, why, mend)
        }
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
