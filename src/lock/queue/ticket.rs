//! The tickets of processes that wait for a lock: cells in the lock's first row.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hbase_client::Cell;

use crate::lock::protocol::owner::LockToken;

/// The number of columns for tickets. A process that finds none free comes after all processes with
/// a ticket.
pub(super) const SLOTS: u8 = 64;
/// The first byte of these columns; the slot follows.
pub(super) const COLUMN: u8 = b'Q';
/// The TTL of a ticket, and so the longest time by which a process that died delays the others.
pub(in crate::lock) const TICKET_TTL: Duration = Duration::from_secs(3);

/// A ticket as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(in crate::lock) slot: u8,
    /// When its process began to wait, by the server's clock; 0 if its cell dates from then.
    waited_since: u64,
    /// The timestamp of its cell.
    pub(super) written: u64,
    pub(in crate::lock) id: LockToken,
    /// How many holds of the row its process needs.
    pub(super) need: u32,
}

impl Ticket {
    /// Decodes a cell. Returns `None` for other columns, and for a slot that was given up.
    pub(in crate::lock) fn of(cell: &Cell) -> Option<Self> {
        let [COLUMN, slot] = cell.qualifier[..] else {
            return None;
        };
        let mut value = &cell.value[..];
        let waited_since = value.try_get_u64().ok()?;
        let id = LockToken::of_bits(value.try_get_u128().ok()?);
        let need = match value {
            [] => 1,
            _ => value.try_get_u32().ok().filter(|need| *need > 1)?,
        };
        (value.is_empty() && slot < SLOTS).then_some(Self {
            slot,
            waited_since,
            written: cell.timestamp,
            id,
            need,
        })
    }

    /// Returns when its process began to wait, by the server's clock.
    pub(in crate::lock) fn since(&self) -> u64 {
        match self.waited_since {
            0 => self.written,
            since => since,
        }
    }

    /// Orders tickets by arrival; the id breaks ties.
    pub(in crate::lock) fn order(&self) -> (u64, u128) {
        (self.since(), self.id.bits())
    }

    /// Returns the value of its cell.
    pub(in crate::lock) fn value(&self) -> Bytes {
        encode(self.waited_since, self.id, self.need)
    }
}

/// Returns the value of the cell of a process that began to wait at this time of the server's clock, or
/// 0 if it begins with this cell. A need of one is not written.
pub(in crate::lock) fn encode(waited_since: u64, id: LockToken, need: u32) -> Bytes {
    let mut value = BytesMut::with_capacity(28);
    value.put_u64(waited_since);
    value.put_u128(id.bits());
    if need != 1 {
        value.put_u32(need);
    }
    value.freeze()
}
