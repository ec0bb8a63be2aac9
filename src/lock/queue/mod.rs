//! The order in which processes that wait for a lock, for permits, or for reading and writing
//! acquire them.
//!
//! Each waiting process keeps a ticket in the lock's first row: a cell with a TTL, written again
//! with the calls that poll the lock. Tickets exclude no process. A process that acquires the lock
//! ahead of a ticket releases it and takes a ticket itself, so the order binds waiting processes
//! only, and an uncontended lock costs no extra call.
//!
//! The holds of a row of slots are counted: each ticket has a need, and a process may take what is
//! left if the older tickets get what they need.
//!
//! | file | contents |
//! |---|---|
//! | `ticket` | the tickets, as cells |
//! | `releases` | the releases of this process, of which its waiting tasks learn at once |
//! | `local` | the locks of one client and table within this process |

pub(super) mod local;
pub(super) mod releases;
pub(super) mod ticket;

use std::time::Duration;

use bytes::Bytes;
use hbase_client::{
    Mutation, Put,
    low_level::{CallKind, RegionAction, TableCalls, condition},
};
use tokio::time::Instant;

use self::ticket::{COLUMN, SLOTS, TICKET_TTL, Ticket};
use super::protocol::{
    layout::LockRows,
    location::{FENCING_TTL, LockChange, LockLocation},
    owner::LockToken,
    row_state::{Occupant, RowState},
};
use crate::error::Result;

/// The age at which a ticket is written again.
const REFRESH_AFTER: Duration = Duration::from_secs(1);
/// The pauses between two reads of a held lock.
const MIN_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause between two polls of a process that is not next. With `REFRESH_AFTER` it is
/// shorter than a ticket's TTL.
const MAX_PAUSE_BEHIND: Duration = Duration::from_secs(1);

/// A wait in the line of its process for which a task writes its ticket again at once.
const QUEUED_LOCALLY: Duration = Duration::from_millis(100);

/// The number of slots among which a process chooses if it knows of no other ticket.
const FEWEST_SLOTS: usize = 8;

/// What an attempt to take the lock does with its process's ticket.
#[derive(Clone, Debug, Default)]
pub(in crate::lock) struct TicketChange {
    /// Applied before the attempt.
    pub(super) write: Option<RegionAction>,
    /// Applied with the attempt if it takes the lock.
    pub(super) give_up: Option<Mutation>,
    /// Whether the ticket of the process was read, and no older ticket is alive.
    pub(super) is_next: bool,
}

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// How many holds of the row it needs at a time. Zero for a process that takes no ticket, because it
    /// does not wait or because the order does not matter.
    pub(crate) need: u32,
    /// How many holds a usual release makes possible.
    pub(crate) released: u32,
    /// How many there can be.
    pub(crate) of: u32,
}

impl Demand {
    /// A lock.
    pub(crate) const LOCK: Self = Self {
        need: 1,
        released: 1,
        of: 1,
    };
    /// A hold that is not waited for in line.
    pub(crate) const UNORDERED: Self = Self {
        need: 0,
        ..Self::LOCK
    };
}

/// A process that waits for a lock: its ticket, and its view of the others.
pub(crate) struct Waiter {
    location: LockLocation,
    demand: Demand,
    /// The id in its ticket. `None` before the first ticket is written: random bits of the
    /// operating system cost a system call.
    id: Option<LockToken>,
    since: Option<u64>,
    /// The slot of its ticket, and when that was written last.
    ticket: Option<(u8, Instant)>,
    /// The value of its ticket, as it was written last.
    value: Option<Bytes>,
    /// The tickets of the others, and when each was first read with its timestamp.
    others: Vec<(Ticket, Instant)>,
    /// What the older ones need. `None` before the first attempt.
    ahead: Option<u32>,
    /// How many of them have a turn of their own: not the readers that acquire a lock together.
    turns_ahead: u32,
    /// When its task began to wait, if other tasks of its process came first.
    arrived: Option<Instant>,
    /// Whether its ticket does not show yet for how long its task has waited.
    is_corrected: bool,
    /// The time from one holder to the next, estimated from earlier ones.
    turn: Option<Duration>,
    /// When the last hold that was seen began, by the server's clock; 0 if the lock was free.
    hold: u64,
    /// The value and the timestamp of the fencing cell when that hold was first seen.
    changes: Option<(u64, u64)>,
    /// The approximate start of the present hold. Before that is known, the start of the wait.
    taken: Instant,
    /// When the lock was last read.
    read: Instant,
    /// The first pause, of a process that released the lock while others waited.
    step_back: Option<Duration>,
    /// Whether the ticket that was written last has gone: another process wrote its own there first, or it
    /// has expired. Until it is written again, later processes pass by.
    has_lost_ticket: bool,
}

