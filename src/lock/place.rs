//! The rows of one lock in their table, and calls that read and change them.
//!
//! Each call is one `Multi`: the server does its actions in their order, and each action on a row is atomic with its
//! condition. What a call did is judged by the reads at its end and by nothing else.

use std::{fmt, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    layout::{FENCING, HELD, LockRows, MARKER, OWNER},
    owner::{HeldBy, Millis, Owner},
    sight::{self, Grip, Sight},
};
use crate::{
    client::{ActionAnswer, CallKind, MultiCall, RegionAction, RegionGuard, ServingRegion, Table, Verdict},
    error::{Error, ErrorKind, Result},
    model::{Append, BytesBinary, Delete, Durability, Increment, Mutation, Put},
    wire::condition,
};

/// How long a fencing cell is kept from the last change on: longer than clocks of servers differ, so that the next number
/// is higher; not for ever, or every id would leave a cell behind.
const FENCING_TTL: Duration = Duration::from_secs(7 * 24 * 3_600);

/// One lock in its table.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) table: Table,
    pub(super) rows: LockRows,
    /// How long the family keeps a cell from its timestamp on, whatever the cell's own TTL; none when that is for ever.
    pub(super) cells_live: Option<Duration>,
}

/// A change of a lock, or of several that are in one region, made row by row.
pub(super) struct Change<'a> {
    /// What is being done, for errors.
    pub(super) operation: &'static str,
    pub(super) actions: Vec<RegionAction>,
    /// Whether the rows are looked at before the change too, for what remains there of others.
    pub(super) look_before: bool,
    pub(super) kind: CallKind,
    pub(super) deadline: Instant,
    pub(super) places: &'a [&'a Place],
}

/// What was seen of the rows, in their order.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// None when that was not asked for.
    pub(super) before: Option<Vec<Sight>>,
    pub(super) after: Vec<Sight>,
    /// Whether each change was made, in their order.
    pub(super) processed: Vec<bool>,
}

impl Place {
    /// An error of the lock of this name.
    pub(super) fn blame(&self, name: impl fmt::Display, error: Error) -> Error {
        error
            .at_operation(format!("lock {name}"))
            .at_table(self.table.name())
    }

    /// Takes one row, if nobody has it.
    pub(super) fn take(&self, index: usize, held: &HeldBy) -> RegionAction {
        RegionAction::Conditional {
            mutations: self.taking(index, held),
            condition: condition::cell_equals(&self.rows.rows[index], &self.rows.family, &MARKER, None),
        }
    }

    /// What takes a row that nobody has. The first row's fencing cell is counted on with it.
    pub(super) fn taking(&self, index: usize, held: &HeldBy) -> Vec<Mutation> {
        let row = self.rows.rows[index].clone();
        let family = &self.rows.family;
        let (owner, ttl) = (Owner::Held(held.clone()).encode(), held.ttl.into());
        let mark = match self.rows.appended {
            true => Append::new(row)
                .cell(family.clone(), MARKER, HELD)
                .cell(family.clone(), OWNER, owner)
                .ttl(ttl)
                .into(),
            false => Put::new(row)
                .cell(family.clone(), MARKER, HELD)
                .cell(family.clone(), OWNER, owner)
                .ttl(ttl)
                .into(),
        };
        let mut mutations = vec![mark];
        mutations.extend(self.count(index));
        mutations
    }

    /// Changes one row, if the grip on it still holds.
    pub(super) fn if_held(&self, index: usize, grip: &Grip, mutations: Vec<Mutation>) -> RegionAction {
        let LockRows { family, rows, .. } = &self.rows;
        RegionAction::Conditional {
            mutations,
            condition: condition::cell_equals(&rows[index], family, &OWNER, Some(&grip.value)),
        }
    }

    /// Changes one row, if its marker still has this value.
    pub(super) fn if_marked(&self, index: usize, marker: &Bytes, mutations: Vec<Mutation>) -> RegionAction {
        let LockRows { family, rows, .. } = &self.rows;
        RegionAction::Conditional {
            mutations,
            condition: condition::cell_equals(&rows[index], family, &MARKER, Some(marker)),
        }
    }

    /// Writes marker and owner anew at the timestamp that they have.
    pub(super) fn rewrite(
        &self,
        index: usize,
        grip: &Grip,
        marker: Bytes,
        owner: &Owner,
        ttl: Millis,
    ) -> Mutation {
        let family = &self.rows.family;
        Put::new(self.rows.rows[index].clone())
            .cell_at(family.clone(), MARKER, grip.timestamp, marker)
            .cell_at(family.clone(), OWNER, grip.timestamp, owner.encode())
            .ttl(ttl.into())
            .into()
    }

