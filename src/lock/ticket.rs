//! The tickets of processes that wait for a lock: cells in the lock's first row.

use std::time::Duration;

use bytes::Buf;
use hbase_client::Cell;

use super::owner::LockToken;

/// The number of columns for tickets. A process that finds none free comes after all processes with
/// a ticket.
pub(super) const SLOTS: u8 = 64;
/// The first byte of these columns; the slot follows.
pub(super) const COLUMN: u8 = b'Q';
/// The TTL of a ticket, and so the longest time by which a process that died delays the others.
pub(super) const TICKET_TTL: Duration = Duration::from_secs(3);

/// A ticket as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(super) slot: u8,
    /// When its process began to wait, by the server's clock.
    pub(super) since: u64,
    /// The timestamp of its cell.
    written: u64,
    pub(super) id: LockToken,
}

impl Ticket {
    /// Decodes a cell. Returns `None` for other columns, and for a slot that was given up.
    pub(super) fn of(cell: &Cell) -> Option<Self> {
        let [COLUMN, slot] = cell.qualifier[..] else {
            return None;
        };
        let mut value = &cell.value[..];
        let since = value.try_get_u64().ok()?;
        let id = LockToken::of_bits(value.try_get_u128().ok()?);
        (value.is_empty() && slot < SLOTS).then_some(Self {
            slot,
            since: if since == 0 { cell.timestamp } else { since },
            written: cell.timestamp,
            id,
        })
    }

    /// Orders tickets by arrival; the id breaks ties.
    pub(super) fn order(&self) -> (u64, u128) {
        (self.since, self.id.bits())
    }
}
