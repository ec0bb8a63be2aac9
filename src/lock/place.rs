//! The rows of one lock in their table, and calls that read and change them.
//!
//! Each call is one `Multi`: the server does its actions in their order, and each action on a row is atomic with its
//! condition. What a call did is judged by the reads at its end and by nothing else.

use std::{fmt, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    layout::{Columns, HELD, LockRows},
    owner::{HeldBy, Millis, Owner},
    sight::{self, Grip, Sight},
};
use crate::{
    client::{ActionAnswer, CallKind, MultiCall, RegionAction, RegionGuard, ServingRegion, Table, Verdict},
    error::{Error, ErrorKind, RemoteException, Result},
    model::{Append, BytesBinary, Delete, Durability, Get, Increment, Mutation, Put, Row},
    wire::condition,
};

/// How long a fencing cell is kept from the last change on: longer than clocks of servers differ, so that the next number
/// is higher; not for ever, or every id would leave a cell behind.
pub(crate) const FENCING_TTL: Duration = Duration::from_secs(7 * 24 * 3_600);
/// How long the number of a row of slots is kept from its last hold on: no renewal counts it, and it is to be read as long as
/// that hold lasts.
const NUMBER_TTL: Duration = Duration::from_secs(400 * 24 * 3_600);

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
    /// What else is read, behind everything.
    pub(super) look_behind: Option<Get>,
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
    /// None also when there is nothing.
    pub(super) behind: Option<Row>,
    /// Whether each change was made, in their order.
    pub(super) processed: Vec<bool>,
}

impl Place {
    /// An error of the lock of this name.
    pub(super) fn blame(&self, name: impl fmt::Display, error: Error) -> Error {
        let is_no_number = |remote: &RemoteException| remote.message.contains("Field is not a long");
        let error = match error.remote().is_some_and(is_no_number) {
            true => error.with_better_hint(format!(
                "no client of locks wrote what its counter has; delete that while nobody holds the lock: hbase-txn delete {} \
                 '{}' {}:{}",
                self.table.name(),
                BytesBinary(self.rows.lock_row()),
                BytesBinary(&self.rows.family),
                BytesBinary(&self.rows.columns(0).fencing),
            )),
            false => error,
        };
        error
            .at_operation(format!("lock {name}"))
            .at_table(self.table.name())
    }

    /// Takes one row, if nobody has it.
    pub(super) fn take(&self, index: usize, held: &HeldBy) -> RegionAction {
        RegionAction::Conditional {
            mutations: self.taking(index, held),
            condition: condition::cell_equals(
                &self.rows.rows[index],
                &self.rows.family,
                &self.rows.columns(index).marker,
                None,
            ),
        }
    }

    /// What takes a row that nobody has. The first row's fencing cell is counted on with it.
    pub(super) fn taking(&self, index: usize, held: &HeldBy) -> Vec<Mutation> {
        let row = self.rows.rows[index].clone();
        let family = &self.rows.family;
        let columns = self.rows.columns(index);
        let (owner, ttl) = (Owner::Held(held.clone()).encode(), held.ttl.into());
        let mark = match self.rows.appended {
            true => Append::new(row)
                .cell(family.clone(), columns.marker.clone(), HELD)
                .cell(family.clone(), columns.owner.clone(), owner)
                .ttl(ttl)
                .into(),
            false => Put::new(row)
                .cell(family.clone(), columns.marker.clone(), HELD)
                .cell(family.clone(), columns.owner.clone(), owner)
                .ttl(ttl)
                .into(),
        };
        let mut mutations = vec![mark];
        mutations.extend(self.count(index));
        // A lock's number is its only counter; slots have one in common.
        if index == 0 && columns.number != columns.fencing {
            mutations.push(self.counting(&columns.number, NUMBER_TTL));
        }
        mutations
    }

    /// Changes one row, if the grip on it still holds.
    pub(super) fn if_held(&self, index: usize, grip: &Grip, mutations: Vec<Mutation>) -> RegionAction {
        let LockRows { family, rows, .. } = &self.rows;
        let Columns { owner, .. } = self.rows.columns(index);
        RegionAction::Conditional {
            mutations,
            condition: condition::cell_equals(&rows[index], family, owner, Some(&grip.value)),
        }
    }

