//! The order in which processes that wait for a lock acquire it.
//!
//! Each waiting process keeps a ticket in the lock's first row: a cell with a TTL, written again
//! with the calls that poll the lock. Tickets exclude no process. A process that acquires the lock
//! ahead of a ticket releases it and takes a ticket itself, so the order binds waiting processes
//! only, and an uncontended lock costs no extra call.
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

/// The number of slots among which a process chooses if it knows of no other ticket.
const FEWEST_SLOTS: usize = 8;

/// What an attempt to take the lock does with its process's ticket.
#[derive(Clone, Debug, Default)]
pub(super) struct TicketChange {
    /// Applied before the attempt.
    pub(super) write: Option<RegionAction>,
    /// Applied with the attempt if it takes the lock.
    pub(super) give_up: Option<Mutation>,
    /// Whether the ticket of the process was read, and no older ticket is alive.
    pub(super) is_next: bool,
}

/// A process that waits for a lock: its ticket, and its view of the others.
pub(super) struct Waiter {
    location: LockLocation,
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
    /// How many of them are older. `None` before the first attempt.
    ahead: Option<usize>,
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
    pub(super) fn new(location: LockLocation) -> Self {
        Self {
            location,
            id: None,
            since: None,
            ticket: None,
            value: None,
            others: Vec::new(),
            ahead: None,
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
        let Some(release) = self.location.releases.take(self.location.rows.lock_row()) else {
            return false;
        };
        self.turn = Some(release.held_for);
        let waiting = release.waiting.len();
        self.others = release
            .waiting
            .into_iter()
            .map(|other| (other, release.at))
            .collect();
        if waiting == 1 && release.held_for < MAX_PAUSE {
            // The other process has released the lock by then, so the first call can be an attempt.
            self.step_back = Some(release.held_for.mul_f64(1.3 + fastrand::f64() / 3.0));
            self.ahead = Some(0);
        } else {
            self.ahead = Some(waiting);
        }
        true
    }

    /// Whether an attempt is worth its call: no older ticket is known. A process that finds tickets that
    /// have outlived theirs needs its own first, because an attempt without one gives way to any ticket.
    pub(super) fn is_next(&self) -> bool {
        let has_ticket = self.since.is_some();
        self.ahead.unwrap_or(0) == 0 && (has_ticket || self.others.iter().all(|(_, read)| is_alive(*read)))
    }

    /// Returns what the next attempt does with the ticket. The first attempt writes none: the lock
    /// may be uncontended.
    pub(super) fn with_attempt(&mut self) -> TicketChange {
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
    fn refresh(&mut self) -> Option<RegionAction> {
        let is_fresh = |(_, written): (u8, Instant)| written.elapsed() < REFRESH_AFTER;
        if self.ticket.is_some_and(is_fresh) || !self.location.rows.has_queue() {
            return None;
        }
        let (slot, before) = match self.ticket {
            Some((slot, _)) => (slot, self.value.take()),
            None => self.free_slot()?,
        };
        self.ticket = Some((slot, Instant::now()));
        let token = || LockToken::unique(self.location.environment());
        let id = *self.id.get_or_insert_with(token);
        let value = ticket::encode(self.since.unwrap_or(0), id);
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
        let (own, others): (Vec<Ticket>, Vec<Ticket>) = first
            .tickets
            .iter()
            .copied()
            .partition(|ticket| Some(ticket.id) == self.id);
        self.observe_hold(first, own.first());
        match own.first() {
            Some(own) => self.since = Some(own.since()),
            None => self.has_lost_ticket = self.ticket.take().is_some(),
        }
        let before = std::mem::take(&mut self.others);
        let first_read = |other: &Ticket| before.iter().find(|(known, _)| known == other).map(|(_, at)| *at);
        self.others = others
            .into_iter()
            .map(|other| (other, first_read(&other).unwrap_or_else(Instant::now)))
            .collect();
        let order = self.since.zip(self.id.map(LockToken::bits));
        let is_older = |other: &Ticket| order.is_none_or(|order| other.order() < order);
        let older = self
            .others
            .iter()
            .filter(|(other, read)| is_older(other) && is_alive(*read));
        self.ahead = Some(older.count());
    }

    /// Learns when the present hold began, and how long a turn takes.
    fn observe_hold(&mut self, first: &RowState, own: Option<&Ticket>) {
        let last_read = std::mem::replace(&mut self.read, Instant::now());
        let occupant = first.occupant();
        let hold = occupant.as_ref().map_or(0, Occupant::since);
        let before = std::mem::replace(&mut self.hold, hold);
        let Some((changes, at)) = first.changes.zip(first.fencing) else {
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
    pub(super) fn pause(&mut self) -> Duration {
        if let Some(pause) = self.step_back.take() {
            return pause;
        }
        if std::mem::take(&mut self.has_lost_ticket) {
            return MIN_PAUSE.mul_f64(1.0 + 4.0 * fastrand::f64());
        }
        let age = self.taken.elapsed();
        let jitter = 0.8 + 0.2 * fastrand::f64();
        match (self.ahead.unwrap_or(0), self.turn) {
            (0, Some(turn)) if age < turn * 2 => turn
                .mul_f64(0.95)
                .saturating_sub(age)
                .max(turn / 10)
                .clamp(MIN_PAUSE, MAX_PAUSE),
            (0, _) => (age.mul_f64(jitter) / 4).clamp(MIN_PAUSE, MAX_PAUSE),
            (ahead, turn) => turn
                .unwrap_or_default()
                .mul_f64(ahead as f64 - 0.4)
                .max(age / 2)
                .mul_f64(jitter)
                .clamp(MIN_PAUSE, MAX_PAUSE_BEHIND),
        }
    }

    /// Ends the wait of a process that has acquired the lock. The attempt has given up its ticket.
    pub(super) fn acquired(mut self) {
        self.ticket = None;
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
mod tests {
    use futures::future::try_join_all;
    use hbase_fake::{Call, FakeHBase, Latency};
    use tokio::time::sleep;

    use super::*;
    use crate::{
        Error, Level,
        lock::{LockManagerOptions, LockTableOptions, manager::two_processes},
    };

    /// Fills the slots of a lock with tickets that have no TTL, as another program may write them.
    async fn fill(location: &LockLocation) -> Result<()> {
        let mut put = Put::new(location.rows.rows[0].clone());
        for slot in 0..SLOTS {
            let ticket = [&1_u64.to_be_bytes()[..], &u128::from(slot).to_be_bytes()].concat();
            put = put.cell(location.rows.family.clone(), column(slot), ticket);
        }
        Ok(location.table.put(put).await?)
    }

    /// One lock is held at first. The other is free, and an answer takes until the tickets have outlived
    /// theirs.
    #[test]
    fn tickets_that_never_end_are_waited_for_once() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            for id in ["held", "free"] {
                let request = locks.lock(Level::Dc, id)?;
                fill(&request.location).await?;
                let mut held = None;
                if id == "held" {
                    held = Some(others.lock(Level::Dc, id)?.acquire().await?);
                }
                let waiting = tokio::spawn(request.wait(Duration::from_secs(60)).acquire());
                sleep(Duration::from_secs(1)).await;
                match held {
                    Some(held) => assert!(held.release().await?.is_released()),
                    None => drop(hbase.fault(Call::Multi.delay_answer(TICKET_TTL).times(1))),
                }
                let released = Instant::now();
                drop(waiting.await??);
                assert!(released.elapsed() < TICKET_TTL * 2, "{id}");
            }
            Ok(())
        });
    }

    /// Slots are chosen at random, so one run may have a wait of three rounds. With too few slots the
    /// middle one of three runs has one of four to five.
    #[test]
    fn processes_that_compete_wait_for_about_a_round() {
        const HOLD: Duration = Duration::from_millis(50);
        FakeHBase::run(async |hbase| {
            drop(two_processes(hbase).await?);
            let mut rounds = Vec::new();
            for id in ["one", "two", "three"] {
                let contest = compete(hbase, id, 32, HOLD, Duration::from_secs(60)).await?;
                rounds.push(contest.longest_wait);
            }
            rounds.sort_by(f64::total_cmp);
            assert!(rounds[1] <= 3.0, "the longest waits took {rounds:.2?} rounds");
            Ok(())
        });
    }

    /// The figures of a contended lock.
    #[derive(Debug)]
    struct Contest {
        /// The mean time from the end of the work under one hold to the beginning of the next.
        idle: Duration,
        /// The calls of all processes for each hold.
        calls: f64,
        /// The fewest holds of a process, by its fair share.
        fewest: f64,
        /// The longest wait, in rounds of all processes.
        longest_wait: f64,
    }

    /// Each process holds the lock as often as it can, as `suite::client_side::lock_fairness` does in real time.
    async fn compete(
        hbase: &FakeHBase,
        id: &str,
        processes: u32,
        hold: Duration,
        lasts: Duration,
    ) -> Result<Contest> {
        let connection = hbase.connect().await?;
        let open = |_| {
            LockManagerOptions::new("client")
                .open_or_create(&connection, LockTableOptions::new("locks").unwrap())
        };
        let managers = try_join_all((0..processes).map(open)).await?;
        let (began, before) = (Instant::now(), hbase.calls("Multi"));
        let loops = managers.iter().map(async |locks| {
            let mut waits = Vec::new();
            while began.elapsed() < lasts {
                let asked = Instant::now();
                let guard = locks.lock(Level::Xdc, id)?.wait(2 * lasts).acquire().await?;
                waits.push(asked.elapsed());
                sleep(hold).await;
                assert!(guard.release().await?.is_released());
            }
            Ok::<_, Error>(waits)
        });
        let each = try_join_all(loops).await?;
        let lasted = began.elapsed();
        let holds = u32::try_from(each.iter().map(Vec::len).sum::<usize>()).unwrap();
        let fair = f64::from(holds) / f64::from(processes);
        let fewest = each.iter().map(Vec::len).min().unwrap_or_default();
        let longest = each.iter().flatten().max().copied().unwrap_or_default();
        Ok(Contest {
            idle: (lasted - hold * holds) / holds,
            calls: (hbase.calls("Multi") - before) as f64 / f64::from(holds),
            fewest: fewest as f64 / fair,
            longest_wait: longest.as_secs_f64() * fair / lasted.as_secs_f64(),
        })
    }

    /// There, each change of the fencing cell is stamped one millisecond after the one before.
    #[test]
    fn server_whose_clock_is_behind_is_not_polled_more() {
        FakeHBase::run(async |_| {
            let hbase = FakeHBase::builder().servers(2).build();
            drop(two_processes(&hbase).await?);
            let hold = Duration::from_millis(50);
            let usual = compete(&hbase, "lock", 8, hold, Duration::from_secs(5)).await?;
            hbase.server(0).set_clock_ahead(-10_000);
            hbase.server(1).set_clock_ahead(-10_000);
            let behind = compete(&hbase, "lock", 8, hold, Duration::from_secs(5)).await?;
            assert!(behind.calls <= 2.0 * usual.calls, "{usual:?} {behind:?}");
            Ok(())
        });
    }

    /// A renewal is no new hold.
    #[test]
    fn renewed_hold_is_polled_ever_less() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let lease = Duration::from_millis(300);
            let held = locks
                .lock(Level::Dc, "long")?
                .ttl(lease)
                .auto_renew()
                .acquire()
                .await?;
            let waiting = [(); 2].map(|()| {
                let request = others.lock(Level::Dc, "long").unwrap();
                tokio::spawn(request.wait(Duration::from_secs(600)).acquire())
            });
            sleep(Duration::from_secs(60)).await;
            let before = hbase.calls("Multi");
            sleep(Duration::from_secs(60)).await;
            let calls = (hbase.calls("Multi") - before) as f64 / 60.0;
            // Ten are renewals.
            assert!(calls <= 17.0, "{calls} a second");
            assert!(held.release().await?.is_released());
            for waiting in waiting {
                assert!(waiting.await??.release().await?.is_released());
            }
            Ok(())
        });
    }

