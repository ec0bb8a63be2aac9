//! Reads that many calls wait for: one at a time for each table.
//!
//! The first call leads: it reads, and passes the answer on to all calls that waited for the rows
//! that the answer covers. If calls are left, one of them leads next, so that a pile of them becomes
//! one walk over the table.
//!
//! A leader reads in the future of its own caller, which may stop polling it. So a turn expires: a call
//! that waits takes it over, and the others wait for that one.

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::model::TableName;

/// The reads of all tables.
#[derive(Debug)]
pub(super) struct LookUps<T> {
    queues: Mutex<Queues<T>>,
}

#[derive(Debug)]
struct Queues<T> {
    /// The tables that have a leader.
    tables: BTreeMap<TableName, Queue<T>>,
    /// The number of calls that have ever arrived, and of turns.
    arrived: u64,
}

#[derive(Debug)]
struct Queue<T> {
    /// The calls that wait, by row and then by arrival.
    calls: BTreeMap<Position, oneshot::Sender<Turn<T>>>,
    /// The number of the turn.
    turn: u64,
    /// When the turn expires.
    expires_at: Instant,
}

/// The row of a call, and its number by arrival.
type Position = (Bytes, u64);

/// The end of a wait.
#[derive(Debug)]
pub(super) enum Turn<T> {
    /// A read that began after the call had arrived answers it.
    Answered(T),
    /// The call must read.
    Lead(Leader<T>),
}

/// The right to read. When it is dropped, a call that still waits gets it.
#[derive(Debug)]
pub(super) struct Leader<T> {
    look_ups: Arc<LookUps<T>>,
    table: TableName,
    /// The number of the turn. All calls that arrived before it have lower ones.
    turn: u64,
    /// The first row that was answered. The walk continues below it, so that no call waits for
    /// longer than one walk.
    walked_to: Bytes,
}

/// How long a turn lasts while other calls wait: several times as long as a read takes.
const TURN: Duration = Duration::from_secs(1);

impl<T> LookUps<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            queues: Mutex::new(Queues {
                tables: BTreeMap::new(),
                arrived: 0,
            }),
        })
    }

    /// Waits for an answer for a row, or for the turn to read.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves the queue. If it had the turn, the turn goes to another call.
    pub(super) async fn wait(self: &Arc<Self>, table: &TableName, row: &Bytes) -> Turn<T> {
        let (mut turn, place) = {
            let mut queues = self.queues();
            queues.arrived += 1;
            let position = (row.clone(), queues.arrived);
            let Some(queue) = queues.tables.get_mut(table) else {
                return Turn::Lead(self.lead(&mut queues, table, row));
            };
            let (sender, turn) = oneshot::channel();
            queue.calls.insert(position.clone(), sender);
            let place = Place {
                look_ups: self,
                table,
                position,
            };
            (turn, place)
        };
        loop {
            if let Ok(turn) = timeout_at(place.turn_expires_at(), &mut turn).await {
                #[expect(clippy::expect_used, reason = "a sender is removed only to be used")]
                return turn.expect("each waiting call is answered or leads");
            }
            if let Some(leader) = place.take_over() {
                return Turn::Lead(leader);
            }
        }
    }

    /// Gives the turn of a table to a call for this row.
    fn lead(self: &Arc<Self>, queues: &mut Queues<T>, table: &TableName, row: &Bytes) -> Leader<T> {
        queues.arrived += 1;
        let (turn, expires_at) = (queues.arrived, Instant::now() + TURN);
        let queue = queues.tables.entry(table.clone()).or_insert_with(|| Queue {
            calls: BTreeMap::new(),
            turn,
            expires_at,
        });
        (queue.turn, queue.expires_at) = (turn, expires_at);
        Leader {
            look_ups: Arc::clone(self),
            table: table.clone(),
            turn,
            walked_to: row.clone(),
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues<T>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a call among those that wait.
struct Place<'a, T> {
    look_ups: &'a Arc<LookUps<T>>,
    table: &'a TableName,
    position: Position,
}

impl<T> Place<'_, T> {
    fn turn_expires_at(&self) -> Instant {
        let queues = self.look_ups.queues();
        let queue = queues.tables.get(self.table);
        queue.map_or_else(Instant::now, |queue| queue.expires_at)
    }

    /// Takes over the turn if it has expired, unless this call has been answered or given the turn.
    fn take_over(&self) -> Option<Leader<T>> {
        let mut queues = self.look_ups.queues();
        let queue = queues.tables.get_mut(self.table)?;
        if Instant::now() < queue.expires_at {
            return None;
        }
        queue.calls.remove(&self.position)?;
        Some(self.look_ups.lead(&mut queues, self.table, &self.position.0))
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if let Some(queue) = self.look_ups.queues().tables.get_mut(self.table) {
            queue.calls.remove(&self.position);
        }
    }
}

impl<T> Leader<T> {
    /// Returns the number of calls that wait for an answer, this one included.
    pub(super) fn calls(&self) -> usize {
        let queues = self.look_ups.queues();
        1 + queues
            .tables
            .get(&self.table)
            .map_or(0, |queue| queue.calls.len())
    }

    /// Answers the calls for these rows that had arrived before this one led. A later call may have
    /// learnt of a change that the answer does not have.
    pub(super) fn answer(&mut self, rows: impl RangeBounds<Bytes>, answer: impl Fn(&Bytes) -> T) {
        let first = rows.start_bound().cloned();
        let last = rows.end_bound().cloned();
        if let Bound::Included(first) = &first {
            self.walked_to = first.clone();
        }
        let mut answered = Vec::new();
        if let Some(Queue { calls, .. }) = self.look_ups.queues().tables.get_mut(&self.table) {
            let range = calls.range((first.map(|row| (row, 0)), last.map(|row| (row, u64::MAX))));
            let early = range.filter(|((_, arrived), _)| *arrived < self.turn);
            for position in early.map(|(position, _)| position.clone()).collect::<Vec<_>>() {
                answered.extend(calls.remove_entry(&position));
            }
        }
        for ((row, _), call) in answered {
            // The call may have given up.
            let _ = call.send(Turn::Answered(answer(&row)));
        }
    }
}

impl<T: Clone, E: Clone> Leader<Result<T, E>> {
    /// Passes an answer on to all calls that wait, unless it is a failure and the time of this call was
    /// too short.
    pub(super) fn share(&mut self, answer: &Result<T, E>, deadline: Instant) {
        if answer.is_ok() || Instant::now() < deadline {
            self.answer(.., |_| answer.clone());
        }
    }
}

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        let mut queues = self.look_ups.queues();
        let Some(queue) = queues.tables.get_mut(&self.table) else {
            return;
        };
        if queue.turn != self.turn {
            return;
        }
        let below = queue.calls.range(..(self.walked_to.clone(), 0)).next_back();
        // Of those with one row the first to arrive, or later ones with short deadlines would starve it.
        let mut same_row = queue.calls.range((self.walked_to.clone(), 0)..);
        let same_row = same_row.next().filter(|((row, _), _)| *row == self.walked_to);
        let next = below.or(same_row).or_else(|| queue.calls.last_key_value());
        let next = next.map(|(position, _)| position.clone());
        let Some(((row, _), call)) = next.and_then(|position| queue.calls.remove_entry(&position)) else {
            queues.tables.remove(&self.table);
            return;
        };
        let leader = self.look_ups.lead(&mut queues, &self.table, &row);
        drop(queues);
        // If the call has given up, the drop of the turn passes it on.
        let _ = call.send(Turn::Lead(leader));
    }
}

#[cfg(test)]
mod tests;
