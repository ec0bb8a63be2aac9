//! The rows of one lock in their table, and the calls that read and change them.
//!
//! Each call is one `Multi`: the server applies its actions in order, and each action on a row is
//! atomic with its condition. Only the reads at the end of a call decide what it did.

use std::{
    collections::BTreeSet,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use hbase_client::{
    Append, BytesBinary, Delete, Environment, Error as ClientError, Get, Increment, Mutation, Put,
    RegionInfo, RemoteException, Row, Scan, Table,
    low_level::{
        ActionAnswer, CallKind, MultiCall, RegionAction, RegionCall, RegionLocation, ScanParts, TableCalls,
        condition,
    },
};
use tokio::time::Instant;

use super::{
    layout::{Columns, LockRows},
    owner::{HeldBy, Millis, Owner},
    row_state::{self, RowLease, RowState},
    shared_renewals::SharedRenewals,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    lock::{
        hold::{
            background::{BackgroundTasks, Caller},
            clock::Moment,
        },
        queue::releases::RecentReleases,
    },
};

/// How long a fencing cell is kept after its last change: longer than clocks of servers differ, so
/// that the next number is higher, but limited, or every id would leave a cell behind.
pub(crate) const FENCING_TTL: Duration = Duration::from_secs(7 * 24 * 3_600);
/// How long the number of a row of slots is kept after its last acquisition. Renewals do not
/// increment it, and it must be readable as long as that hold lasts.
const NUMBER_TTL: Duration = Duration::from_secs(400 * 24 * 3_600);

/// The maximum size of the rows of a lock in a read with all versions and delete markers.
const MAX_RAW_BYTES: usize = 32 << 20;

/// One lock in its table.
#[derive(Clone, Debug)]
pub(in crate::lock) struct LockLocation {
    pub(in crate::lock) table: Table,
    pub(in crate::lock) rows: LockRows,
    /// How long the family keeps a cell after its timestamp, whatever the cell's own TTL. `None` if
    /// without limit.
    pub(in crate::lock) cells_live: Option<Duration>,
    /// The processes that were waiting when this process released locks.
    pub(in crate::lock) releases: RecentReleases,
    /// The renewals that share calls.
    pub(in crate::lock) renewals: SharedRenewals,
    /// The tasks that continue after requests and guards of these locks were dropped.
    pub(in crate::lock) tasks: BackgroundTasks,
}

/// A change of one lock, or of several locks in one region, row by row.
pub(in crate::lock) struct LockChange<'a> {
    /// The operation that errors name.
    pub(in crate::lock) operation: &'static str,
    pub(in crate::lock) actions: Vec<RegionAction>,
    /// Whether the rows are read before the change too, for cells that earlier holders left.
    pub(in crate::lock) read_before: bool,
    /// Another read, after all other actions.
    pub(in crate::lock) read_after: Option<Get>,
    pub(in crate::lock) kind: CallKind,
    /// If the caller is gone, nothing more is sent. `None` if the call is made in any case.
    pub(in crate::lock) caller: Option<&'a Caller>,
    pub(in crate::lock) deadline: Instant,
    pub(in crate::lock) locations: &'a [&'a LockLocation],
}

/// The answer to a change: the rows as they were read, in order.
#[derive(Debug, Default)]
pub(in crate::lock) struct LockChangeOutcome {
    /// `None` if it was not requested.
    pub(in crate::lock) before: Option<Vec<RowState>>,
    pub(in crate::lock) after: Vec<RowState>,
    /// `None` also if the row does not exist.
    pub(super) row_after: Option<Row>,
    /// Whether each action was applied, in order.
    pub(in crate::lock) processed: Vec<bool>,
}

impl LockLocation {
    pub(in crate::lock) fn environment(&self) -> &Arc<dyn Environment> {
        self.table.connection().environment()
    }

    /// Returns the time of the clock that counts leases.
    pub(in crate::lock) fn now(&self) -> Moment {
        Moment::now(self.environment())
    }

    /// Returns the time of the wall clock, for ages in messages.
    pub(in crate::lock) fn wall_clock(&self) -> SystemTime {
        self.environment().wall_clock()
    }

