//! The calls in flight to a server.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    super::calls_in_flight::{CallsInFlight, Pace},
    queues::MOST_MUTATIONS,
};

/// The number of calls in flight to a server. While it executes one, the client encodes the next.
const LANES: usize = 2;
/// A bulk call is overdue after this many times the time after which a small one would be. The time
/// doubles with each overdue call until one is answered, because a server may just be slow.
const PATIENCE: u32 = 4;
const MAX_DOUBLINGS: u32 = 6;
/// The minimum number of mutations in a call that an overloaded server gets, and the number by which
/// it grows with each answer.
const FEWEST_MUTATIONS: usize = 16;
const GROWTH: usize = 100;

/// The calls to a server.
pub(super) struct Flow {
    pub(super) calls: CallsInFlight,
    pace: Pace,
    /// The number of calls that became overdue since one was answered.
    overdue: u32,
    /// The names of regions with an overdue call. They share no call until one of theirs is answered.
    pub(super) suspects: BTreeSet<Bytes>,
    /// The maximum number of mutations in a call. Halved when the server is overloaded.
    pub(super) most: usize,
    /// The first rows of queues that may send a part.
    pub(super) ready: VecDeque<Bytes>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            calls: CallsInFlight::default(),
            pace: Pace::default(),
            overdue: 0,
            suspects: BTreeSet::new(),
            most: MOST_MUTATIONS,
            ready: VecDeque::new(),
        }
    }
}

impl Flow {
    /// Returns the time after which a call is overdue.
    fn patience(&self) -> Duration {
        self.pace.patience() * (PATIENCE << self.overdue.min(MAX_DOUBLINGS))
    }

    /// Returns whether another call may begin, without those that are overdue.
    pub(super) fn has_lane(&mut self, now: Instant) -> bool {
        while self.calls.counted() >= LANES {
            let Some(call) = self.calls.next_overdue(self.patience(), now) else {
                return false;
            };
            self.suspects.extend(call.regions.iter().cloned());
            self.overdue += 1;
        }
        true
    }

    /// Returns when the next call becomes overdue, if queues wait for its place.
    pub(super) fn next_overdue(&self) -> Option<Instant> {
        let is_waited_for = !self.ready.is_empty() && self.calls.counted() >= LANES;
        is_waited_for
            .then(|| self.calls.first_overdue(self.patience()))
            .flatten()
    }

    /// Ends a call.
    pub(super) fn end(&mut self, number: u64, is_answered: bool, is_overloaded: bool) {
        self.most = if is_overloaded {
            (self.most / 2).max(FEWEST_MUTATIONS)
        } else {
            (self.most + GROWTH).min(MOST_MUTATIONS)
        };
        let Some(ended) = self.calls.end(number).filter(|_| is_answered) else {
            return;
        };
        self.pace.record(ended.began.elapsed());
        self.overdue = 0;
        for region in ended.regions.iter() {
            self.suspects.remove(region);
        }
    }
}