impl Waiter {
    pub(in crate::lock) fn new(location: LockLocation, demand: Demand) -> Self {
        Self {
            location,
            demand,
            id: None,
            since: None,
            ticket: None,
            value: None,
            others: Vec::new(),
            ahead: None,
            turns_ahead: 0,
            arrived: None,
            is_corrected: false,
            turn: None,
            hold: 0,
            changes: None,
            taken: Instant::now(),
            read: Instant::now(),
            step_back: None,
            has_lost_ticket: false,
        }
    }

    /// Steps back if this process has just released the lock while others waited for it. Returns
    /// whether it did.
    pub(super) fn step_back(&mut self) -> bool {
        let Some(held_for) = self.remember_others() else {
            return false;
        };
        if self.ahead() == 1 && held_for < MAX_PAUSE {
            // The other process has released the lock by then, so the first call can be an attempt.
            self.step_back = Some(held_for.mul_f64(1.3 + fastrand::f64() / 3.0));
            (self.ahead, self.turns_ahead) = (Some(0), 0);
        }
        true
    }

    /// Takes over the tickets that this process saw when it held the row last, if that was just now. Returns
    /// how long it held it.
    pub(crate) fn remember_others(&mut self) -> Option<Duration> {
        let release = self.location.releases.take(self.location.rows.lock_row())?;
        let Demand { released, of, .. } = self.demand;
        self.turn = Some(release.held_for.saturating_mul(released) / of.max(1));
        self.others = release
            .waiting
            .into_iter()
            .map(|other| (other, release.at))
            .collect();
        self.count_older();
        Some(release.held_for)
    }

    /// Counts the wait from this moment, when its task joined the line of its process.
    pub(in crate::lock) fn since(mut self, arrived: Instant) -> Self {
        self.arrived = Some(arrived);
        self
    }

    /// Whether an attempt is worth its call: no older ticket is known. A process that finds tickets that
    /// have outlived theirs needs its own first, because an attempt without one gives way to any ticket.
    pub(super) fn is_next(&self) -> bool {
        let has_ticket = self.since.is_some();
        self.ahead() == 0 && (has_ticket || self.others.iter().all(|(_, read)| is_alive(*read)))
    }

    /// Returns what the processes with older tickets need.
    pub(crate) fn ahead(&self) -> u32 {
        self.ahead.unwrap_or(0)
    }

    /// Returns what the next attempt does with the ticket. The first attempt writes none: the lock
    /// may be uncontended.
    pub(in crate::lock) fn with_attempt(&mut self) -> TicketChange {
        if self.ahead.is_none() {
            return TicketChange::default();
        }
        TicketChange {
            write: self.refresh(),
            give_up: self.give_up(),
            is_next: self.since.is_some() && self.is_next(),
        }
    }

    /// Returns the action that writes the ticket, if that is due and a slot is free. It overwrites no
    /// ticket of another process, which may have chosen the same slot or one that has expired.
    pub(in crate::lock) fn refresh(&mut self) -> Option<RegionAction> {
        let is_fresh = |(_, written): (u8, Instant)| written.elapsed() < REFRESH_AFTER;
        let is_queued = self.demand.need > 0 && self.location.rows.has_queue();
        if self.ticket.is_some_and(is_fresh) && !self.is_corrected || !is_queued {
            return None;
        }
        let (slot, before) = match self.ticket {
            Some((slot, _)) => (slot, self.value.take()),
            None => self.free_slot()?,
        };
        self.ticket = Some((slot, Instant::now()));
        self.is_corrected = false;
        let token = || LockToken::unique(self.location.environment());
        let id = *self.id.get_or_insert_with(token);
        let value = ticket::encode(self.since.unwrap_or(0), id, self.demand.need);
        self.value = Some(value.clone());
        let put = self.put(slot, value).ttl(TICKET_TTL);
        Some(self.if_written(slot, before.as_ref(), put.into()))
    }

    /// Returns the action that changes a slot if it has this value, or is free if that is `None`.
    fn if_written(&self, slot: u8, value: Option<&Bytes>, mutation: Mutation) -> RegionAction {
        let LockRows { rows, family, .. } = &self.location.rows;
        RegionAction::Conditional {
            mutations: vec![mutation],
            condition: condition::cell_equals(&rows[0], family, &column(slot), value),
        }
    }

    /// Returns one of the first free slots at random, of twice as many as there are other tickets: processes
    /// that arrived since the tickets were read chose among these, too. If two choose the same one, the later
    /// chooses again. Returns the slot and its value, if that is a ticket that has outlived its process.
    fn free_slot(&self) -> Option<(u8, Option<Bytes>)> {
        let ticket_in = |slot| self.others.iter().find(|(other, _)| other.slot == slot);
        let free = (0..SLOTS).filter_map(|slot| match ticket_in(slot) {
            None => Some((slot, None)),
            Some((_, read)) if is_alive(*read) => None,
            Some((other, _)) => Some((slot, Some(other.value()))),
        });
        let mut free: Vec<_> = free.take(FEWEST_SLOTS + 2 * self.others.len()).collect();
        let chosen = fastrand::usize(..free.len().max(1));
        (chosen < free.len()).then(|| free.swap_remove(chosen))
    }

