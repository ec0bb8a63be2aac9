//! The calls in flight to a server or a region, of which overdue ones no longer count, and the time
//! that calls take.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

/// The time after which a call is overdue, unless calls to its server usually take half as long.
pub(in crate::client) const PATIENCE: Duration = Duration::from_millis(100);
/// The time of the shortest call for which there is a lane.
const TIME_OF_A_LANE: Duration = Duration::from_millis(1);
/// The maximum number of lanes for calls that are on the way.
const MOST_ON_THE_WAY: usize = 64;

/// Calls that have begun and not ended. A call that takes much longer than others is overdue, and
/// leaves its place to another one.
#[derive(Debug)]
pub struct CallsInFlight<T> {
    /// In the order in which they began.
    calls: Vec<CallInFlight<T>>,
    counted: usize,
    last_number: u64,
}

/// A call that has begun.
#[derive(Debug)]
pub struct CallInFlight<T> {
    number: u64,
    began: Instant,
    is_overdue: bool,
    what: T,
}

/// The names of the regions of a call.
#[derive(Debug)]
pub(super) struct RegionsOfCall {
    first: Bytes,
    others: BTreeSet<Bytes>,
}

/// The time that answered calls to a server take.
#[derive(Debug, Default)]
pub struct Pace {
    /// The shortest time, most of which a call to a server far away is on the way.
    shortest: Option<Duration>,
    /// The usual time: a moving average.
    usual: Duration,
}

impl<T> Default for CallsInFlight<T> {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            counted: 0,
            last_number: 0,
        }
    }
}

impl<T> CallInFlight<T> {
    /// Returns when it began.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Returns whether it no longer counted.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// Returns what it was begun with.
    #[must_use]
    pub fn what(&self) -> &T {
        &self.what
    }
}

impl<T> CallsInFlight<T> {
    /// Returns the number of calls that are not overdue.
    #[must_use]
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// Returns whether all calls have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a call, and returns its number.
    pub fn begin(&mut self, what: T, now: Instant) -> u64 {
        self.counted += 1;
        self.last_number += 1;
        self.calls.push(CallInFlight {
            number: self.last_number,
            began: now,
            is_overdue: false,
            what,
        });
        self.last_number
    }

    /// Returns when the first of those that count will be overdue.
    #[must_use]
    pub fn first_overdue(&self, patience: Duration) -> Option<Instant> {
        let first = self.calls.iter().find(|call| !call.is_overdue)?;
        Some(first.began + patience)
    }

    /// Counts the first call no more that has become overdue, and returns it.
    pub fn next_overdue(&mut self, patience: Duration, now: Instant) -> Option<&CallInFlight<T>> {
        let call = self.calls.iter_mut().find(|call| !call.is_overdue)?;
        if call.began + patience > now {
            return None;
        }
        call.is_overdue = true;
        self.counted -= 1;
        Some(call)
    }

    /// Removes a call that has ended.
    pub fn end(&mut self, number: u64) -> Option<CallInFlight<T>> {
        let place = self.calls.iter().position(|call| call.number == number)?;
        let ended = self.calls.remove(place);
        self.counted -= usize::from(!ended.is_overdue);
        Some(ended)
    }
}

impl RegionsOfCall {
    /// Returns the names without duplicates.
    pub(in crate::client) fn new<'a>(first: &Bytes, others: impl IntoIterator<Item = &'a Bytes>) -> Self {
        let others = others.into_iter().filter(|name| *name != first);
        Self {
            first: first.clone(),
            others: others.cloned().collect(),
        }
    }

    pub(in crate::client) fn iter(&self) -> impl Iterator<Item = &Bytes> {
        [&self.first].into_iter().chain(&self.others)
    }
}

impl Pace {
    /// Records the time of an answered call.
    pub fn record(&mut self, elapsed: Duration) {
        self.shortest = Some(self.shortest.map_or(elapsed, |shortest| shortest.min(elapsed)));
        // One call that was stuck for long says little of others.
        let elapsed = elapsed.min(2 * self.patience());
        self.usual = (7 * self.usual + elapsed) / 8;
    }

    /// Returns the time after which a call is overdue.
    #[must_use]
    pub fn patience(&self) -> Duration {
        PATIENCE.max(2 * self.usual)
    }

    /// Returns the number of calls that may be on the way to a server or back, beside those that it
    /// executes: a server far away gets as many calls in a second as one nearby.
    #[must_use]
    pub fn on_the_way(&self) -> usize {
        let lanes = self.shortest.unwrap_or_default().as_nanos() / TIME_OF_A_LANE.as_nanos();
        usize::try_from(lanes).map_or(MOST_ON_THE_WAY, |lanes| lanes.min(MOST_ON_THE_WAY))
    }
}
