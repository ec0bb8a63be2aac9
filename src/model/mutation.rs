//! Changes of one row, and what is refused before anything is sent.

use std::{fmt, time::Duration};

use bytes::Bytes;

use super::{Append, BytesBinary, Increment, increment::Counter};
use crate::error::{Error, Result};

/// The attribute that carries a visibility expression.
pub(crate) const VISIBILITY_ATTRIBUTE: &str = "VISIBILITY";
/// The attribute that carries a cell TTL; HBase forbids it on deletes, where it would expire the marker.
const TTL_ATTRIBUTE: &str = "_ttl";
/// The server adds it to a timestamp, and a sum that overflows has expired long ago.
const LONGEST_TTL: u64 = LATEST_TIMESTAMP / 2;
/// How much of a long row an error shows.
const SHOWN_ROW: usize = 64;
/// A row key's length is two bytes on the wire, and signed in Java.
const MAX_ROW: usize = i16::MAX as usize;
/// A family's length is one byte on the wire, and signed in Java.
const MAX_FAMILY: usize = i8::MAX as usize;
/// What HBase counts for a cell besides row, family, qualifier and value: lengths, timestamp, type.
const CELL_OVERHEAD: usize = 24;
/// Java's `Long.MAX_VALUE`, which HBase reads as "now".
pub(crate) const LATEST_TIMESTAMP: u64 = i64::MAX as u64;

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutation {
    /// Writes cells.
    Put(Put),
    /// Removes cells, columns, families, or the row.
    Delete(Delete),
    /// Adds to counters.
    Increment(Increment),
    /// Adds to the end of values.
    Append(Append),
}

/// Writes cells of one row.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::Put;
///
/// let put = Put::new("xxxabc").cell("f", "q", "value").ttl(Duration::from_secs(3600));
/// assert_eq!(put.row(), "xxxabc");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a put does nothing until it is given to a table or a transaction"]
pub struct Put {
    pub(crate) row: Bytes,
    pub(crate) cells: Vec<Column>,
    pub(crate) timestamp: Option<u64>,
    pub(crate) durability: Durability,
    pub(crate) attributes: Vec<(String, Bytes)>,
}

/// A cell that a put writes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) family: Bytes,
    pub(crate) qualifier: Bytes,
    pub(crate) timestamp: Option<u64>,
    pub(crate) value: Bytes,
}

/// Removes parts of one row, or all of it.
///
/// # Example
///
/// ```
/// use hbase_txn::Delete;
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

/// What of a row a delete removes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum DeleteScope {
    Family(Bytes),
    Column {
        family: Bytes,
        qualifier: Bytes,
    },
    Version {
        family: Bytes,
        qualifier: Bytes,
        timestamp: u64,
    },
}

/// How far a write has got when the server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// What the table says; `SyncWal` where it says nothing.
    #[default]
    UseDefault,
    /// Not in the write-ahead log at all: lost when the server dies before a flush.
    SkipWal,
    /// In the write-ahead log some time after the answer: the last writes before a crash are lost.
    AsyncWal,
    /// In the write-ahead log, handed to the file system's replicas.
    SyncWal,
    /// In the write-ahead log, forced to disk.
    FsyncWal,
}

/// What a client refuses to send, whatever the server would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Limits {
    /// The largest cell, key and value together; `hbase.client.keyvalue.maxsize`, 10 MiB.
    pub(crate) max_cell_size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_cell_size: 10 << 20,
        }
    }
}

impl Limits {
    /// Refuses a cell that is too large.
    pub(super) fn check_cell(&self, row: &[u8], family: &[u8], qualifier: &[u8], value: usize) -> Result<()> {
        let size = CELL_OVERHEAD + row.len() + family.len() + qualifier.len() + value;
        if size <= self.max_cell_size {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "cell {}:{} of {size} bytes is over the limit of {}",
            BytesBinary(family),
            BytesBinary(qualifier),
            self.max_cell_size
        ))
        .with_hint("hbase.client.keyvalue.maxsize raises it, if the server takes as much"))
    }
}

impl Put {
    /// A put on this row; it needs at least one [`cell`](Self::cell).
    pub fn new(row: impl Into<Bytes>) -> Self {
        Self {
            row: row.into(),
            cells: Vec::new(),
            timestamp: None,
            durability: Durability::default(),
            attributes: Vec::new(),
        }
    }

