//! Changes, refusals and notes of a plan, and their texts.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::attribute::shown;

/// The kind of a [`Change`]. Its kebab-case name in JSON is the same in all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// Creates the namespace.
    CreateNamespace,
    /// Creates the table.
    CreateTable,
    /// Adds a column family.
    AddFamily,
    /// Drops a column family with all its cells.
    DropFamily,
    /// Sets an attribute of a family.
    SetFamilyAttribute,
    /// Adds a setting to a family's `CONFIGURATION`, or changes it.
    SetFamilyConfiguration,
    /// Removes a setting from a family's `CONFIGURATION`.
    RemoveFamilyConfiguration,
    /// Changes the partition rule; the attributes of the rule are separate changes.
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
    /// The kind of the change.
    pub change: ChangeKind,
    /// The family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The attribute, the setting of a family's `CONFIGURATION`, or the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The present value, or `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The attributes of a family that is added.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// The `CONFIGURATION` of a family that is added.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub configuration: BTreeMap<String, String>,
    /// The number of regions of a new table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<usize>,
    /// The data that the change loses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loses: Option<String>,
}

/// A reason why a plan can't be applied. In JSON the keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Refusal {
    /// The table.
    pub table: String,
    /// The position of the table's name in the file, as `FILE:LINE:COLUMN`; `None` without a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The name of the refusal: `boundary-inside-partition`, `namespace-missing`, `data-loss` or, of a
    /// [strict](crate::Plan::strict) plan, `not-in-file`.
    pub refused: &'static str,
    /// The region boundary that prevents the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boundary: Option<String>,
    /// The partition that the boundary splits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The reason.
    pub what: String,
    /// The fix.
    pub fix: String,
}

/// A note on a setting that stays unchanged. In JSON the keys and their order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlanNote {
    /// The table.
    pub table: String,
    /// The name of the note: `left-alone`, `splits-differ`, `boundary-inside-bucket` or
    /// `table-disabled`.
    pub note: &'static str,
    /// The text of the note.
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
            configuration: BTreeMap::new(),
            regions: None,
            loses: None,
        }
    }

    /// Returns the name of the loss, for [`Plan::allow_data_loss`](crate::Plan::allow_data_loss), if the
    /// change [loses](Self::loses) data: `TABLE:FAMILY` for a family that is dropped,
    /// `TABLE:FAMILY:ATTRIBUTE` for an attribute of a family, `TABLE::ATTRIBUTE` for one of the table, and
    /// `TABLE::rule` for the partition rule.
    #[must_use]
    pub fn loss(&self) -> Option<String> {
        self.loses.as_ref()?;
        let table = &self.table;
        let family = self.family.as_deref().unwrap_or_default();
        Some(match (self.change, &self.name) {
            (ChangeKind::SetRule, _) => format!("{table}::rule"),
            (_, Some(name)) => format!("{table}:{family}:{name}"),
            (_, None) => format!("{table}:{family}"),
        })
    }

    /// Returns `+` for an addition, `-` for a removal, `~` for a change.
    #[must_use]
    pub fn sign(&self) -> char {
        match self.change {
            ChangeKind::DropFamily | ChangeKind::RemoveAttribute | ChangeKind::RemoveFamilyConfiguration => {
                '-'
            }
            ChangeKind::SetFamilyAttribute
            | ChangeKind::SetFamilyConfiguration
            | ChangeKind::SetRule
            | ChangeKind::SetAttribute
                if self.from.is_some() =>
            {
                '~'
            }
            _ => '+',
        }
    }

    /// The text of a change from one value to another.
    fn becomes(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        let to = shown(name, self.to.as_deref().unwrap_or_default());
        match &self.from {
            Some(from) => format!("{} → {to}", shown(name, from)),
            None => to.into_owned(),
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
                for (name, value) in self.attributes.iter().chain(&self.configuration) {
                    write!(f, "{separator}{name} {}", shown(name, value))?;
                    separator = ", ";
                }
            }
            ChangeKind::DropFamily => write!(f, "family {family}")?,
            ChangeKind::SetFamilyAttribute | ChangeKind::SetFamilyConfiguration => {
                write!(f, "family {family}: {name} {}", self.becomes())?;
            }
            ChangeKind::RemoveFamilyConfiguration => {
                write!(
                    f,
                    "family {family}: {name} {}",
                    self.from.as_deref().unwrap_or_default()
                )?;
            }
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
        write!(f, "table {}: {}; {}", self.table, self.what, self.fix)
    }
}

impl fmt::Display for PlanNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
