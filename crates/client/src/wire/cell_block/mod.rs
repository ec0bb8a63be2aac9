//! Cells after a message: key-values, one after the other.
//!
//! ```text
//! int32 rest of this cell, int32 key, int32 value,
//! key: int16 row, row, int8 family, family, qualifier, int64 timestamp, int8 kind
//! value
//! uint16 tags, tags: only with KeyValueCodecWithTags, and not when the cell has none
//! ```

use std::iter;

use bytes::{Buf, BufMut, Bytes};

use crate::model::{Cell, CellKind};

mod tags;

pub(crate) use tags::Tags;

/// The encoding of a connection's cells, which is negotiated when the connection is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Codec {
    /// Without tags. Servers create tags from attributes, so writes need no tags.
    #[default]
    KeyValue,
    /// With the server's tags, for example a TTL.
    KeyValueWithTags,
}

impl Codec {
    /// Returns the Java class of the codec.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::KeyValue => "org.apache.hadoop.hbase.codec.KeyValueCodec",
            Self::KeyValueWithTags => "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags",
        }
    }
}

/// The fixed width of a key's parts: the lengths of row and family, the timestamp, the kind.
const KEY_OVERHEAD: usize = 2 + 1 + 8 + 1;

/// The number of bytes of a cell whose row, family, qualifier and value are empty.
pub(crate) const SHORTEST_CELL: usize = 4 + 4 + 4 + KEY_OVERHEAD;

/// A cell to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellRef<'a> {
    pub(crate) row: &'a [u8],
    pub(crate) family: &'a [u8],
    pub(crate) qualifier: &'a [u8],
    pub(crate) timestamp: u64,
    pub(crate) kind: CellKind,
    pub(crate) value: &'a [u8],
}

/// Why bytes are not a block of cells, or a cell cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CellBlockError {
    #[error("the block ends in the middle of a cell")]
    Truncated,
    #[error("the {part} of a cell has the negative length {len}")]
    NegativeLength { part: &'static str, len: i64 },
    #[error("the lengths of a cell contradict each other: {part}")]
    Contradiction { part: &'static str },
    #[error("only puts and deletes have cells of their own")]
    NoCells,
    #[error("the {part} is {len} bytes long, and a cell has room for {limit}")]
    TooLong {
        part: &'static str,
        len: usize,
        limit: usize,
    },
}

/// Reads a block cell by cell, without allocating. Ends after an error.
#[derive(Clone, Debug)]
pub(crate) struct CellBlockDecoder {
    rest: Bytes,
    codec: Codec,
}

impl CellBlockDecoder {
    /// Creates a reader of a block with this encoding. An empty block has no cells.
    pub(crate) const fn new(block: Bytes, codec: Codec) -> Self {
        Self { rest: block, codec }
    }

    /// Returns the encoding of the cells.
    pub(crate) const fn codec(&self) -> Codec {
        self.codec
    }

    /// Returns the number of bytes that were not read yet.
    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    /// Returns whether all cells were read.
    #[cfg(test)]
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

impl Iterator for CellBlockDecoder {
    type Item = Result<Cell, CellBlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let cell = read_cell(&mut self.rest, self.codec);
        if cell.is_err() {
            self.rest.clear();
        }
        Some(cell)
    }
}

fn read_cell(block: &mut Bytes, codec: Codec) -> Result<Cell, CellBlockError> {
    let too_long = |part| CellBlockError::Contradiction { part };
    let mut rest: &[u8] = block;
    let len = length(&mut rest, "whole")?;
    let mut cell = take(&mut rest, len)?;
    let key_len = length(&mut cell, "key")?;
    let value_len = length(&mut cell, "value")?;
    let behind = key_len
        .checked_add(value_len)
        .and_then(|len| cell.len().checked_sub(len))
        .filter(|behind| *behind == 0 || codec == Codec::KeyValueWithTags)
        .ok_or_else(|| too_long("key and value are not the whole"))?;
    let mut key = take(&mut cell, key_len)?;
    let value = take(&mut cell, value_len)?;
    let tags = match behind {
        0 => cell,
        _ => tags_of(cell)?,
    };

    let row_len = key.try_get_i16().map_err(|_| too_long("the key is too short"))?;
    let row_len = non_negative(row_len.into(), "row")?;
    let row = take(&mut key, row_len).map_err(|_| too_long("the row is longer than the key"))?;
    let family_len = key.try_get_i8().map_err(|_| too_long("the key is too short"))?;
    let family_len = non_negative(family_len.into(), "family")?;
    let family = take(&mut key, family_len).map_err(|_| too_long("the family is longer than the key"))?;
    let qualifier_len = key
        .len()
        .checked_sub(8 + 1)
        .ok_or_else(|| too_long("the key is too short"))?;
    let qualifier = take(&mut key, qualifier_len)?;
    let timestamp = key.get_u64();
    let kind = CellKind::from_code(key.get_u8());
    let tags = Tags::read(timestamp, tags)?;
    // Each slice counts a reference to the block: only those that the cell keeps.
    let part = |part| block.slice_ref(part);
    let cell = Cell::new(
        part(row),
        part(family),
        part(qualifier),
        timestamp,
        kind,
        part(value),
    );
    block.advance(4 + len);
    Ok(cell.tagged(tags.expiry, tags.has_access_rules))
}

/// Returns the tags of a cell, without the length before them.
fn tags_of(mut behind: &[u8]) -> Result<&[u8], CellBlockError> {
    match behind.try_get_u16() {
        Ok(len) if usize::from(len) == behind.len() => Ok(behind),
        _ => Err(CellBlockError::Contradiction {
            part: "key, value and tags are not the whole",
        }),
    }
}

fn length(bytes: &mut &[u8], part: &'static str) -> Result<usize, CellBlockError> {
    let len = bytes.try_get_i32().map_err(|_| CellBlockError::Truncated)?;
    non_negative(len.into(), part)
}

fn non_negative(len: i64, part: &'static str) -> Result<usize, CellBlockError> {
    usize::try_from(len).map_err(|_| CellBlockError::NegativeLength { part, len })
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], CellBlockError> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or(CellBlockError::Truncated)?;
    *bytes = rest;
    Ok(taken)
}