    /// Writes a value into a column, stamped by the server or by [`timestamp`](Self::timestamp).
    pub fn cell(
        mut self,
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> Self {
        self.cells.push(Column {
            family: family.into(),
            qualifier: qualifier.into(),
            timestamp: None,
            value: value.into(),
        });
        self
    }

    /// Writes a value into a column with a version of its own.
    pub fn cell_at(
        mut self,
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
        timestamp: u64,
        value: impl Into<Bytes>,
    ) -> Self {
        self.cells.push(Column {
            family: family.into(),
            qualifier: qualifier.into(),
            timestamp: Some(timestamp),
            value: value.into(),
        });
        self
    }

    /// Stamps the cells that have no version of their own, in milliseconds since 1970. Without it the server
    /// stamps them with its own time.
    pub fn timestamp(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Lets the cells expire this long after their timestamp, judged by the server's clock. Whole milliseconds;
    /// never longer than the family's own TTL.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        set_ttl(&mut self.attributes, ttl);
        self
    }

    /// How durable the write is when the server answers.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets an attribute that travels with the mutation. A second one of the same name replaces the first.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        set_attribute(&mut self.attributes, name.into(), value.into());
        self
    }

    /// The row key.
    #[must_use]
    pub fn row(&self) -> &Bytes {
        &self.row
    }

    fn check(&self, limits: &Limits) -> Result<()> {
        check_row(&self.row)?;
        if self.cells.is_empty() {
            return Err(Error::invalid("a put without cells"));
        }
        check_timestamp(self.timestamp)?;
        check_attributes(&self.attributes)?;
        for cell in &self.cells {
            check_family(&cell.family)?;
            check_timestamp(cell.timestamp)?;
            limits.check_cell(&self.row, &cell.family, &cell.qualifier, cell.value.len())?;
        }
        Ok(())
    }
}

impl Delete {
    /// A delete on this row: of the whole row, unless [`family`](Self::family), [`column`](Self::column) or
    /// [`version`](Self::version) name parts of it.
    pub fn new(row: impl Into<Bytes>) -> Self {
        Self {
            row: row.into(),
            scopes: Vec::new(),
            timestamp: None,
            durability: Durability::default(),
            attributes: Vec::new(),
        }
    }

    /// Deletes all columns of a family.
    pub fn family(mut self, family: impl Into<Bytes>) -> Self {
        self.scopes.push(DeleteScope::Family(family.into()));
        self
    }

    /// Deletes all versions of a column.
    pub fn column(mut self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>) -> Self {
        self.scopes.push(DeleteScope::Column {
            family: family.into(),
            qualifier: qualifier.into(),
        });
        self
    }

    /// Deletes one version of a column.
    pub fn version(mut self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>, timestamp: u64) -> Self {
        self.scopes.push(DeleteScope::Version {
            family: family.into(),
            qualifier: qualifier.into(),
            timestamp,
        });
        self
    }

    /// Deletes only what is stamped at or before this, in milliseconds since 1970. Without it the server takes
    /// its own time.
    pub fn timestamp(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// How durable the delete is when the server answers.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets an attribute that travels with the mutation. A second one of the same name replaces the first.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        set_attribute(&mut self.attributes, name.into(), value.into());
        self
    }

    /// The row key.
    #[must_use]
    pub fn row(&self) -> &Bytes {
        &self.row
    }

    fn check(&self) -> Result<()> {
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
            if let DeleteScope::Version { timestamp, .. } = scope {
                check_timestamp(Some(*timestamp))?;
            }
        }
        Ok(())
    }
}

impl DeleteScope {
    pub(crate) fn family(&self) -> &Bytes {
        match self {
            Self::Family(family) | Self::Column { family, .. } | Self::Version { family, .. } => family,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Family(family) => family.len(),
            Self::Column { family, qualifier }
            | Self::Version {
                family, qualifier, ..
            } => family.len() + qualifier.len(),
        }
    }
}

impl Mutation {
    /// The row key.
    #[must_use]
    pub fn row(&self) -> &Bytes {
        match self {
            Self::Put(put) => &put.row,
            Self::Delete(delete) => &delete.row,
            Self::Increment(increment) => &increment.row,
            Self::Append(append) => &append.row,
        }
    }

    /// How durable the write is when the server answers.
    #[must_use]
    pub fn durability(&self) -> Durability {
        match self {
            Self::Put(put) => put.durability,
            Self::Delete(delete) => delete.durability,
            Self::Increment(increment) => increment.durability,
            Self::Append(append) => append.durability,
        }
    }

    pub(crate) fn attributes(&self) -> &[(String, Bytes)] {
        match self {
            Self::Put(put) => &put.attributes,
            Self::Delete(delete) => &delete.attributes,
            Self::Increment(increment) => &increment.attributes,
            Self::Append(append) => &append.attributes,
        }
    }

    /// Whether an attribute of this name travels with the mutation.
    pub(crate) fn has_attribute(&self, wanted: &str) -> bool {
        self.attributes().iter().any(|(name, _)| name == wanted)
    }

    /// The families that the mutation names; none for a delete of a whole row.
    pub(crate) fn families(&self) -> impl Iterator<Item = &Bytes> {
        let (cells, scopes, counters): (&[Column], &[DeleteScope], &[Counter]) = match self {
            Self::Put(put) => (&put.cells, &[], &[]),
            Self::Delete(delete) => (&[], &delete.scopes, &[]),
            Self::Increment(increment) => (&[], &[], &increment.columns),
            Self::Append(append) => (&append.cells, &[], &[]),
        };
        cells
            .iter()
            .map(|cell| &cell.family)
            .chain(scopes.iter().map(DeleteScope::family))
            .chain(counters.iter().map(|counter| &counter.family))
    }