    /// Adds the lock's name and table to an error.
    pub(in crate::lock) fn in_context(&self, name: impl fmt::Display, error: Error) -> Error {
        let error = if error.remote().is_some_and(RemoteException::is_no_counter) {
            error.with_better_hint(format!(
                "another program wrote the lock's counter; while the lock is free, delete column {}:{} of row '{}'",
                BytesBinary(&self.rows.family),
                BytesBinary(&self.rows.columns(0).fencing),
                BytesBinary(self.rows.lock_row()),
            ))
        } else {
            error
        };
        error
            .at_operation(format!("lock {name}"))
            .at_table(self.table.name())
    }

    /// Returns the action that takes one row if it is free. With `stamp`, the cells have this
    /// timestamp, because others would hide those with the server's.
    pub(in crate::lock) fn take(&self, index: usize, held: &HeldBy, stamp: Option<u64>) -> RegionAction {
        let mut mutations = self.taking(index, held);
        if let (Some(stamp), Some(Mutation::Put(put))) = (stamp, mutations.first_mut()) {
            *put = put.clone().timestamp(stamp);
        }
        RegionAction::Conditional {
            mutations,
            condition: condition::cell_equals(
                &self.rows.rows[index],
                &self.rows.family,
                &self.rows.columns(index).marker,
                None,
            ),
        }
    }

    /// Returns the mutations that take a free row. They also increment the fencing cell of the
    /// first row.
    pub(in crate::lock) fn taking(&self, index: usize, held: &HeldBy) -> Vec<Mutation> {
        let row = self.rows.rows[index].clone();
        let family = &self.rows.family;
        let columns = self.rows.columns(index);
        let (owner, ttl) = (Owner::Held(held.clone()).encode(), held.ttl.into());
        let mark = if self.rows.appended {
            Append::new(row)
                .cell(family.clone(), columns.marker.clone(), columns.held.clone())
                .cell(family.clone(), columns.owner.clone(), owner)
                .ttl(ttl)
                .into()
        } else {
            Put::new(row)
                .cell(family.clone(), columns.marker.clone(), columns.held.clone())
                .cell(family.clone(), columns.owner.clone(), owner)
                .ttl(ttl)
                .into()
        };
        let mut mutations = vec![mark];
        mutations.extend(self.count(index));
        // For a lock, the fencing cell is also the number; slots have a common number.
        if index == 0 && columns.number != columns.fencing {
            mutations.push(self.counting(&columns.number, NUMBER_TTL));
        }
        mutations
    }

    /// Returns the action that changes one row if it is still held by this lease.
    pub(super) fn if_held(
        &self,
        index: usize,
        row_lease: &RowLease,
        mutations: Vec<Mutation>,
    ) -> RegionAction {
        let LockRows { family, rows, .. } = &self.rows;
        let Columns { owner, .. } = self.rows.columns(index);
        RegionAction::Conditional {
            mutations,
            condition: condition::cell_equals(&rows[index], family, owner, Some(&row_lease.value)),
        }
    }

    /// Returns the action that changes one row if its marker still has this value.
    pub(super) fn if_marked(&self, index: usize, marker: &Bytes, mutations: Vec<Mutation>) -> RegionAction {
        let LockRows { family, rows, .. } = &self.rows;
        let column = &self.rows.columns(index).marker;
        RegionAction::Conditional {
            mutations,
            condition: condition::cell_equals(&rows[index], family, column, Some(marker)),
        }
    }

    /// Returns the mutation that rewrites marker and owner at their timestamp.
    pub(super) fn rewrite(&self, index: usize, row_lease: &RowLease, owner: &Owner, ttl: Millis) -> Mutation {
        let family = &self.rows.family;
        let columns = self.rows.columns(index);
        let marker = match owner {
            Owner::Held(_) => columns.held.clone(),
            Owner::Free { .. } | Owner::FreedUnconditionally { .. } => Bytes::new(),
        };
        Put::new(self.rows.rows[index].clone())
            .cell_at(
                family.clone(),
                columns.marker.clone(),
                row_lease.timestamp,
                marker,
            )
            .cell_at(
                family.clone(),
                columns.owner.clone(),
                row_lease.timestamp,
                owner.encode(),
            )
            .ttl(ttl.into())
            .into()
    }

    /// Returns the mutation that overwrites a marker at its timestamp with an empty one.
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

