//! What a check finds, and how it is told.

use std::fmt;

use serde::Serialize;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    /// It stops transactions, some or all.
    Broken,
    /// It stops none today.
    Note,
}

/// Something about a table that is not as transactions need it. In JSON the keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) table: String,
    pub(super) grade: Grade,
    /// The finding's name: it stays the same from version to version.
    pub(super) finding: &'static str,
    /// The partition that is concerned, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partition: Option<String>,
    /// The encoded names of the regions that are concerned, where it is not the table as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) regions: Vec<String>,
    pub(super) what: String,
    pub(super) why: String,
    pub(super) mend: String,
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
