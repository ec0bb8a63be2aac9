//! Holds that stand side by side in one row of a lock table, each in columns of its own: what permits, readers and leaders
//! are made of.
//!
//! A slot is a lock that is alone in its columns: markers, owner cells, leases, renewals and releases are those of any lock.
//! What is added is what the row has in common: one counter, which numbers all holds of the row, and one more look at the
//! whole row, behind an attempt's own writes in the same call.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, slice,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    guard::{LockGuard, ReleaseOutcome},
    layout::{DEFINITION, FAMILY, LockRows, SlotColumn},
    manager::LockManager,
    owner::LockToken,
    party::{Front, Party, Tenure, Turn},
    place::Place,
    request::{LockRequest, Tried, attempt},
    sight::Sight,
    state::{LockHolder, LockLoss},
};
use crate::{
    client::{ActionAnswer, AnyRegion, CallKind, MultiCall, RegionAction, Table},
    error::Result,
    model::{Cell, Condition, Delete, Durability, Get, Level, Put, Row, distributed_row},
    wire::condition,
};

/// A row of slots.
#[derive(Clone)]
pub(crate) struct SlotRow {
    party: Arc<Party>,
    table: Table,
    /// The row without the byte in front.
    key: String,
    row: Bytes,
}

/// What was seen of a row at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotsSeen {
    pub(crate) definition: Option<Definition>,
    /// The number of the last hold.
    pub(crate) number: Option<u64>,
    /// The slots that are held.
    pub(crate) held: BTreeMap<String, LockHolder>,
}

/// What a row is for, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) value: Bytes,
    timestamp: u64,
}

impl LockManager {
    /// The row of this name among those of a kind. The kind is in front of the name of a lock, so that no two kinds share a
    /// row and none is a lock's; it is no longer than what companions have behind theirs, so that what fits there fits here.
    pub(crate) fn slot_row(&self, kind: &'static str, level: Level, id: &str) -> Result<SlotRow> {
        let (name, place) = self.place(level, id)?;
        let key = format!("{kind}#{}", name.key());
        Ok(SlotRow {
            party: Arc::clone(self.party()),
            table: place.table,
            row: distributed_row(key.as_bytes()),
            key,
        })
    }
}

impl SlotRow {
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// How long the family keeps what nobody renews, if not for ever.
    pub(crate) fn forgets_after(&self) -> Option<Duration> {
        self.party.cells_live
    }

    /// Asks for these slots, which are one hold. Where they are chosen for each attempt, [`attempt`](Self::attempt) names them.
    pub(crate) fn request(&self, slots: &[String]) -> LockRequest {
        LockRequest::new(Arc::clone(&self.party), self.key.clone(), self.place(slots))
    }

    fn place(&self, slots: &[String]) -> Place {
        Place {
            table: self.table.clone(),
            rows: LockRows::slots(&self.row, slots),
            cells_live: self.party.cells_live,
        }
    }

    /// The turn among the tasks of this process, or why this one came to none until then.
    pub(crate) async fn turn(&self, until: Instant) -> Result<Option<Turn>, String> {
        self.party.turn(&self.row, until).await
    }