    /// Returns the delete of the marker of one row, up to a timestamp. The owner cell, which
    /// records how long cells may live, stays, except where holds are appended: an old hold that a
    /// flush leaves there would prevent newer ones from being read.
    pub(in crate::lock) fn clear(&self, index: usize, up_to: u64) -> Delete {
        let family = &self.rows.family;
        let columns = self.rows.columns(index);
        let delete =
            Delete::new(self.rows.rows[index].clone()).column(family.clone(), columns.marker.clone());
        let delete = if self.rows.appended {
            delete.column(family.clone(), columns.owner.clone())
        } else {
            delete
        };
        delete.timestamp(up_to)
    }

    /// Returns the delete of the owner of one row as it is held, and of its marker with all cells
    /// under it.
    pub(super) fn wipe(&self, index: usize, row_lease: &RowLease) -> Delete {
        let delete = self.clear(index, row_lease.timestamp);
        if self.rows.appended {
            delete
        } else {
            let owner = self.rows.columns(index).owner.clone();
            delete.version(self.rows.family.clone(), owner, row_lease.timestamp)
        }
    }

    /// Returns the mutation that records, in the owner column of a released row, how long cells may
    /// live under the marker.
    pub(super) fn mark_free(&self, index: usize, row_lease: &RowLease, ttl: Millis) -> Mutation {
        Put::new(self.rows.rows[index].clone())
            .cell_at(
                self.rows.family.clone(),
                self.rows.columns(index).owner.clone(),
                row_lease.timestamp,
                Owner::Free { ttl }.encode(),
            )
            .ttl(ttl.into())
            .into()
    }

    /// Returns the increment of the fencing cell if the row has it. The new timestamp is later than
    /// the old one, and not before the server's current time.
    pub(in crate::lock) fn count(&self, index: usize) -> Option<Mutation> {
        (index == 0).then(|| self.counting(&self.rows.columns(0).fencing, FENCING_TTL))
    }

    /// Returns the increment of a column of the first row.
    fn counting(&self, column: &Bytes, ttl: Duration) -> Mutation {
        Increment::new(self.rows.rows[0].clone())
            .column(self.rows.family.clone(), column.clone(), 1)
            .ttl(ttl)
            .into()
    }

    /// Applies actions, and reads the rows after them.
    pub(in crate::lock) async fn change(
        &self,
        operation: &'static str,
        actions: Vec<RegionAction>,
        deadline: Instant,
    ) -> Result<Vec<RowState>> {
        let change = LockChange {
            operation,
            caller: None,
            actions,
            read_before: false,
            read_after: None,
            kind: CallKind::Write,
            deadline,
            locations: &[self],
        };
        Ok(change.send().await?.after)
    }

    /// Returns for each row a timestamp after those of all cells and delete markers in the columns
    /// of marker and owner.
    pub(super) async fn stamps_over(&self, deadline: Instant) -> Result<Vec<u64>> {
        const OPERATION: &str = "reading what hides the lock";
        let LockRows { family, rows, .. } = &self.rows;
        let distinct: BTreeSet<Bytes> = rows.iter().cloned().collect();
        let (Some(first), Some(last)) = (distinct.first().cloned(), distinct.last().cloned()) else {
            return Ok(Vec::new());
        };
        // A raw scan can be limited to families, but not to columns.
        let scan = Scan::new().raw().family(family.clone());
        let scan = scan.start_row(first).stop_row_inclusive(last).only_rows(distinct);
        let row = self.rows.lock_row();
        let mut attempts = RegionCall::new(&self.table, OPERATION, row, CallKind::Read, deadline);
        let found = loop {
            let location = locate_together(&mut attempts, &[self]).await?;
            match attempts.attempt(&location).scan(&scan, MAX_RAW_BYTES).await {
                Ok(found) => break found,
                Err(failed) => attempts.recover(failed).await?,
            }
        };
        let found = found.ok_or_else(|| {
            let text =
                format!("the rows of the lock have more than {MAX_RAW_BYTES} bytes before a compaction");
            Error::new(ClientErrorKind::LimitExceeded, text).at_operation(OPERATION)
        })?;
        let stamp = |(index, row): (usize, &Bytes)| {
            let Columns { marker, owner, .. } = self.rows.columns(index);
            let cells = found
                .iter()
                .filter(|found| found.key() == row)
                .flat_map(Row::cells);
            // A Java client deletes the whole row, so its delete markers name no column.
            let cells =
                cells.filter(|cell| cell.qualifier.is_empty() || [marker, owner].contains(&&cell.qualifier));
            cells
                .map(|cell| cell.timestamp)
                .max()
                .unwrap_or_default()
                .saturating_add(1)
        };
        Ok(rows.iter().enumerate().map(stamp).collect())
    }

