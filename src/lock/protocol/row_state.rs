//! One row of a lock as it was read.

use bytes::Bytes;
use hbase_client::{Cell, Get, Row};

use super::{
    layout::{Columns, LockRows},
    owner::{HeldBy, LockToken, Millis, Owner},
};
use crate::lock::queue::ticket::Ticket;

/// One row of a lock at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowState {
    marker: Option<CellState>,
    owner: Option<CellState>,
    /// The timestamp of the fencing cell.
    pub(crate) fencing: Option<u64>,
    /// The value of the fencing cell: how often the lock was acquired, renewed or revoked.
    pub(in crate::lock) changes: Option<u64>,
    /// The fencing number of the last hold: the timestamp of the fencing cell, or of the common
    /// number where holds share a row.
    pub(crate) number: Option<i64>,
    /// The tickets of waiting processes. Only in the first row of a lock; of a row of slots, `SlotsSeen` has them.
    pub(in crate::lock) tickets: Vec<Ticket>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CellState {
    timestamp: u64,
    value: Bytes,
}

impl CellState {
    fn of(cell: &Cell) -> Self {
        Self {
            timestamp: cell.timestamp,
            value: Bytes::copy_from_slice(&cell.value),
        }
    }
}

/// A token's lease on one row of a lock: the cells that must be unchanged for the hold to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowLease {
    /// The timestamp of marker and owner cell.
    pub(crate) timestamp: u64,
    /// The exact value of the owner cell.
    pub(crate) value: Bytes,
    pub(crate) held: HeldBy,
}

/// The cells that an owner left on a row, or will leave there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remains {
    pub(crate) timestamp: u64,
    ttl: Millis,
}

impl Remains {
    /// Returns the horizon: the time until which these cells and those under them may live.
    pub(crate) fn horizon(self) -> u64 {
        self.timestamp.saturating_add(self.ttl.0)
    }
}

/// The holder of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// A client of this library.
    Ours { since: u64, held: HeldBy },
    /// A client that writes a marker, but no owner that this library can read.
    Foreign { since: u64, marker: Bytes },
}

impl Occupant {
    pub(in crate::lock) fn token(&self) -> Option<LockToken> {
        match self {
            Self::Ours { held, .. } => Some(held.token),
            Self::Foreign { .. } => None,
        }
    }

    /// Returns when the row was taken, by the clock of its server then. A renewal does not change it.
    pub(in crate::lock) fn since(&self) -> u64 {
        match self {
            Self::Ours { since, .. } | Self::Foreign { since, .. } => *since,
        }
    }
}

/// Returns the fencing number that a timestamp is. `None` if Java would take it for a negative one,
/// which HBase never stamps.
pub(crate) fn fencing_number(timestamp: u64) -> Option<i64> {
    i64::try_from(timestamp).ok()
}

/// Returns the read of one row of a lock.
pub(crate) fn get(rows: &LockRows, index: usize) -> Get {
    let columns = rows.columns(index);
    // Including the tickets of waiting processes.
    if index == 0 && rows.has_queue() {
        return Get::new(rows.rows[index].clone()).family(rows.family.clone());
    }
    let get = Get::new(rows.rows[index].clone())
        .column(rows.family.clone(), columns.marker.clone())
        .column(rows.family.clone(), columns.owner.clone())
        .column(rows.family.clone(), columns.fencing.clone());
    if columns.number == columns.fencing {
        get
    } else {
        get.column(rows.family.clone(), columns.number.clone())
    }
}

/// Returns the read of a row before it is taken, for the cells that earlier holders left there.
pub(crate) fn get_remains(rows: &LockRows, index: usize) -> Get {
    Get::new(rows.rows[index].clone()).column(rows.family.clone(), rows.columns(index).owner.clone())
}

impl RowState {
    pub(crate) fn of(family: &[u8], columns: &Columns, row: Option<&Row>) -> Self {
        let cell = |qualifier: &Bytes| row?.cell(family, qualifier);
        let cells = row.map(Row::cells).unwrap_or_default().iter();
        Self {
            tickets: cells.filter_map(Ticket::of).collect(),
            ..Self::of_cells(
                cell(&columns.marker),
                cell(&columns.owner),
                cell(&columns.fencing),
                cell(&columns.number),
            )
        }
    }

    pub(crate) fn of_cells(
        marker: Option<&Cell>,
        owner: Option<&Cell>,
        fencing: Option<&Cell>,
        number: Option<&Cell>,
    ) -> Self {
        Self {
            // An empty value counts as absent, as it does for HBase's own "if not exists".
            marker: marker.map(CellState::of),
            owner: owner.map(CellState::of),
            fencing: fencing.map(|cell| cell.timestamp),
            changes: fencing.and_then(|cell| cell.value[..].try_into().ok().map(u64::from_be_bytes)),
            number: number.and_then(|cell| fencing_number(cell.timestamp)),
            tickets: Vec::new(),
        }
    }