    /// Overwrites a marker at the timestamp that it has by an empty one.
    pub(super) fn blank(&self, index: usize, timestamp: u64) -> Mutation {
        Put::new(self.rows.rows[index].clone())
            .cell_at(self.rows.family.clone(), MARKER, timestamp, Bytes::new())
            .into()
    }

    /// Deletes marker and owner of one row, up to a timestamp.
    pub(super) fn clear(&self, index: usize, up_to: u64) -> Mutation {
        let family = &self.rows.family;
        Delete::new(self.rows.rows[index].clone())
            .column(family.clone(), MARKER)
            .column(family.clone(), OWNER)
            .timestamp(up_to)
            .into()
    }

    /// Counts the fencing cell on, where the row has it. The server stamps it later than it was, and not before now.
    pub(super) fn count(&self, index: usize) -> Option<Mutation> {
        (index == 0).then(|| {
            Increment::new(self.rows.rows[0].clone())
                .column(self.rows.family.clone(), FENCING, 1)
                .ttl(FENCING_TTL)
                .into()
        })
    }

    /// Makes changes, and reads the rows behind them.
    pub(super) async fn change(
        &self,
        operation: &'static str,
        actions: Vec<RegionAction>,
        deadline: Instant,
    ) -> Result<Vec<Sight>> {
        let change = Change {
            operation,
            actions,
            look_before: false,
            kind: CallKind::Write,
            deadline,
            places: &[self],
        };
        Ok(change.send().await?.after)
    }

    /// Reads the rows, in one call.
    pub(super) async fn look(&self, deadline: Instant) -> Result<Vec<Sight>> {
        let change = Change {
            operation: "reading the lock",
            actions: Vec::new(),
            look_before: false,
            kind: CallKind::Read,
            deadline,
            places: &[self],
        };
        Ok(change.send().await?.after)
    }
}

impl Change<'_> {
    pub(super) async fn send(self) -> Result<Looks> {
        let Some(first) = self.places.first() else {
            return Ok(Looks::default());
        };
        let rows = || {
            let rows = self.places.iter().map(|place| &place.rows);
            rows.flat_map(|rows| rows.rows.iter().map(move |row| (rows, row)))
        };
        let number = rows().count();
        let mut actions = Vec::with_capacity(2 * number + self.actions.len());
        if self.look_before {
            actions.extend(rows().map(|(rows, row)| RegionAction::Get(sight::get_remains(rows, row))));
        }
        actions.extend(self.actions);
        actions.extend(rows().map(|(rows, row)| RegionAction::Get(sight::get(rows, row))));
        let call = MultiCall {
            row: first.rows.lock_row().clone(),
            actions,
            // Whatever the table says: a hold that a crash forgets would be given away again.
            durability: Durability::SyncWal,
            kind: self.kind,
        };
        let guard = Together(self.places);
        let answers = first
            .table
            .multi_where(self.operation, &call, &guard, self.deadline)
            .await?;
        let processed = answers
            .iter()
            .filter_map(|answer| match answer {
                ActionAnswer::Processed { processed, .. } => Some(*processed),
                _ => None,
            })
            .collect();
        let mut sights = answers.iter().filter_map(|answer| match answer {
            ActionAnswer::Row(row) => Some(Sight::of(&first.rows.family, row.as_ref())),
            _ => None,
        });
        let before = self
            .look_before
            .then(|| sights.by_ref().take(number).collect::<Vec<_>>());
        let after = sights.collect();
        Ok(Looks {
            before,
            after,
            processed,
        })
    }
}

/// Lets a call pass only to a region that has all rows.
struct Together<'a>(&'a [&'a Place]);

impl RegionGuard for Together<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        let mut rows = self.0.iter().flat_map(|place| &place.rows.rows);
        let outside = rows.find(|row| !serving.region.contains(row));
        match outside {
            None => Verdict::Pass,
            Some(row) => Verdict::LookAgain(
                Error::new(
                    ErrorKind::PartitionCut,
                    format!(
                        "a region boundary lies between the rows of one lock: {} is not in {}",
                        BytesBinary(row),
                        serving.region.range_text()
                    ),
                )
                .with_hint(
                    "merge the two regions; a table that hbase-txn makes never splits there (its split restriction is \
                     a key prefix of one byte)",
                ),
            ),
        }
    }
}