    /// Changes one row, if its marker still has this value.
    pub(super) fn if_marked(&self, index: usize, marker: &Bytes, mutations: Vec<Mutation>) -> RegionAction {
        let LockRows { family, rows, .. } = &self.rows;
        let column = &self.rows.columns(index).marker;
        RegionAction::Conditional {
            mutations,
            condition: condition::cell_equals(&rows[index], family, column, Some(marker)),
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
        let columns = self.rows.columns(index);
        Put::new(self.rows.rows[index].clone())
            .cell_at(family.clone(), columns.marker.clone(), grip.timestamp, marker)
            .cell_at(
                family.clone(),
                columns.owner.clone(),
                grip.timestamp,
                owner.encode(),
            )
            .ttl(ttl.into())
            .into()
    }

    /// Overwrites a marker at the timestamp that it has by an empty one.
    pub(super) fn blank(&self, index: usize, timestamp: u64) -> Mutation {
        Put::new(self.rows.rows[index].clone())
            .cell_at(
                self.rows.family.clone(),
                self.rows.columns(index).marker.clone(),
                timestamp,
                Bytes::new(),
            )
            .into()
    }

    /// Deletes the marker of one row, up to a timestamp. What is known of how long it would have lived stays; but not where a
    /// hold is appended to it: what a flush leaves there may be an old hold, behind which no other could be read.
    pub(super) fn clear(&self, index: usize, up_to: u64) -> Delete {
        let family = &self.rows.family;
        let columns = self.rows.columns(index);
        let delete =
            Delete::new(self.rows.rows[index].clone()).column(family.clone(), columns.marker.clone());
        let delete = match self.rows.appended {
            true => delete.column(family.clone(), columns.owner.clone()),
            false => delete,
        };
        delete.timestamp(up_to)
    }

    /// Deletes the owner of one row as it is gripped, and its marker with all that lies under it.
    pub(super) fn wipe(&self, index: usize, grip: &Grip) -> Delete {
        let delete = self.clear(index, grip.timestamp);
        match self.rows.appended {
            true => delete,
            false => {
                let owner = self.rows.columns(index).owner.clone();
                delete.version(self.rows.family.clone(), owner, grip.timestamp)
            }
        }
    }

    /// Says in the owner's column of a row that is given back for how long something may live under the marker.
    pub(super) fn say_free(&self, index: usize, grip: &Grip, ttl: Millis) -> Mutation {
        Put::new(self.rows.rows[index].clone())
            .cell_at(
                self.rows.family.clone(),
                self.rows.columns(index).owner.clone(),
                grip.timestamp,
                Owner::Free { ttl }.encode(),
            )
            .ttl(ttl.into())
            .into()
    }

    /// Counts the fencing cell on, where the row has it. The server stamps it later than it was, and not before now.
    pub(super) fn count(&self, index: usize) -> Option<Mutation> {
        (index == 0).then(|| self.counting(&self.rows.columns(0).fencing, FENCING_TTL))
    }

    /// Counts a column of the first row on.
    fn counting(&self, column: &Bytes, ttl: Duration) -> Mutation {
        Increment::new(self.rows.rows[0].clone())
            .column(self.rows.family.clone(), column.clone(), 1)
            .ttl(ttl)
            .into()
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
            look_behind: None,
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
            look_behind: None,
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
            rows.flat_map(|rows| (0..rows.rows.len()).map(move |index| (rows, index)))
        };
        let number = rows().count();
        let mut actions = Vec::with_capacity(2 * number + self.actions.len() + 1);
        if self.look_before {
            actions.extend(rows().map(|(rows, index)| RegionAction::Get(sight::get_remains(rows, index))));
        }
        actions.extend(self.actions);
        actions.extend(rows().map(|(rows, index)| RegionAction::Get(sight::get(rows, index))));
        let looks_behind = self.look_behind.is_some();
        actions.extend(self.look_behind.map(RegionAction::Get));
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
        let mut found = answers.into_iter().filter_map(|answer| match answer {
            ActionAnswer::Row(row) => Some(row),
            _ => None,
        });
        let mut sights = || -> Vec<Sight> {
            rows()
                .zip(found.by_ref())
                .map(|((rows, index), row)| Sight::of(&rows.family, rows.columns(index), row.as_ref()))
                .collect()
        };
        let before = self.look_before.then(&mut sights);
        let after = sights();
        let behind = looks_behind.then(|| found.next()).flatten().flatten();
        Ok(Looks {
            before,
            after,
            behind,
            processed,
        })
    }
}

/// Lets a call pass only to a region that has all rows.
struct Together<'a>(&'a [&'a Place]);

impl RegionGuard for Together<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        let contains = |row: &Bytes| serving.region.contains(row);
        let parted = |what: &str, row: &Bytes| {
            let range = serving.region.range_text();
            let text = format!(
                "a region boundary lies between {what}: {} is not in {range}",
                BytesBinary(row)
            );
            Error::new(ErrorKind::PartitionCut, text)
        };
        for place in self.0 {
            let rows = &place.rows.rows;
            let Some(outside) = rows.iter().find(|row| !contains(row)) else {
                continue;
            };
            let error = match rows.iter().any(contains) {
                true => parted("the rows of one lock", outside).with_hint(format!(
                    "merge them: hbase-txn table repair {}; a table that hbase-txn makes never splits there (its split \
                     restriction is a key prefix of one byte)",
                    place.table.name()
                )),
                // Where they are was looked up before: the region was split since.
                false => parted("locks that are tried in one call", outside)
                    .with_retryable(true)
                    .with_hint("try again: each is found where it is by now"),
            };
            return Verdict::LookAgain(error);
        }
        Verdict::Pass
    }
}
