//! Tables as files of TOML.
//!
//! | file | what |
//! |---|---|
//! | `table` | what a file says of its table as a whole, by kind |
//! | `family` | a column family |
//! | `split` | split keys, given or made |
//! | `attributes` | attributes as HBase has them |
//! | `section` | a table of TOML whose keys are known |
//! | `faults` | what is wrong with a file, and where |

mod attributes;
mod family;
mod faults;
mod section;
mod split;
mod table;
#[cfg(test)]
mod tests;

use std::{fs::File, io::Read, path::Path, str::Utf8Error};

use bytes::Bytes;
use toml::de::DeTable;

use self::{faults::Faults, section::Section};
use crate::{
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, PartitionRule, TableDescriptor, TableName},
};

/// A table as a file describes it: `schemas/tables` has examples, and what may stand in a file.
///
/// # Example
///
/// ```
/// use hbase_txn::provision::TableFile;
///
/// let file = TableFile::parse(
///     "orders.toml",
///     r#"
///         table = "orders"
///         [partition]
///         prefix_length = 3
///         [[family]]
///         name = "f"
///     "#,
/// ).unwrap();
/// assert!(file.descriptor().names_multi_row_mutation_endpoint());
///
/// let error = TableFile::parse("bad.toml", "table = 'orders'\ncolour = 'red'").unwrap_err();
/// assert!(error.to_string().contains("bad.toml:2:1: unknown key \"colour\""));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    pub(super) kind: TableKind,
    /// What the file states, without the endpoint.
    pub(super) stated: TableDescriptor,
    pub(super) rule: Option<PartitionRule>,
    /// Whether the table itself is to name the endpoint.
    pub(super) endpoint: bool,
    pub(super) split_keys: Vec<Bytes>,
    pub(super) create_namespace: bool,
    /// `FILE:LINE:COLUMN` of the table's name.
    pub(super) place: String,
}

/// What a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Transactions.
    Transactions,
    /// Locks, as [`LockTableOptions`](crate::LockTableOptions) makes a table for them.
    Locks,
    /// Latches, as [`LatchTableOptions`](crate::LatchTableOptions) makes a table for them.
    Latches,
}

impl TableFile {
    /// A file with more bytes is refused.
    pub const LONGEST: usize = 1 << 20;

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) as [`parse`](Self::parse);
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) when the file itself can't be read.
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |why: String| {
            Error::new(
                ErrorKind::InvalidConfig,
                format!("table file {} can't be read: {why}", path.display()),
            )
        };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        file.take(Self::LONGEST as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&path.display().to_string(), &bytes)
    }

    /// Reads the contents of a file; `origin` is what errors call it.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput), with a line `ORIGIN:LINE:COLUMN: REASON` for each thing that is wrong. Where
    /// the text is no UTF-8 or no TOML, what it means may not be looked at.
    pub fn parse(origin: &str, contents: impl AsRef<[u8]>) -> Result<Self> {
        let contents = contents.as_ref();
        if contents.len() > Self::LONGEST {
            let reason = format!(
                "the file is longer than {} bytes, which no table file is",
                Self::LONGEST
            );
            return Err(Error::invalid(format!("{origin}:1:1: {reason}")));
        }
        let text = std::str::from_utf8(contents).map_err(|error| no_text(origin, contents, error))?;
        let mut faults = Faults::of(origin, text);
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            faults.add(error.span().unwrap_or_default(), error.message());
        }
        if !faults.is_empty() {
            return Err(faults.into_error());
        }
        let section = Section::of("the file", document.get_ref(), 0..0);
        match table::read(section, &mut faults) {
            Some(file) if faults.is_empty() => Ok(file),
            _ => Err(faults.into_error()),
        }
    }

    /// Where the file names its table, as `FILE:LINE:COLUMN`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &TableName {
        &self.stated.name
    }

    /// What the table is for.
    #[must_use]
    pub fn kind(&self) -> TableKind {
        self.kind
    }

    /// The rule that keeps rows of a prefix together.
    #[must_use]
    pub fn partition_rule(&self) -> Option<&PartitionRule> {
        self.rule.as_ref()
    }

    /// The descriptor with which the table is made where it does not exist.
    #[must_use]
    pub fn descriptor(&self) -> TableDescriptor {
        match self.endpoint {
            true => self.stated.clone().with_multi_row_mutation_endpoint(),
            false => self.stated.clone(),
        }
    }

    /// The keys at which regions begin of a table that is made; those of one that exists stay as they are.
    #[must_use]
    pub fn split_keys(&self) -> &[Bytes] {
        &self.split_keys
    }
}

/// Of what is no UTF-8 the first byte is told, and where it stands.
fn no_text(origin: &str, contents: &[u8], error: Utf8Error) -> Error {
    let (before, behind) = contents.split_at(error.valid_up_to());
    let before = String::from_utf8_lossy(before);
    let mut faults = Faults::of(origin, &before);
    let reason = format!(
        "byte {} is not UTF-8; bytes of keys are written as '\\xFF'",
        BytesBinary(&behind[..1])
    );
    faults.add(before.len()..before.len(), reason);
    faults.into_error()
}