/// Appends a cell to a block. Leaves the block unchanged on an error.
pub(crate) fn encode_cell(block: &mut Vec<u8>, cell: &CellRef<'_>) -> Result<(), CellBlockError> {
    let limited = |part, len: usize, limit: usize| {
        if len <= limit {
            Ok(len)
        } else {
            Err(CellBlockError::TooLong { part, len, limit })
        }
    };
    let row = limited("row", cell.row.len(), i16::MAX as usize)?;
    let family = limited("family", cell.family.len(), i8::MAX as usize)?;
    let key = KEY_OVERHEAD + row + family + cell.qualifier.len();
    let len = limited(
        "cell",
        key.saturating_add(cell.value.len()).saturating_add(4 + 4),
        i32::MAX as usize,
    )?;
    block.reserve(4 + len);
    // All of these fit, because they are parts of `len`, which fits.
    block.put_i32(len as i32);
    block.put_i32(key as i32);
    block.put_i32(cell.value.len() as i32);
    block.put_i16(row as i16);
    block.put_slice(cell.row);
    block.put_i8(family as i8);
    block.put_slice(cell.family);
    block.put_slice(cell.qualifier);
    block.put_u64(cell.timestamp);
    block.put_u8(cell.kind.code());
    block.put_slice(cell.value);
    Ok(())
}

/// `HConstants.LATEST_TIMESTAMP`: the server replaces it by its own time.
pub(crate) const LATEST: u64 = i64::MAX as u64;

/// A cell of a block that was encoded here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedCell<'a> {
    pub(crate) family: &'a [u8],
    pub(crate) qualifier: &'a [u8],
    pub(crate) timestamp: u64,
}

/// Returns the cells of a block that was encoded here.
pub(crate) fn encoded_cells(mut block: &[u8]) -> impl Iterator<Item = EncodedCell<'_>> {
    iter::from_fn(move || {
        let (_, len) = (block.try_get_u32().ok()?, block.try_get_u32().ok()? as usize);
        let value = block.try_get_u32().ok()? as usize;
        let (mut key, rest) = block.split_at_checked(len)?;
        block = rest.get(value..)?;
        let row = usize::from(key.try_get_u16().ok()?);
        key = key.get(row..)?;
        let family = usize::from(key.try_get_u8().ok()?);
        let (family, key) = key.split_at_checked(family)?;
        let (qualifier, behind) = key.split_at_checked(key.len().checked_sub(9)?)?;
        Some(EncodedCell {
            family,
            qualifier,
            timestamp: u64::from_be_bytes(*behind.first_chunk()?),
        })
    })
}

/// Replaces a timestamp of the cells of a block that was encoded here.
pub(crate) fn stamp_cells(mut block: &mut [u8], old: u64, new: u64) {
    let (old, new) = (old.to_be_bytes(), new.to_be_bytes());
    while let Some((header, cells)) = block.split_first_chunk_mut::<12>() {
        let number = |at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_be_bytes(bytes) as usize
        };
        // The whole, without its own length, and the key.
        let (len, key) = (number(0), number(4));
        let Some((cell, rest)) = cells.split_at_mut_checked(len - 8) else {
            return;
        };
        let timestamp = &mut cell[key - 9..key - 1];
        if timestamp == old {
            timestamp.copy_from_slice(&new);
        }
        block = rest;
    }
}

#[cfg(test)]
mod tests;