    /// For a task that has the turn, and begins to ask.
    pub(crate) fn front(&self) -> Front<'_> {
        self.party.front(&self.row)
    }

    /// What a task keeps that is alone in what it has of the row.
    pub(crate) fn tenure(&self, turn: Option<Turn>) -> Tenure {
        self.party.tenure(&self.row, turn)
    }

    /// Whether a task of this process has the turn.
    pub(crate) fn is_awaited(&self) -> bool {
        self.party.is_awaited(&self.row)
    }

    /// Tries once to take these slots, all or none, and tells how the row looked behind that.
    pub(crate) async fn attempt(
        &self,
        request: &LockRequest,
        slots: &[String],
        deadline: Instant,
    ) -> Result<(Option<LockGuard>, SlotsSeen)> {
        let mut request = request.clone();
        request.place = self.place(slots);
        let (mut tried, row) = attempt(slice::from_ref(&request), Some(self.get()), deadline).await?;
        let mut seen = SlotsSeen::of(row.as_ref());
        let guard = match tried.pop() {
            Some(Tried::Won(guard)) => Some(guard),
            Some(Tried::Lost(sights)) => {
                seen.forget_own(slots, &sights);
                None
            }
            None => None,
        };
        Ok((guard, seen))
    }

    /// Looks at the row.
    pub(crate) async fn look(&self, deadline: Instant) -> Result<SlotsSeen> {
        let table = self.table_until(deadline);
        Ok(SlotsSeen::of(table.get(self.get()).await?.as_ref()))
    }

    /// The table, for a call that must be over by then.
    fn table_until(&self, deadline: Instant) -> Table {
        self.table
            .clone()
            .with_operation_timeout(deadline.saturating_duration_since(Instant::now()))
    }

    fn get(&self) -> Get {
        Get::new(self.row.clone()).family(FAMILY)
    }

    /// Says what the row is for, if it says now what was seen; whether it did. What it says now is known only by another look.
    pub(crate) async fn define(
        &self,
        seen: Option<&Definition>,
        definition: &[u8],
        deadline: Instant,
    ) -> Result<bool> {
        let row = self.row.clone();
        let condition = match seen {
            Some(seen) => Condition::equal(row.clone(), FAMILY, DEFINITION, seen.value.clone()),
            None => Condition::absent(row.clone(), FAMILY, DEFINITION),
        };
        let put = Put::new(row)
            .cell(FAMILY, DEFINITION, Bytes::copy_from_slice(definition))
            .durability(Durability::SyncWal);
        let table = self.table_until(deadline);
        table.check_and_mutate(condition, [put.into()]).await
    }

    /// Takes away what the row is for, if it was not said anew since it was seen, be it the same; whether it did.
    pub(crate) async fn undefine(&self, seen: &Definition, deadline: Instant) -> Result<bool> {
        let delete = Delete::new(self.row.clone())
            .column(FAMILY, DEFINITION)
            .timestamp(seen.timestamp);
        let call = MultiCall {
            row: self.row.clone(),
            actions: vec![RegionAction::Conditional {
                mutations: vec![delete.into()],
                condition: condition::absent_from(&self.row, &FAMILY, &DEFINITION, seen.timestamp + 1),
            }],
            durability: Durability::SyncWal,
            kind: CallKind::Write,
        };
        let operation = "taking the definition away";
        let answers = self.table.multi_where(operation, &call, &AnyRegion, deadline);
        Ok(matches!(
            answers.await?[..],
            [ActionAnswer::Processed { processed: true, .. }]
        ))
    }

    /// Gives back what a token of another process has.
    pub(crate) async fn release(&self, token: LockToken) -> Result<ReleaseOutcome> {
        let deadline = self.table.deadline();
        match self.look(deadline).await?.slots_of(token) {
            slots if slots.is_empty() => Ok(ReleaseOutcome::Lost(LockLoss::Expired)),
            slots => self.place(&slots).release(token, deadline).await,
        }
    }

    /// Renews what a token of another process has. None when it was; why not, when it is not held any more.
    pub(crate) async fn renew(&self, token: LockToken, lease: Duration) -> Result<Option<LockLoss>> {
        self.party.check_lease(lease)?;
        let deadline = self.table.deadline();
        match self.look(deadline).await?.slots_of(token) {
            slots if slots.is_empty() => Ok(Some(LockLoss::Expired)),
            slots => self.place(&slots).renew_for(token, lease, deadline).await,
        }
    }
}

impl LockRequest {
    /// Refuses what can't be, and says until when is waited, and when every call must be over.
    pub(crate) fn begin(&self) -> Result<(Instant, Instant)> {
        self.check()?;
        Ok((Instant::now() + self.wait, self.table().deadline() + self.wait))
    }

    /// The longest pause that leaves time to renew what is held meanwhile.
    pub(crate) fn longest_pause(&self) -> Duration {
        self.lease.saturating_sub(self.margin()) / 8
    }
}

impl SlotsSeen {
    /// The slots of a token.
    fn slots_of(&self, token: LockToken) -> Vec<String> {
        let own = self.held.iter().filter(|(_, holder)| holder.token == Some(token));
        own.map(|(slot, _)| slot.clone()).collect()
    }

    /// Forgets slots that an attempt had as a part of what it wanted: they are given back by now.
    fn forget_own(&mut self, slots: &[String], sights: &[Sight]) {
        for (slot, sight) in slots.iter().zip(sights) {
            if sight.occupant().is_none() {
                self.held.remove(slot);
            }
        }
    }

    fn of(row: Option<&Row>) -> Self {
        let mut seen = Self::default();
        let mut slots: HashMap<&[u8], SlotCells<'_>> = HashMap::new();
        for cell in row.map(Row::cells).unwrap_or_default() {
            match SlotColumn::of(&cell.qualifier) {
                // An empty value counts as absent, for HBase's own conditions too.
                Some(SlotColumn::Definition) if cell.value.is_empty() => {}
                Some(SlotColumn::Definition) => {
                    seen.definition = Some(Definition {
                        value: Bytes::copy_from_slice(&cell.value),
                        timestamp: cell.timestamp,
                    });
                }
                Some(SlotColumn::Number) => seen.number = Some(cell.timestamp),
                Some(SlotColumn::Marker(slot)) => slots.entry(slot).or_default().marker = Some(cell),
                Some(SlotColumn::Owner(slot)) => slots.entry(slot).or_default().owner = Some(cell),
                Some(SlotColumn::Fencing(slot)) => slots.entry(slot).or_default().fencing = Some(cell),
                None => {}
            }
        }
        for (slot, cells) in slots {
            let occupant = Sight::of_cells(cells.marker, cells.owner, cells.fencing, None).occupant();
            if let (Some(occupant), Ok(slot)) = (occupant, std::str::from_utf8(slot)) {
                seen.held.insert(slot.to_owned(), LockHolder::of(occupant));
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
