//! Several independent holds in one row of a lock table, each in its own columns: the basis of
//! permits, readers, leaders and members.
//!
//! A slot is a lock with its own columns. Its marker, owner cell, lease, renewals and releases are
//! those of any lock. The slots of a row share a counter, which numbers all holds of the row, and
//! each attempt also reads the whole row after its own writes, in the same call.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use hbase_client::{
    Cell, Comparator, Comparison, Condition, Delete, Filter, Get, Put, Row, Scan, Table,
    low_level::{ActionAnswer, CallKind, MultiCall, RegionAction, RegionCall, TableCalls},
};
use tokio::time::Instant;

use super::{
    layout::{DEFINITION, FAMILY, FENCING, HELD, LockRows, MARKER, OWNER, SlotColumn},
    location::LockLocation,
    owner::LockToken,
    row_state::{RowState, fencing_number},
};
use crate::{
    error::Result,
    java_layout::{Level, distributed_row},
    lock::{
        hold::guard::LockGuard,
        list::{MOST, too_many},
        manager::LockManager,
        name::LockName,
        queue::{
            Demand, Waiter,
            local::{FirstWaiter, LocalClaim, LocalLocks, Turn},
            ticket::Ticket,
        },
        request::{LockRequest, RequestOutcome, attempt},
        state::{LockHolder, LockLoss, ReleaseOutcome},
    },
};

/// A row of slots.
#[derive(Clone)]
pub(crate) struct SlotRow {
    local: Arc<LocalLocks>,
    table: Table,
    /// The row key without its leading byte.
    key: String,
    row: Bytes,
    /// The data that holds of this row show to others.
    data: Bytes,
}

/// A row of slots at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotsSeen {
    pub(crate) definition: Option<Definition>,
    /// The fencing number of the last hold.
    pub(crate) number: Option<i64>,
    /// The slots that are held.
    pub(crate) held: BTreeMap<String, LockHolder>,
    /// The data of those that have some.
    pub(crate) data: BTreeMap<String, Bytes>,
    /// How many holds there have been so far, and the timestamp of that number.
    count: Option<(u64, u64)>,
    /// The tickets of waiting processes.
    tickets: Vec<Ticket>,
}

/// The definition of a row, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) value: Bytes,
    timestamp: u64,
}

impl LockManager {
    /// Returns the row of slots with this name and kind. The kind is a prefix of the lock's key, so
    /// no two kinds share a row, and no row of slots is a lock's. The prefix is no longer than a
    /// companion's suffix, so a valid lock name fits here too.
    pub(crate) fn slot_row(&self, kind: &'static str, level: Level, id: &str) -> Result<SlotRow> {
        let (name, location) = self.location(level, id)?;
        let key = format!("{kind}#{}", name.key());
        Ok(SlotRow {
            local: Arc::clone(self.local()),
            table: location.table,
            row: distributed_row(key.as_bytes()),
            key,
            data: Bytes::new(),
        })
    }

    /// Reads all rows of slots of the table, with their kinds and the names after these. Rows with
    /// other keys are skipped.
    pub(crate) async fn slot_rows(&self) -> Result<Vec<(String, LockName, SlotsSeen)>> {
        // The columns of locks, which have no slots.
        let no_lock = [&MARKER, &OWNER, &FENCING]
            .map(|column| Filter::qualifier(Comparison::NotEqual, Comparator::binary(column.clone())));
        let scan = Scan::new().family(FAMILY).filter(Filter::all(no_lock));
        let (mut rows, mut scanner) = (Vec::new(), self.scan(scan)?);
        while let Some(row) = scanner.next().await? {
            let key = row.key().get(1..).and_then(|key| std::str::from_utf8(key).ok());
            let Some((kind, name)) = key.and_then(|key| key.split_once('#')) else {
                continue;
            };
            let Ok(name) = name.parse() else { continue };
            if rows.len() >= MOST {
                return Err(too_many().at_table(self.table()));
            }
            rows.push((kind.to_owned(), name, SlotsSeen::of(Some(&row))));
        }
        Ok(rows)
    }
}

impl SlotRow {
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the row for holds that show this data to others.
    pub(crate) fn with_data(self, data: Bytes) -> Self {
        Self { data, ..self }
    }