    /// Reads the rows, in one call.
    pub(in crate::lock) async fn read(&self, deadline: Instant) -> Result<Vec<RowState>> {
        let change = LockChange {
            operation: "reading the lock",
            caller: None,
            actions: Vec::new(),
            read_before: false,
            read_after: None,
            kind: CallKind::Read,
            deadline,
            locations: &[self],
        };
        Ok(change.send().await?.after)
    }
}

impl LockChange<'_> {
    pub(in crate::lock) async fn send(self) -> Result<LockChangeOutcome> {
        let Some(first) = self.locations.first() else {
            return Ok(LockChangeOutcome::default());
        };
        let rows = || {
            let rows = self.locations.iter().map(|location| &location.rows);
            rows.flat_map(|rows| (0..rows.rows.len()).map(move |index| (rows, index)))
        };
        let number = rows().count();
        let mut actions = Vec::with_capacity(2 * number + self.actions.len() + 1);
        if self.read_before {
            actions
                .extend(rows().map(|(rows, index)| RegionAction::Get(row_state::get_remains(rows, index))));
        }
        actions.extend(self.actions);
        actions.extend(rows().map(|(rows, index)| RegionAction::Get(row_state::get(rows, index))));
        let reads_after = self.read_after.is_some();
        actions.extend(self.read_after.map(RegionAction::Get));
        let call = MultiCall {
            row: first.rows.lock_row().clone(),
            actions,
            // If a crash lost a hold, the lock could be acquired twice.
            durability: first.table.durable(),
        };
        let mut attempts = RegionCall::new(&first.table, self.operation, &call.row, self.kind, self.deadline);
        let answers = loop {
            let location = locate_together(&mut attempts, self.locations).await?;
            if self.caller.is_some_and(Caller::is_gone) {
                let text = "the request was dropped before it was sent";
                let error = ClientError::new(ClientErrorKind::DeadlineExceeded, text);
                return Err(attempts.fail(&location, error).into());
            }
            match attempts.attempt(&location).multi(&call).await {
                Ok(answers) => break answers,
                Err(failed) => attempts.recover(failed).await?,
            }
        };
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
        let mut states = || -> Vec<RowState> {
            rows()
                .zip(found.by_ref())
                .map(|((rows, index), row)| RowState::of(&rows.family, rows.columns(index), row.as_ref()))
                .collect()
        };
        let before = self.read_before.then(&mut states);
        let after = states();
        let row_after = reads_after.then(|| found.next()).flatten().flatten();
        Ok(LockChangeOutcome {
            before,
            after,
            row_after,
            processed,
        })
    }
}

/// Returns the location of a region that contains all rows of these locks.
async fn locate_together(
    attempts: &mut RegionCall<'_>,
    locks: &[&LockLocation],
) -> Result<Arc<RegionLocation>> {
    loop {
        let location = attempts.locate().await?;
        match locks.iter().find_map(|lock| parted(lock, location.region())) {
            None => return Ok(location),
            Some(error) => attempts.look_again(&location, error)?,
        }
    }
}

/// Returns the error of a region without all rows of a lock, or `None` if it has them.
fn parted(lock: &LockLocation, region: &RegionInfo) -> Option<Error> {
    let rows = &lock.rows.rows;
    let outside = rows.iter().find(|row| !region.contains(row))?;
    let is_cut = rows.iter().any(|row| region.contains(row));
    let what = if is_cut {
        "the rows of one lock"
    } else {
        // The regions of the locks were looked up before, so the region was split since.
        "locks that are tried in one call"
    };
    let range = region.range_text();
    let text = format!(
        "a region boundary lies between {what}: {} is not in {range}",
        BytesBinary(outside)
    );
    let error = Error::new(ErrorKind::PartitionCut, text);
    Some(if is_cut {
        error.with_hint(
            "merge these regions; a table that LockTableOptions creates never splits there (its split \
             restriction is a key prefix of one byte)",
        )
    } else {
        error
            .with_retryable(true)
            .with_hint("try again: each is found where it is by now")
    })
}
