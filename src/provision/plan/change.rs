//! What a plan changes, refuses and notes, and how it is told.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

/// What a [`Change`] does. Its name in JSON, in words with dashes, stays the same from version to version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// Makes the namespace.
    CreateNamespace,
    /// Makes the table.
    CreateTable,
    /// Adds a column family.
    AddFamily,
    /// Drops a column family, with all that is in it.
    DropFamily,
    /// Sets an attribute of a family.
    SetFamilyAttribute,
    /// Gives the table another partition rule; the attributes that state it are changes of their own.
    SetRule,
    /// Attaches `MultiRowMutationEndpoint`.
    AttachEndpoint,
    /// Sets an attribute of the table.
    SetAttribute,
    /// Removes an attribute of the table.
    RemoveAttribute,
}

/// One change of a table. In JSON the keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The table.
    pub table: String,
    /// What is done.
    pub change: ChangeKind,
    /// The family that is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The attribute that is concerned, or the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is now; none where there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What it becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The attributes of a family that is added.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// How many regions a table is made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<usize>,
    /// What is lost by it, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loses: Option<String>,
}

/// Why a plan can't be applied. In JSON the keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Refusal {
    /// The table.
    pub table: String,
    /// Where its file names it, as `FILE:LINE:COLUMN`; none where no file is planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The refusal's name: `boundary-inside-partition`, `namespace-missing` or `data-loss`.
    pub refused: &'static str,
    /// The region boundary that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boundary: Option<String>,
    /// The partition that it cuts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// What is so.
    pub what: String,
    /// What mends it.
    pub mend: String,
}

/// What is as it is, and stays so. In JSON the keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlanNote {
    /// The table.
    pub table: String,
    /// The note's name: `left-alone`, `splits-differ`, `boundary-inside-bucket` or `table-disabled`.
    pub note: &'static str,
    /// What is so.
    pub what: String,
}

impl Change {
    pub(super) fn new(table: &impl fmt::Display, change: ChangeKind) -> Self {
        Self {
            table: table.to_string(),
            change,
            family: None,
            name: None,
            from: None,
            to: None,
            attributes: BTreeMap::new(),
            regions: None,
            loses: None,
        }
    }

    /// `+` for what comes, `-` for what goes, `~` for what becomes something else.
    #[must_use]
    pub fn sign(&self) -> char {
        match self.change {
            ChangeKind::DropFamily | ChangeKind::RemoveAttribute => '-',
            ChangeKind::SetFamilyAttribute | ChangeKind::SetRule | ChangeKind::SetAttribute
                if self.from.is_some() =>
            {
                '~'
            }
            _ => '+',
        }
    }

    /// The change of a value.
    fn becomes(&self) -> String {
        let to = self.to.as_deref().unwrap_or_default();
        match &self.from {
            Some(from) => format!("{from} -> {to}"),
            None => to.to_owned(),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = self.family.as_deref().unwrap_or_default();
        let name = self.name.as_deref().unwrap_or_default();
        match self.change {
            ChangeKind::CreateNamespace => write!(f, "namespace {name}")?,
            ChangeKind::CreateTable => match self.regions.unwrap_or(1) {
                1 => f.write_str("the table, with 1 region")?,
                regions => write!(f, "the table, with {regions} regions")?,
            },
            ChangeKind::AddFamily => {
                write!(f, "family {family}")?;
                let mut separator = ": ";
                for (name, value) in &self.attributes {
                    write!(f, "{separator}{name} {value}")?;
                    separator = ", ";
                }
            }
            ChangeKind::DropFamily => write!(f, "family {family}")?,
            ChangeKind::SetFamilyAttribute => write!(f, "family {family}: {name} {}", self.becomes())?,
            ChangeKind::SetRule => write!(f, "a partition is: {}", self.becomes())?,
            ChangeKind::AttachEndpoint => f.write_str("MultiRowMutationEndpoint")?,
            ChangeKind::SetAttribute => write!(f, "{name} {}", self.becomes())?,
            ChangeKind::RemoveAttribute => {
                write!(f, "{name} {}", self.from.as_deref().unwrap_or_default())?;
            }
        }
        match &self.loses {
            Some(loses) => write!(f, " (loses data: {loses})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        write!(f, "table {}: {}; {}", self.table, self.what, self.mend)
    }
}

impl fmt::Display for PlanNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