    /// Returns the mutation that gives up the ticket. The empty cell outlives it: HBase reads
    /// expired cells one by one unless a newer cell of their column is alive.
    fn give_up(&self) -> Option<Mutation> {
        let (slot, _) = self.ticket?;
        Some(self.put(slot, Bytes::new()).ttl(FENCING_TTL).into())
    }

    fn put(&self, slot: u8, value: Bytes) -> Put {
        let rows = &self.location.rows;
        Put::new(rows.rows[0].clone()).cell(rows.family.clone(), column(slot), value)
    }

    /// Takes over the tickets in the lock's first row.
    pub(super) fn observe(&mut self, states: &[RowState]) {
        let Some(first) = states.first() else {
            return;
        };
        let hold = first.occupant().as_ref().map_or(0, Occupant::since);
        self.observe_row(&first.tickets, hold, first.changes.zip(first.fencing));
    }

    /// Takes over the tickets in a row, and value and timestamp of the cell that counts its holds. A hold
    /// differs from the one before by its number; 0 if there is none.
    pub(in crate::lock) fn observe_row(&mut self, tickets: &[Ticket], hold: u64, count: Option<(u64, u64)>) {
        let (own, others): (Vec<Ticket>, Vec<Ticket>) = tickets
            .iter()
            .copied()
            .partition(|ticket| Some(ticket.id) == self.id);
        self.observe_hold(hold, count, own.first());
        match own.first() {
            Some(own) => self.since = Some(self.since_arrival(own)),
            None => self.has_lost_ticket = self.ticket.take().is_some(),
        }
        let before = std::mem::take(&mut self.others);
        let first_read = |other: &Ticket| before.iter().find(|(known, _)| known == other).map(|(_, at)| *at);
        self.others = others
            .into_iter()
            .map(|other| (other, first_read(&other).unwrap_or_else(Instant::now)))
            .collect();
        self.count_older();
    }

    /// Returns when the task of this process began to wait, by the server's clock.
    fn since_arrival(&mut self, own: &Ticket) -> u64 {
        let Some((arrived, (_, written))) = self.arrived.take().zip(self.ticket) else {
            return self.since.unwrap_or_else(|| own.since());
        };
        let waited = written.saturating_duration_since(arrived);
        self.is_corrected = waited > QUEUED_LOCALLY;
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        own.since().saturating_sub(waited).max(1)
    }

    fn count_older(&mut self) {
        let order = self.since.zip(self.id.map(LockToken::bits));
        let is_queued = self.demand.need > 0;
        let is_older = |other: &Ticket| is_queued && order.is_none_or(|order| other.order() < order);
        let older = self
            .others
            .iter()
            .filter(|(other, read)| is_older(other) && is_alive(*read));
        let (mut needed, mut turns) = (0_u32, 0);
        for (other, _) in older {
            needed = needed.saturating_add(other.need);
            turns += u32::from(other.need >= self.demand.released);
        }
        (self.ahead, self.turns_ahead) = (Some(needed), turns);
    }

    /// Learns when the present hold began, and how long a turn takes.
    fn observe_hold(&mut self, hold: u64, count: Option<(u64, u64)>, own: Option<&Ticket>) {
        let last_read = std::mem::replace(&mut self.read, Instant::now());
        let before = std::mem::replace(&mut self.hold, hold);
        let Some((changes, at)) = count else {
            return;
        };
        // A renewal changes the fencing cell, too.
        if hold != 0 && hold == before {
            return;
        }
        let by_ticket = own.and_then(|own| self.local_time(at, own));
        let Some((changes_before, at_before)) = self.changes.replace((changes, at)) else {
            self.taken = by_ticket.unwrap_or(self.taken).min(self.read);
            return;
        };
        let turns = changes.saturating_sub(changes_before);
        let lasted = at.saturating_sub(at_before);
        let half_way = last_read + (self.read - last_read) / 2;
        // A server whose clock is behind stamps each change one millisecond after the one before.
        if turns == 0 || lasted <= turns {
            self.taken = half_way;
            return;
        }
        let turn = Duration::from_millis(lasted / turns);
        // A turn is long if the next process was late, too. Waiting longer for that reason would make all
        // turns longer and longer.
        let turn = self.turn.map_or(turn, |before| turn.min(before * 5 / 4));
        self.turn = Some(turn.max(MIN_PAUSE));
        self.taken = by_ticket.unwrap_or(half_way).clamp(last_read, self.read);
    }

