//! Reads that many calls wait for: one at a time for each table.
//!
//! The first call leads: it reads, and passes the answer on to all calls that waited for the rows
//! that the answer covers. If calls are left, one of them leads next, so that a pile of them becomes
//! one walk over the table.

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::model::TableName;

/// The reads of all tables.
#[derive(Debug)]
pub(super) struct LookUps<T> {
    queues: Mutex<Queues<T>>,
}

/// The calls that wait, by row and then by arrival, for each table that has a leader.
#[derive(Debug)]
struct Queues<T> {
    tables: BTreeMap<TableName, BTreeMap<Position, oneshot::Sender<Turn<T>>>>,
    /// The number of calls that have ever waited.
    arrived: u64,
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
    /// The number of calls that had arrived when it became the leader.
    arrived: u64,
    /// The first row that was answered. The walk continues below it, so that no call waits for
    /// longer than one walk.
    walked_to: Bytes,
}

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
        let (turn, _place) = {
            let mut queues = self.queues();
            queues.arrived += 1;
            let arrived = queues.arrived;
            let Some(calls) = queues.tables.get_mut(table) else {
                queues.tables.insert(table.clone(), BTreeMap::new());
                return Turn::Lead(Leader {
                    look_ups: Arc::clone(self),
                    table: table.clone(),
                    arrived,
                    walked_to: row.clone(),
                });
            };
            let position = (row.clone(), arrived);
            let (sender, turn) = oneshot::channel();
            calls.insert(position.clone(), sender);
            let place = Place {
                look_ups: self,
                table,
                position,
            };
            (turn, place)
        };
        #[expect(clippy::expect_used, reason = "a sender is removed only to be used")]
        turn.await.expect("each waiting call is answered or leads")
    }

    fn queues(&self) -> MutexGuard<'_, Queues<T>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a call among those that wait.
struct Place<'a, T> {
    look_ups: &'a LookUps<T>,
    table: &'a TableName,
    position: Position,
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if let Some(calls) = self.look_ups.queues().tables.get_mut(self.table) {
            calls.remove(&self.position);
        }
    }
}

impl<T> Leader<T> {
    /// Returns the number of calls that wait for an answer, this one included.
    pub(super) fn calls(&self) -> usize {
        let queues = self.look_ups.queues();
        1 + queues.tables.get(&self.table).map_or(0, BTreeMap::len)
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
        if let Some(calls) = self.look_ups.queues().tables.get_mut(&self.table) {
            let range = calls.range((first.map(|row| (row, 0)), last.map(|row| (row, u64::MAX))));
            let early = range.filter(|((_, arrived), _)| *arrived < self.arrived);
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

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        let mut queues = self.look_ups.queues();
        let arrived = queues.arrived + 1;
        let Some(calls) = queues.tables.get_mut(&self.table) else {
            return;
        };
        let below = calls.range(..(self.walked_to.clone(), 0)).next_back();
        let next = below.or_else(|| calls.last_key_value());
        let next = next.map(|(position, _)| position.clone());
        let Some((position, call)) = next.and_then(|position| calls.remove_entry(&position)) else {
            queues.tables.remove(&self.table);
            return;
        };
        drop(queues);
        // If the call has given up, the drop of the turn passes it on.
        let _ = call.send(Turn::Lead(Self {
            look_ups: Arc::clone(&self.look_ups),
            table: self.table.clone(),
            arrived,
            walked_to: position.0,
        }));
    }
}

#[cfg(test)]
mod tests;
