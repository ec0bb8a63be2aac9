//! The large calls in flight to a server, and what waits for them.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::calls_in_flight::{CallsInFlight, Pace, RegionsOfCall};
use crate::rpc::{CallError, Recovery};

/// The number of calls in flight to a server. While it executes one, the client encodes the next.
pub(super) const LANES: usize = 2;
/// A large call is overdue after this many times the time after which a small one would be: its answer
/// may have many megabytes. The time doubles with each overdue call until one is answered, because a server may just be slow.
const PATIENCE: u32 = 10;
const MAX_DOUBLINGS: u32 = 6;
/// The minimum number of operations in a call that an overloaded server gets, and the number by which
/// it grows with each answer.
const FEWEST_OPERATIONS: usize = 16;
const GROWTH: usize = 100;

/// The limits of the calls to a server.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct FlowLimits {
    /// The number of calls in flight.
    pub(in crate::client) lanes: usize,
    /// The maximum number of operations in a call, and of bytes unless one operation is larger.
    pub(in crate::client) operations: usize,
    pub(in crate::client) bytes: usize,
}

/// The calls in flight to a server, and what may be sent in the next ones.
#[derive(Debug)]
pub(super) struct Flow<T> {
    limits: FlowLimits,
    calls: CallsInFlight<RegionsOfCall>,
    pace: Pace,
    /// The number of calls that became overdue since one was answered.
    overdue: u32,
    /// The names of regions with an overdue call. They share no call until one of theirs is answered.
    suspects: BTreeSet<Bytes>,
    /// The maximum number of operations in a call. Halved when the server is overloaded.
    most: usize,
    pub(in crate::client) ready: VecDeque<T>,
}

impl<T> Flow<T> {
    pub(in crate::client) fn new(limits: FlowLimits) -> Self {
        Self {
            limits,
            calls: CallsInFlight::default(),
            pace: Pace::default(),
            overdue: 0,
            suspects: BTreeSet::new(),
            most: limits.operations,
            ready: VecDeque::new(),
        }
    }

    /// Returns the limits of the next call.
    pub(in crate::client) fn limits(&self) -> FlowLimits {
        FlowLimits {
            operations: self.most,
            ..self.limits
        }
    }

    /// Returns whether a region shares no call.
    pub(super) fn is_suspect(&self, region: &Bytes) -> bool {
        self.suspects.contains(region)
    }

    /// Returns whether another call may begin, without those that are overdue.
    pub(super) fn has_lane(&mut self, now: Instant) -> bool {
        while self.calls.counted() >= self.limits.lanes {
            let Some(call) = self.calls.next_overdue(self.patience(), now) else {
                return false;
            };
            self.suspects.extend(call.what().iter().cloned());
            self.overdue += 1;
        }
        true
    }

    /// Returns when the next call becomes overdue, if something waits for its place.
    pub(super) fn next_overdue(&self) -> Option<Instant> {
        let is_waited_for = !self.ready.is_empty() && self.calls.counted() >= self.limits.lanes;
        is_waited_for
            .then(|| self.calls.first_overdue(self.patience()))
            .flatten()
    }

    /// Begins a call, and returns its number.
    pub(in crate::client) fn begin(&mut self, regions: RegionsOfCall, now: Instant) -> u64 {
        self.calls.begin(regions, now)
    }

    /// Ends a call.
    pub(in crate::client) fn end(&mut self, number: u64, end: EndOfCall) {
        self.most = if end.is_overloaded {
            (self.most / 2).max(FEWEST_OPERATIONS.min(self.limits.operations))
        } else {
            (self.most + GROWTH).min(self.limits.operations)
        };
        let Some(ended) = self.calls.end(number).filter(|_| end.is_answered) else {
            return;
        };
        self.pace.record(ended.began().elapsed());
        self.overdue = 0;
        for region in ended.what().iter() {
            self.suspects.remove(region);
        }
    }

    /// Returns the time after which a call is overdue.
    fn patience(&self) -> Duration {
        self.pace.patience() * (PATIENCE << self.overdue.min(MAX_DOUBLINGS))
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndOfCall {
    /// Whether the server has answered.
    pub(in crate::client) is_answered: bool,
    /// Whether the server has rejected something because it is overloaded.
    pub(super) is_overloaded: bool,
}

impl EndOfCall {
    /// Returns the end of a call with these results of its parts; `None` stands for success.
    pub(in crate::client) fn of<'e>(failures: impl IntoIterator<Item = Option<&'e CallError>>) -> Self {
        let mut end = Self::default();
        for failure in failures {
            end.is_answered |= failure.is_none_or(CallError::is_answer);
            end.is_overloaded |=
                failure.is_some_and(|failure| failure.classify().recovery == Recovery::WaitForLoad);
        }
        end
    }
}
