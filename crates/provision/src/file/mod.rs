//! Tables as TOML files.
//!
//! | file | contents |
//! |---|---|
//! | `table` | keys for the table as a whole, by kind |
//! | `kind` | the purposes of tables |
//! | `family` | a column family |
//! | `split` | split keys, listed or generated |
//! | `attributes` | attributes in HBase's own spelling |
//! | `section` | a TOML table with known keys |
//! | `faults` | errors in a file, with their positions |
//! | `contents` | writes the contents of a file |

mod attributes;
mod contents;
mod family;
mod faults;
mod kind;
mod section;
mod split;
mod table;
#[cfg(test)]
mod tests;

use std::{fs::File, io::Read, path::Path, str::Utf8Error};

use bytes::Bytes;
use hbase_client::{BytesBinary, TableDescriptor, TableName};
use hbase_txn::{ClientErrorKind, Error, PartitionRule, Result};
use toml::de::DeTable;

pub(super) use self::contents::contents;
pub use self::kind::TableKind;
use self::{faults::Faults, section::Section};

/// A table as described by a file. `schemas/tables` has examples with all keys.
///
/// # Example
///
/// ```
/// use hbase_provision::TableFile;
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
    /// The statements of the file, without the endpoint.
    pub(super) stated: TableDescriptor,
    pub(super) rule: Option<PartitionRule>,
    /// Whether the table's own descriptor names the endpoint.
    pub(super) endpoint: bool,
    pub(super) split_keys: Vec<Bytes>,
    pub(super) create_namespace: bool,
    /// `FILE:LINE:COLUMN` of the table's name.
    pub(super) place: String,
}

impl TableFile {
    /// The maximum size of a file in bytes.
    pub const MAX_SIZE: usize = 1 << 20;

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`parse`](Self::parse), or
    /// [`InvalidConfig`](ClientErrorKind::InvalidConfig) if the file can't be read.
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |why: String| {
            Error::new(
                ClientErrorKind::InvalidConfig,
                format!("table file {} can't be read: {why}", path.display()),
            )
        };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        file.take(Self::MAX_SIZE as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&path.display().to_string(), &bytes)
    }

    /// Parses the contents of a file; `origin` is its name in errors.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ClientErrorKind::InvalidInput) with a line
    /// `ORIGIN:LINE:COLUMN: REASON` for each mistake. If the text is not valid UTF-8 or TOML,
    /// further mistakes may not be listed.
    pub fn parse(origin: &str, contents: impl AsRef<[u8]>) -> Result<Self> {
        let contents = contents.as_ref();
        if contents.len() > Self::MAX_SIZE {
            let reason = format!(
                "the file is longer than {} bytes, the maximum of a table file",
                Self::MAX_SIZE
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

    /// Returns the position of the table's name, as `FILE:LINE:COLUMN`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the table's name.
    #[must_use]
    pub fn name(&self) -> &TableName {
        &self.stated.name
    }

    /// Returns the purpose of the table.
    #[must_use]
    pub fn kind(&self) -> TableKind {
        self.kind
    }

    /// Returns the partition rule.
    #[must_use]
    pub fn partition_rule(&self) -> Option<&PartitionRule> {
        self.rule.as_ref()
    }

    /// Returns the descriptor for creating the table.
    #[must_use]
    pub fn descriptor(&self) -> TableDescriptor {
        if self.endpoint {
            self.stated.clone().with_multi_row_mutation_endpoint()
        } else {
            self.stated.clone()
        }
    }

    /// Returns the split keys for creating the table. The boundaries of an existing table stay
    /// unchanged.
    #[must_use]
    pub fn split_keys(&self) -> &[Bytes] {
        &self.split_keys
    }
}

/// Reports the position of the first byte that is not valid UTF-8.
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