    /// The bytes of keys and values together, without the protocol's own.
    #[must_use]
    pub fn size(&self) -> usize {
        let of_cells = |cells: &[Column]| {
            cells
                .iter()
                .map(|cell| cell.family.len() + cell.qualifier.len() + cell.value.len())
                .sum::<usize>()
        };
        self.row().len()
            + match self {
                Self::Put(put) => of_cells(&put.cells),
                Self::Append(append) => of_cells(&append.cells),
                Self::Delete(delete) => delete.scopes.iter().map(DeleteScope::size).sum(),
                Self::Increment(increment) => increment
                    .columns
                    .iter()
                    .map(|counter| counter.family.len() + counter.qualifier.len() + size_of::<i64>())
                    .sum(),
            }
    }

    /// Refuses what HBase would refuse, or would take and mean something else by.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput), naming the mutation's row.
    pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
        match self {
            Self::Put(put) => put.check(limits),
            Self::Delete(delete) => delete.check(),
            Self::Increment(increment) => increment.check(limits),
            Self::Append(append) => append.check(limits),
        }
        .map_err(|error| self.blame(error))
    }

    /// Says that this mutation is the one that the error is about.
    pub(crate) fn blame(&self, error: Error) -> Error {
        let operation = match self {
            Self::Put(_) => "put",
            Self::Delete(_) => "delete",
            Self::Increment(_) => "increment",
            Self::Append(_) => "append",
        };
        blame_row(error.at_operation(operation), self.row())
    }
}

/// Says that an error is about a row. A row that is refused for its length would fill the screen.
pub(crate) fn blame_row(error: Error, row: &Bytes) -> Error {
    match row.len() {
        0 => error,
        1..=SHOWN_ROW => error.at_row(&BytesBinary(row)),
        _ => error.at_row(&format_args!("{}…", BytesBinary(&row[..SHOWN_ROW]))),
    }
}

impl From<Put> for Mutation {
    fn from(put: Put) -> Self {
        Self::Put(put)
    }
}

impl From<Delete> for Mutation {
    fn from(delete: Delete) -> Self {
        Self::Delete(delete)
    }
}

impl From<Increment> for Mutation {
    fn from(increment: Increment) -> Self {
        Self::Increment(increment)
    }
}

impl From<Append> for Mutation {
    fn from(append: Append) -> Self {
        Self::Append(append)
    }
}

pub(super) fn set_ttl(attributes: &mut Vec<(String, Bytes)>, ttl: Duration) {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let value = Bytes::copy_from_slice(&millis.to_be_bytes());
    set_attribute(attributes, TTL_ATTRIBUTE.to_owned(), value);
}

pub(super) fn set_attribute(attributes: &mut Vec<(String, Bytes)>, name: String, value: Bytes) {
    attributes.retain(|(existing, _)| *existing != name);
    attributes.push((name, value));
}

pub(super) fn check_row(row: &Bytes) -> Result<()> {
    match row.len() {
        0 => Err(Error::invalid("an empty row key")),
        1..=MAX_ROW => Ok(()),
        length => Err(Error::invalid(format!(
            "a row key of {length} bytes; HBase takes {MAX_ROW} at most"
        ))),
    }
}

/// Refuses a TTL that the server could not read, or would read as one of long ago.
pub(super) fn check_attributes(attributes: &[(String, Bytes)]) -> Result<()> {
    let Some((_, value)) = attributes.iter().find(|(name, _)| name == TTL_ATTRIBUTE) else {
        return Ok(());
    };
    match value.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)) {
        Some(millis) if value.len() == 8 && (1..=LONGEST_TTL).contains(&millis) => Ok(()),
        _ => Err(Error::invalid(
            "a TTL is at least one whole millisecond, and at most 146 million years",
        )),
    }
}

pub(super) fn check_family(family: &Bytes) -> Result<()> {
    match family.len() {
        0 => Err(Error::invalid("an empty column family")),
        1..=MAX_FAMILY => Ok(()),
        length => Err(Error::invalid(format!(
            "a family name of {length} bytes; HBase takes {MAX_FAMILY} at most"
        ))),
    }
}

fn check_timestamp(timestamp: Option<u64>) -> Result<()> {
    match timestamp {
        Some(timestamp) if timestamp >= LATEST_TIMESTAMP => Err(Error::invalid(format!(
            "timestamp {timestamp} is out of range; leave it out for the server's own time"
        ))),
        _ => Ok(()),
    }
}

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "put {} ({} cells)", BytesBinary(&self.row), self.cells.len())
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

#[cfg(test)]
mod tests;