    /// Returns the state of a free row for which processes with these tickets wait.
    pub(in crate::lock) fn awaited_by(tickets: Vec<Ticket>) -> Self {
        Self {
            tickets,
            ..Self::default()
        }
    }

    /// Returns whether a process waits for the lock.
    pub(in crate::lock) fn is_awaited(&self) -> bool {
        !self.tickets.is_empty()
    }

    /// Returns the marker if the row is taken.
    fn held_marker(&self) -> Option<&CellState> {
        self.marker.as_ref().filter(|marker| !marker.value.is_empty())
    }

    /// Returns the marker and its timestamp if the row is taken.
    #[cfg(feature = "thrift")]
    pub(crate) fn mark(&self) -> Option<(u64, &Bytes)> {
        let marker = self.held_marker()?;
        Some((marker.timestamp, &marker.value))
    }

    fn decoded(&self) -> Option<(&CellState, Owner)> {
        let seen = self.owner.as_ref()?;
        Some((seen, Owner::decode(&seen.value)?))
    }

    /// Returns what this token wrote to the row last.
    fn written(&self, token: LockToken) -> Option<RowLease> {
        match self.decoded()? {
            (seen, Owner::Held(held)) if held.token == token => Some(RowLease {
                timestamp: seen.timestamp,
                value: seen.value.clone(),
                held,
            }),
            _ => None,
        }
    }

    /// Returns this token's lease on the row. Marker and owner cell were written together, so they
    /// have one timestamp.
    pub(crate) fn lease_of(&self, token: LockToken) -> Option<RowLease> {
        let marker = self.held_marker()?;
        let written = self.written(token)?;
        (written.timestamp == marker.timestamp).then_some(written)
    }

    /// Returns what this token wrote to the row without acquiring it: the delete marker of a
    /// release in the same millisecond hides the marker that was written with it.
    pub(in crate::lock) fn hidden(&self, token: LockToken) -> Option<RowLease> {
        match self.lease_of(token) {
            Some(_) => None,
            None => self.written(token),
        }
    }

    /// Returns the holder of the row, if it is held.
    pub(crate) fn occupant(&self) -> Option<Occupant> {
        let marker = self.held_marker()?;
        Some(match self.decoded() {
            // An older owner cell is from a holder before the client that wrote the marker and no
            // owner.
            Some((seen, Owner::Held(held))) if seen.timestamp >= marker.timestamp => Occupant::Ours {
                since: seen.timestamp,
                held,
            },
            _ => Occupant::Foreign {
                since: marker.timestamp,
                marker: marker.value.clone(),
            },
        })
    }

    /// Returns the marker by which an occupant holds the row, if it still does, and its timestamp.
    pub(super) fn marker_of(&self, occupant: &Occupant) -> Option<(u64, &Bytes)> {
        let marker = self.held_marker()?;
        let is_his = match (occupant, self.occupant()?) {
            (Occupant::Ours { held, .. }, Occupant::Ours { held: now, .. }) => held.token == now.token,
            (before, now) => *before == now,
        };
        is_his.then_some((marker.timestamp, &marker.value))
    }

    /// Returns what the last owner left when it released the row, or will leave if it holds it.
    pub(crate) fn remains(&self) -> Option<Remains> {
        let (seen, owner) = self.decoded()?;
        let ttl = match owner {
            Owner::Free { ttl } | Owner::FreedUnconditionally { ttl } => ttl,
            // The cells under it count from the timestamp before: see `RowLease::before`.
            Owner::Held(held) => held
                .over
                .map_or(held.ttl, |over| held.ttl.max(Millis(over.0.saturating_sub(1)))),
        };
        Some(Remains {
            timestamp: seen.timestamp,
            ttl,
        })
    }

    /// Returns whether this lease on the row was released.
    pub(crate) fn was_given_back(&self, row_lease: &RowLease) -> bool {
        matches!(
            self.decoded(),
            Some((seen, Owner::Free { .. } | Owner::FreedUnconditionally { .. }))
                if seen.timestamp == row_lease.timestamp
        )
    }

    /// Returns whether a late copy of the release that freed the row would overwrite this lease.
    pub(super) fn may_be_freed_again(&self, row_lease: &RowLease) -> bool {
        matches!(
            self.decoded(),
            Some((seen, Owner::FreedUnconditionally { .. })) if seen.timestamp == row_lease.timestamp
        )
    }
}

impl RowLease {
    /// Returns the known state of the row before it was taken: the value that the hold was appended
    /// to, or the record of what was cleared. The server stamped the hold later than that.
    pub(crate) fn before(&self) -> RowState {
        let owner = self.held.over.map(|ttl| CellState {
            timestamp: self.timestamp.saturating_sub(1),
            value: Owner::Free { ttl }.encode(),
        });
        RowState {
            owner,
            ..RowState::default()
        }
    }

    /// Returns how long after its timestamp a cell may live on the row, according to its owner
    /// cell.
    pub(crate) fn whole_depth(&self) -> Millis {
        self.depth(&self.before())
    }