    /// Returns the time of the wall clock, for ages in messages.
    pub(crate) fn wall_clock(&self) -> SystemTime {
        self.table.connection().environment().wall_clock()
    }

    /// Returns the TTL of the table's family, or `None` if its cells live without limit.
    pub(crate) fn forgets_after(&self) -> Option<Duration> {
        self.local.cells_live
    }

    /// Creates a request for these slots, which form one hold. If they are chosen for each attempt,
    /// [`attempt`](Self::attempt) specifies them.
    pub(crate) fn request(&self, slots: &[String]) -> LockRequest {
        LockRequest::new(Arc::clone(&self.local), self.key.clone(), self.location(slots))
    }

    pub(in crate::lock) fn location(&self, slots: &[String]) -> LockLocation {
        self.local
            .location(self.table.clone(), LockRows::slots(&self.row, slots, &self.data))
    }

    /// Returns whether a guard is the hold of these slots of this row.
    pub(crate) fn is_held_by(&self, guard: &LockGuard, slots: &[String]) -> bool {
        let location = &guard.hold.held.location;
        location.table.name() == self.table.name() && location.rows == self.location(slots).rows
    }

    /// Waits for the turn among the tasks of this process. The error is the reason for not getting
    /// it in time.
    pub(crate) async fn turn(&self, until: Instant) -> Result<Option<Turn>, String> {
        self.local.turn(&self.row, until).await
    }