    /// A round trip takes two milliseconds: one of the release, and two of an acquisition that does not come
    /// too early.
    #[test]
    fn lock_that_many_want_is_seldom_free() {
        FakeHBase::run(async |_| {
            let one_way = Duration::from_micros(900)..Duration::from_micros(1_100);
            let latency = Latency {
                request: one_way.clone(),
                answer: one_way,
                ..Latency::NONE
            };
            let hbase = FakeHBase::builder().servers(1).latency(latency).build();
            drop(two_processes(&hbase).await?);
            for (processes, hold) in [
                (1, 5),
                (2, 5),
                (2, 100),
                (4, 5),
                (8, 5),
                (16, 5),
                (8, 100),
                (32, 100),
                (8, 1_000),
            ] {
                let hold = Duration::from_millis(hold);
                let id = format!("{processes} for {hold:?}");
                let lasts = (3 * processes * hold).max(Duration::from_secs(5));
                let contest = compete(&hbase, &id, processes, hold, lasts).await?;
                let what = format!("{id}: {contest:.3?}");
                let idle = Duration::from_millis(11).max(hold / 8);
                assert!(contest.idle <= idle, "{what}");
                let calls = 8.0 + 4.0 * f64::from(processes - 1) * (hold + idle).as_secs_f64();
                assert!(contest.calls <= calls, "{what}");
                assert!(contest.fewest >= 0.5, "{what}");
            }
            Ok(())
        });
    }
}