    /// Returns when the lease ends by the server's clock.
    pub(crate) fn end(&self) -> u64 {
        self.timestamp.saturating_add(self.held.ttl.0)
    }

    /// Returns the cells that were on the row before it was taken, if they may outlive the lease.
    pub(crate) fn outlived_by(&self, before: &RowState) -> Option<Remains> {
        before.remains().filter(|remains| self.end() < remains.horizon())
    }

    /// Returns how long after the lease's timestamp a cell may live on the row: of the lease, or of
    /// those before it.
    pub(crate) fn depth(&self, before: &RowState) -> Millis {
        let outlived_by = self.outlived_by(before);
        outlived_by.map_or(self.held.ttl, |remains| {
            Millis(remains.horizon().saturating_sub(self.timestamp))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::layout::{LockRows, MARKER, OWNER},
        *,
    };
    use hbase_client::{CellKind, SystemEnvironment};

    fn row(cells: &[(Bytes, u64, Bytes)]) -> Row {
        let cells = cells
            .iter()
            .map(|(qualifier, timestamp, value)| {
                Cell::new(
                    "r".into(),
                    "D".into(),
                    qualifier.clone(),
                    *timestamp,
                    CellKind::Put,
                    value.clone(),
                )
            })
            .collect();
        Row::new("r".into(), cells)
    }

    fn held(token: LockToken) -> HeldBy {
        HeldBy {
            token,
            renewal: 0,
            ttl: Millis(1_000),
            lease: Millis(1_000),
            holder: "holder".into(),
            over: None,
        }
    }

    #[test]
    fn timestamp_that_java_takes_for_negative_is_no_number() {
        let of = |timestamp| {
            let row = row(&[(MARKER, timestamp, Bytes::new())]);
            let cell = row.cells().first();
            RowState::of_cells(None, None, cell, cell).number
        };
        assert_eq!(of(7), Some(7));
        assert_eq!(of(1 << 63), None);
    }

    #[test]
    fn owner_cell_states_the_life_of_cells_under_it() {
        let row_lease = |over| RowLease {
            timestamp: 100,
            value: Bytes::new(),
            held: HeldBy {
                over,
                ..held(LockToken::unique(&SystemEnvironment))
            },
        };
        let depth = |over| {
            let row_lease = row_lease(over);
            row_lease.depth(&row_lease.before())
        };
        assert_eq!(row_lease(None).before().remains(), None);
        assert_eq!(depth(None), Millis(1_000));
        assert_eq!(depth(Some(Millis(500))), Millis(1_000));
        let long = Some(Millis(5_000));
        assert_eq!(row_lease(long).before().remains().unwrap().horizon(), 99 + 5_000);
        assert_eq!(depth(long), Millis(4_999));
    }

    #[test]
    fn remains_live_as_long_as_cells_under_them() {
        let rows = LockRows::alone("D".into(), "r".into());
        let horizon = |over| {
            let owner = Owner::Held(HeldBy {
                over,
                ..held(LockToken::unique(&SystemEnvironment))
            });
            let state = RowState::of(b"D", rows.columns(0), Some(&row(&[(OWNER, 100, owner.encode())])));
            state.remains().unwrap().horizon()
        };
        assert_eq!(horizon(None), 100 + 1_000);
        assert_eq!(horizon(Some(Millis(500))), 100 + 1_000);
        assert_eq!(horizon(Some(Millis(5_000))), 99 + 5_000);
    }

    #[test]
    fn marker_without_owner_is_foreign_and_empty_marker_is_free() {
        let token = LockToken::unique(&SystemEnvironment);
        let rows = LockRows::alone("D".into(), "r".into());
        let ours = Owner::Held(held(token)).encode();
        let free = Owner::Free { ttl: Millis(9) }.encode();
        let marker = |value: &'static str| (MARKER, 5, Bytes::from_static(value.as_bytes()));
        let cases = [
            (vec![], true, false, false),
            (vec![marker("M"), (OWNER, 5, ours.clone())], false, true, false),
            // The cells of an older owner.
            (vec![marker("M"), (OWNER, 4, ours.clone())], false, false, true),
            (vec![marker("M"), (OWNER, 4, free.clone())], false, false, true),
            (vec![marker("X")], false, false, true),
            (vec![marker("M"), (OWNER, 5, "?".into())], false, false, true),
            (vec![marker(""), (OWNER, 5, free)], true, false, false),
            (vec![(OWNER, 5, ours)], true, false, false),
        ];
        for (cells, is_free, is_ours, is_foreign) in cases {
            let state = RowState::of(b"D", rows.columns(0), Some(&row(&cells)));
            assert_eq!(state.occupant().is_none(), is_free, "{state:?}");
            assert_eq!(state.lease_of(token).is_some(), is_ours, "{state:?}");
            assert_eq!(state.lease_of(LockToken::unique(&SystemEnvironment)), None);
            let foreign = matches!(state.occupant(), Some(Occupant::Foreign { .. }));
            assert_eq!(foreign, is_foreign, "{state:?}");
        }
    }
}