    /// Returns a time of the server as one of this process, which knows when the server wrote its ticket.
    fn local_time(&self, at: u64, own: &Ticket) -> Option<Instant> {
        let (_, written) = self.ticket?;
        match at.checked_sub(own.written) {
            Some(later) => written.checked_add(Duration::from_millis(later)),
            None => written.checked_sub(Duration::from_millis(own.written - at)),
        }
    }

    /// Reads the lock and refreshes the ticket, in one call.
    ///
    /// # Errors
    ///
    /// Returns the errors of the call.
    pub(super) async fn poll(&mut self, deadline: Instant) -> Result<Vec<RowState>> {
        let actions: Vec<_> = self.refresh().into_iter().collect();
        let change = LockChange {
            operation: "waiting for the lock",
            caller: None,
            kind: if actions.is_empty() {
                CallKind::Read
            } else {
                CallKind::IdempotentWrite
            },
            actions,
            read_before: false,
            read_after: None,
            deadline,
            locations: &[&self.location],
        };
        let states = change.send().await?.after;
        self.observe(&states);
        Ok(states)
    }

    /// Returns the pause before the next call.
    ///
    /// The next process in line polls when a usual turn is almost over, and then often, so that the lock is
    /// free for a small part of the time. The others poll about when they should be next: a late poll of the
    /// next process delays all behind it. A turn that takes longer than usual is expected to continue for as
    /// long again.
    pub(crate) fn pause(&mut self) -> Duration {
        if let Some(pause) = self.step_back.take() {
            return pause;
        }
        if std::mem::take(&mut self.has_lost_ticket) {
            return MIN_PAUSE.mul_f64(1.0 + 4.0 * fastrand::f64());
        }
        let age = self.taken.elapsed();
        let jitter = 0.8 + 0.2 * fastrand::f64();
        let Demand { released, of, .. } = self.demand;
        match (self.turns_ahead, self.turn) {
            // Of several holders any may release next.
            (0, Some(turn)) if released < of => (turn / 2).max(age / 8).clamp(MIN_PAUSE, MAX_PAUSE),
            (0, Some(turn)) if age < turn * 2 => turn
                .mul_f64(0.95)
                .saturating_sub(age)
                .max(turn / 10)
                .clamp(MIN_PAUSE, MAX_PAUSE),
            (0, _) => (age.mul_f64(jitter) / 4).clamp(MIN_PAUSE, MAX_PAUSE),
            (ahead, turn) => turn
                .unwrap_or_default()
                .mul_f64(f64::from(ahead) - 0.4)
                .max(age / 2)
                .mul_f64(jitter)
                .clamp(MIN_PAUSE, MAX_PAUSE_BEHIND),
        }
    }

    /// Ends the wait of a process that has acquired the lock. The attempt has given up its ticket.
    pub(super) fn acquired(mut self) {
        self.ticket = None;
    }

    /// Ends the wait of a process that has acquired holds of a row. Its releases do not read the tickets of
    /// the others, so these are remembered now.
    pub(crate) fn acquired_while_others_wait(self) {
        let waiting = self.others.iter().filter(|(_, read)| is_alive(*read));
        let waiting = waiting.map(|(other, _)| *other).collect();
        let Demand { released, of, .. } = self.demand;
        // Until the release, which knows how long it was held.
        let held_for = self.turn.unwrap_or(MIN_PAUSE).saturating_mul(of) / released.max(1);
        let row = self.location.rows.lock_row();
        self.location.releases.record(row, waiting, held_for);
        self.acquired();
    }
}

/// Returns whether the process of a ticket may be waiting still, from when the ticket was first read. On
/// a server whose clock is behind, cells live longer than their TTL and hide newer ones.
fn is_alive(read: Instant) -> bool {
    read.elapsed() < TICKET_TTL
}

fn column(slot: u8) -> Bytes {
    Bytes::copy_from_slice(&[COLUMN, slot])
}

impl Drop for Waiter {
    /// Gives up the ticket in the background, so that it delays no other process.
    fn drop(&mut self) {
        let (Some((slot, _)), Some(give_up)) = (self.ticket, self.give_up()) else {
            return;
        };
        let actions = vec![self.if_written(slot, self.value.as_ref(), give_up)];
        let location = self.location.clone();
        let tracked = location.tasks.begin();
        self.location.table.runtime().spawn(async move {
            let _tracked = tracked;
            let deadline = Instant::now() + TICKET_TTL;
            if let Err(error) = location.change("leaving the queue", actions, deadline).await {
                tracing::debug!(%error, "cannot give up a ticket; it expires");
            }
        });
    }
}

#[cfg(test)]
mod tests;