    /// Registers the task that has the turn as the one that polls.
    pub(crate) fn first_waiter(&self) -> FirstWaiter<'_> {
        self.local.first_waiter(&self.row)
    }

    /// Returns the claim of a task that is the only one of its process to hold the row.
    pub(crate) fn local_claim(&self, turn: Option<Turn>) -> LocalClaim {
        self.local.local_claim(&self.row, turn)
    }

    /// Returns whether a task of this process has the turn.
    pub(crate) fn is_awaited(&self) -> bool {
        self.local.is_awaited(&self.row)
    }

    /// Returns a waiter for holds of this row, whose task began to wait at this moment.
    pub(crate) fn waiter(&self, demand: Demand, arrived: Instant) -> Waiter {
        let rows = LockRows::alone(FAMILY, self.row.clone());
        Waiter::new(self.local.location(self.table.clone(), rows), demand).since(arrived)
    }

    /// Tries once to take these slots, all or none, and returns the row as it was after that.
    pub(crate) async fn attempt(
        &self,
        request: &LockRequest,
        slots: &[String],
        deadline: Instant,
    ) -> Result<(Option<LockGuard>, SlotsSeen)> {
        let mut waiter = self.waiter(Demand::UNORDERED, Instant::now());
        self.attempt_in_line(request, slots, &mut waiter, deadline).await
    }

    /// Does the same with the ticket of a waiter, which also learns of the other tickets.
    pub(crate) async fn attempt_in_line(
        &self,
        request: &LockRequest,
        slots: &[String],
        waiter: &mut Waiter,
        deadline: Instant,
    ) -> Result<(Option<LockGuard>, SlotsSeen)> {
        let mut request = request.clone();
        request.location = self.location(slots);
        request.ticket = waiter.with_attempt();
        let (mut outcome, row) = attempt(vec![request], Some(self.get()), deadline).await?;
        let mut seen = SlotsSeen::of(row.as_ref());
        seen.report_to(waiter);
        let guard = match outcome.pop() {
            Some(RequestOutcome::Won(guard)) => Some(guard),
            Some(RequestOutcome::Lost(states)) => {
                seen.forget_own(slots, &states);
                None
            }
            None => None,
        };
        Ok((guard, seen))
    }

    pub(crate) async fn read(&self, deadline: Instant) -> Result<SlotsSeen> {
        let table = self.table_until(deadline);
        Ok(SlotsSeen::of(table.get(self.get()).await?.as_ref()))
    }

    /// Reads the row for a waiter and refreshes its ticket, in one call.
    pub(crate) async fn poll(&self, waiter: &mut Waiter, deadline: Instant) -> Result<SlotsSeen> {
        let seen = match waiter.refresh() {
            None => self.read(deadline).await?,
            Some(refresh) => {
                let call = MultiCall {
                    row: self.row.clone(),
                    actions: vec![refresh, RegionAction::Get(self.get())],
                    durability: self.table.durable(),
                };
                let (operation, kind) = ("waiting in line", CallKind::IdempotentWrite);
                let attempts = RegionCall::new(&self.table, operation, &call.row, kind, deadline);
                let mut answers = attempts.multi(&call).await?.into_iter();
                let row = answers.find_map(|answer| match answer {
                    ActionAnswer::Row(row) => row,
                    _ => None,
                });
                SlotsSeen::of(row.as_ref())
            }
        };
        seen.report_to(waiter);
        Ok(seen)
    }

    /// Returns the table, for a call that ends by the deadline.
    fn table_until(&self, deadline: Instant) -> Table {
        self.table
            .clone()
            .with_operation_timeout(deadline.saturating_duration_since(Instant::now()))
    }

    fn get(&self) -> Get {
        Get::new(self.row.clone()).family(FAMILY)
    }

    /// Writes a definition if the present one is as it was read. Returns whether it did. A delete
    /// marker may hide the new definition, so only another read shows the current one.
    ///
    /// Each definition must differ from all others of the row. Otherwise a late request could take
    /// a later definition for the one that its sender read.
    pub(crate) async fn define(
        &self,
        seen: Option<&Definition>,
        definition: Bytes,
        deadline: Instant,
    ) -> Result<bool> {
        let row = self.row.clone();
        let condition = match seen {
            Some(seen) => Condition::equal(row.clone(), FAMILY, DEFINITION, seen.value.clone()),
            None => Condition::absent(row.clone(), FAMILY, DEFINITION),
        };
        let put = Put::new(row)
            .cell(FAMILY, DEFINITION, definition)
            .durability(self.table.durable());
        let table = self.table_until(deadline);
        Ok(table.check_and_mutate(condition, [put.into()]).await?.success)
    }

    /// Deletes the definition if it is still as it was read. Returns whether it did.
    pub(crate) async fn undefine(&self, seen: &Definition, deadline: Instant) -> Result<bool> {
        let condition = Condition::equal(self.row.clone(), FAMILY, DEFINITION, seen.value.clone());
        // Only this version: a marker for the whole column would hide a later definition.
        let delete = Delete::new(self.row.clone())
            .column(FAMILY, DEFINITION)
            .timestamp(seen.timestamp)
            .durability(self.table.durable());
        let table = self.table_until(deadline);
        Ok(table.check_and_mutate(condition, [delete.into()]).await?.success)
    }

    /// Releases the hold of another process's token.
    pub(crate) async fn release(&self, token: LockToken) -> Result<ReleaseOutcome> {
        let deadline = self.table.deadline();
        match self.read(deadline).await?.slots_of(token) {
            slots if slots.is_empty() => Ok(ReleaseOutcome::Lost(LockLoss::Expired)),
            slots => self.location(&slots).release(token, deadline).await,
        }
    }

    /// Renews the hold of another process's token, for its own lease unless one is specified.
    /// Returns why it is lost if it is not held any more.
    pub(crate) async fn renew(
        &self,
        token: LockToken,
        lease: Option<Duration>,
    ) -> Result<Result<(), LockLoss>> {
        if let Some(lease) = lease {
            self.local.check_lease(lease)?;
        }
        let deadline = self.table.deadline();
        let seen = self.read(deadline).await?;
        let slots = seen.slots_of(token);
        let Some(first) = slots.first() else {
            return Ok(Err(LockLoss::Expired));
        };
        let data = seen.data.get(first).cloned().unwrap_or_default();
        let location = self.clone().with_data(data).location(&slots);
        location.renew_for(token, lease, deadline).await
    }

    /// Revokes the hold of a token and returns its holder. Returns `None` if the token holds
    /// nothing.
    pub(crate) async fn evict(&self, token: LockToken) -> Result<Option<LockHolder>> {
        let deadline = self.table.deadline();
        match self.read(deadline).await?.slots_of(token) {
            slots if slots.is_empty() => Ok(None),
            slots => {
                self.location(&slots)
                    .evict(&self.key, Some(token), deadline)
                    .await
            }
        }
    }
}

impl LockRequest {
    /// Checks the request. Returns the end of the wait, and the deadline of every call.
    pub(crate) fn begin(&self) -> Result<(Instant, Instant)> {
        self.check()?;
        Ok((Instant::now() + self.wait, self.table().deadline() + self.wait))
    }

