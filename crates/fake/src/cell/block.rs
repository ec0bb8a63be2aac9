//! Cells outside of messages, as `KeyValueCodec` and `KeyValueCodecWithTags` write them.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Cell, Heap, Kind};
use crate::exception::{Exception, Result};

/// Row length, family length, timestamp and type.
const KEY_EXTRA: usize = 2 + 1 + 8 + 1;
/// The type of the tag with the life of a cell.
const TTL_TAG: u8 = 8;

/// The cells behind a request's message, which its mutations take in order.
#[derive(Debug)]
pub(crate) struct Cells {
    block: Bytes,
    tags: bool,
}

/// Appends cells. Without tags, a cell's life is not sent.
pub(crate) fn encode_block(cells: &[Cell], tags: bool, out: &mut BytesMut) {
    for cell in cells {
        let key = KEY_EXTRA + cell.row.len() + cell.family.len() + cell.qualifier.len();
        let ttl = cell.ttl.filter(|_| tags);
        let tag_bytes = if ttl.is_some() { 2 + 2 + 1 + 8 } else { 0 };
        put_length(out, 8 + key + cell.value.len() + tag_bytes);
        put_length(out, key);
        put_length(out, cell.value.len());
        out.put_u16(u16::try_from(cell.row.len()).unwrap_or(u16::MAX));
        out.put_slice(&cell.row);
        out.put_u8(u8::try_from(cell.family.len()).unwrap_or(u8::MAX));
        out.put_slice(&cell.family);
        out.put_slice(&cell.qualifier);
        out.put_u64(cell.timestamp);
        out.put_u8(cell.kind as u8);
        out.put_slice(&cell.value);
        if let Some(ttl) = ttl {
            out.put_u16(2 + 1 + 8);
            out.put_u16(1 + 8);
            out.put_u8(TTL_TAG);
            out.put_u64(ttl);
        }
    }
}

fn put_length(out: &mut BytesMut, length: usize) {
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

impl Cells {
    pub(crate) fn new(block: Bytes, tags: bool) -> Self {
        Self { block, tags }
    }

    /// Takes the next cells.
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<Cell>> {
        (0..count).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> Result<Cell> {
        let mut bytes = self.slice(None)?;
        let (key, value) = (length(&mut bytes)?, length(&mut bytes)?);
        let mut key = part(&mut bytes, key)?;
        let value = part(&mut bytes, value)?;
        let row = key.try_get_u16().map_err(|_| truncated())?;
        let row = part(&mut key, usize::from(row))?;
        let family = key.try_get_u8().map_err(|_| truncated())?;
        let family = part(&mut key, usize::from(family))?;
        let qualifier = key.len().checked_sub(9).ok_or_else(truncated)?;
        let qualifier = part(&mut key, qualifier)?;
        let timestamp = key.get_u64();
        let kind = Kind::from_code(key.get_u8()).ok_or_else(|| Exception::io("unknown type of a cell"))?;
        if self.tags && !bytes.is_empty() {
            return Err(Exception::not_modelled("tags that a client sends"));
        }
        Ok(Cell {
            row,
            family,
            qualifier,
            timestamp,
            kind,
            sequence: 0,
            value,
            ttl: None,
            heap: Heap::default(),
        })
    }

    fn slice(&mut self, size: Option<usize>) -> Result<Bytes> {
        let size = match size {
            Some(size) => size,
            None => length(&mut self.block)?,
        };
        part(&mut self.block, size)
    }
}

fn length(bytes: &mut Bytes) -> Result<usize> {
    let length = bytes.try_get_u32().map_err(|_| truncated())?;
    usize::try_from(length).map_err(|_| truncated())
}

fn part(bytes: &mut Bytes, size: usize) -> Result<Bytes> {
    if size <= bytes.len() {
        Ok(bytes.split_to(size))
    } else {
        Err(truncated())
    }
}

fn truncated() -> Exception {
    Exception::io("the cell block is truncated")
}
