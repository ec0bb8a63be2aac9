//! Deletes of cells, columns, families, or rows.

use std::fmt;

use bytes::Bytes;

use super::{
    BytesBinary, Durability, IntoBytes,
    attributes::{TTL_ATTRIBUTE, mutation_methods, set_attribute, set_visibility},
    limits::{check_family, check_row, check_timestamp},
};
use crate::error::{Error, Result};

/// Deletes parts of one row, or all of it.
///
/// # Example
///
/// ```
/// use hbase_client::Delete;
///
/// let whole_row = Delete::new("xxxzzz");
/// let one_column = Delete::new("xxxabc").column("f", "q");
/// # let _ = (whole_row, one_column);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a delete does nothing until it is given to a table or a transaction"]
pub struct Delete {
    pub(crate) row: Bytes,
    pub(crate) scopes: Vec<DeleteScope>,
    pub(crate) timestamp: Option<u64>,
    pub(crate) durability: Durability,
    pub(crate) attributes: Vec<(String, Bytes)>,
}

/// A part of a row that a delete covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteScope {
    /// All columns of a family, up to the timestamp of the delete: `DeleteFamily`.
    Family(Bytes),
    /// All versions of a column, up to the timestamp of the delete: `DeleteColumn`.
    Column {
        /// The column family.
        family: Bytes,
        /// The column qualifier. May be empty.
        qualifier: Bytes,
    },
    /// The cells of a family that have one timestamp: `DeleteFamilyVersion`.
    FamilyVersion {
        /// The column family.
        family: Bytes,
        /// The exact timestamp of the cells.
        timestamp: u64,
    },
    /// One version of a column: `Delete`.
    Version {
        /// The column family.
        family: Bytes,
        /// The column qualifier. May be empty.
        qualifier: Bytes,
        /// The exact timestamp of the version.
        timestamp: u64,
    },
}

impl Delete {
    /// Creates a delete on this row: of the whole row, unless [`family`](Self::family),
    /// [`family_version`](Self::family_version), [`column`](Self::column) or
    /// [`version`](Self::version) name parts of it.
    pub fn new(row: impl IntoBytes) -> Self {
        Self {
            row: row.into_bytes(),
            scopes: Vec::new(),
            timestamp: None,
            durability: Durability::default(),
            attributes: Vec::new(),
        }
    }

    /// Deletes all columns of a family.
    pub fn family(mut self, family: impl IntoBytes) -> Self {
        self.scopes.push(DeleteScope::Family(family.into_bytes()));
        self
    }

    /// Deletes the cells of a family that have this timestamp, in all columns. In a transaction, no
    /// other operation may be on the row.
    pub fn family_version(mut self, family: impl IntoBytes, timestamp: u64) -> Self {
        self.scopes.push(DeleteScope::FamilyVersion {
            family: family.into_bytes(),
            timestamp,
        });
        self
    }

    /// Deletes all versions of a column.
    pub fn column(mut self, family: impl IntoBytes, qualifier: impl IntoBytes) -> Self {
        self.scopes.push(DeleteScope::Column {
            family: family.into_bytes(),
            qualifier: qualifier.into_bytes(),
        });
        self
    }

    /// Deletes one version of a column.
    pub fn version(mut self, family: impl IntoBytes, qualifier: impl IntoBytes, timestamp: u64) -> Self {
        self.scopes.push(DeleteScope::Version {
            family: family.into_bytes(),
            qualifier: qualifier.into_bytes(),
            timestamp,
        });
        self
    }

    /// Deletes only cells stamped at or before this time, in milliseconds since 1970. Without it
    /// the server uses its clock.
    pub fn timestamp(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    mutation_methods!();

    pub(super) fn check(&self) -> Result<()> {
        check_row(&self.row)?;
        check_timestamp(self.timestamp)?;
        if self.attributes.iter().any(|(name, _)| name == TTL_ATTRIBUTE) {
            return Err(Error::invalid(
                "a delete can't have a TTL: its marker would expire and what it deleted come back",
            )
            .with_hint("put the cell with a TTL instead, or delete it for good"));
        }
        for scope in &self.scopes {
            check_family(scope.family())?;
            check_timestamp(scope.timestamp())?;
        }
        Ok(())
    }
}

impl DeleteScope {
    pub(crate) fn family(&self) -> &Bytes {
        match self {
            Self::Family(family)
            | Self::FamilyVersion { family, .. }
            | Self::Column { family, .. }
            | Self::Version { family, .. } => family,
        }
    }

    /// The exact timestamp of the cells, if the scope names one.
    pub(crate) fn timestamp(&self) -> Option<u64> {
        match self {
            Self::Family(_) | Self::Column { .. } => None,
            Self::FamilyVersion { timestamp, .. } | Self::Version { timestamp, .. } => Some(*timestamp),
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Self::Family(family) | Self::FamilyVersion { family, .. } => family.len(),
            Self::Column { family, qualifier }
            | Self::Version {
                family, qualifier, ..
            } => family.len() + qualifier.len(),
        }
    }
}

impl fmt::Debug for Delete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delete {}", BytesBinary(&self.row))?;
        match self.scopes.len() {
            0 => Ok(()),
            parts => write!(f, " ({parts} parts)"),
        }
    }
}