    /// Returns the longest pause that leaves time to renew a slot that is held meanwhile.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.lease.saturating_sub(self.margin()) / 8
    }
}

impl SlotsSeen {
    /// Reports the tickets to a waiter, and when the last hold began.
    pub(crate) fn report_to(&self, waiter: &mut Waiter) {
        let hold = self.count.map_or(0, |(_, at)| at);
        waiter.observe_row(&self.tickets, hold, self.count);
    }

    /// Returns how many processes wait.
    pub(crate) fn waiting(&self) -> usize {
        self.tickets.len()
    }

    /// Returns the slots of a token, in the order of their numbers. The fencing cell of the first
    /// one shows the holder whether another client changed the hold.
    fn slots_of(&self, token: LockToken) -> Vec<String> {
        let own = self.held.iter().filter(|(_, holder)| holder.token == Some(token));
        let mut slots: Vec<String> = own.map(|(slot, _)| slot.clone()).collect();
        slots.sort_by_key(String::len);
        slots
    }

    /// Removes the slots that an attempt won only in part: they are released by now.
    fn forget_own(&mut self, slots: &[String], states: &[RowState]) {
        for (slot, state) in slots.iter().zip(states) {
            if state.occupant().is_none() {
                self.held.remove(slot);
                self.data.remove(slot);
            }
        }
    }

    fn of(row: Option<&Row>) -> Self {
        let mut seen = Self::default();
        let mut slots: BTreeMap<&[u8], SlotCells<'_>> = BTreeMap::new();
        for cell in row.map(Row::cells).unwrap_or_default() {
            match SlotColumn::of(&cell.qualifier) {
                // An empty value counts as absent, as it does for HBase's own conditions.
                Some(SlotColumn::Definition) if cell.value.is_empty() => {}
                Some(SlotColumn::Definition) => {
                    seen.definition = Some(Definition {
                        value: Bytes::copy_from_slice(&cell.value),
                        timestamp: cell.timestamp,
                    });
                }
                Some(SlotColumn::Number) => {
                    seen.number = fencing_number(cell.timestamp);
                    let count = cell.value[..].try_into().ok().map(u64::from_be_bytes);
                    seen.count = count.map(|count| (count, cell.timestamp));
                }
                Some(SlotColumn::Marker(slot)) => slots.entry(slot).or_default().marker = Some(cell),
                Some(SlotColumn::Owner(slot)) => slots.entry(slot).or_default().owner = Some(cell),
                Some(SlotColumn::Fencing(slot)) => slots.entry(slot).or_default().fencing = Some(cell),
                None => seen.tickets.extend(Ticket::of(cell)),
            }
        }
        for (slot, cells) in slots {
            let occupant = RowState::of_cells(cells.marker, cells.owner, cells.fencing, None).occupant();
            if let (Some(occupant), Ok(slot)) = (occupant, std::str::from_utf8(slot)) {
                seen.held.insert(slot.to_owned(), LockHolder::of(occupant));
                let data = cells
                    .marker
                    .and_then(|marker| marker.value.strip_prefix(&HELD[..]));
                if let Some(data) = data.filter(|data| !data.is_empty()) {
                    seen.data.insert(slot.to_owned(), Bytes::copy_from_slice(data));
                }
            }
        }
        seen
    }
}

/// The cells of one slot.
#[derive(Default)]
struct SlotCells<'a> {
    marker: Option<&'a Cell>,
    owner: Option<&'a Cell>,
    fencing: Option<&'a Cell>,
}

impl fmt::Debug for SlotRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotRow")
            .field("table", self.table.name())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hbase_client::SystemEnvironment;

    use super::*;

    #[test]
    fn slots_of_a_token_are_in_numeric_order() {
        let token = LockToken::unique(&SystemEnvironment);
        let holder = |token| LockHolder {
            name: None,
            token: Some(token),
            since: SystemTime::UNIX_EPOCH,
            lease: None,
        };
        let mut seen = SlotsSeen::default();
        for slot in ["100", "9", "10", "2"] {
            seen.held.insert(slot.to_owned(), holder(token));
        }
        seen.held
            .insert("1".to_owned(), holder(LockToken::unique(&SystemEnvironment)));
        assert_eq!(seen.slots_of(token), ["2", "9", "10", "100"]);
    }
}
