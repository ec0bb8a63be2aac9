//! The workers' results, and whether they agree with the latches.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use hbase_txn::{
    Error, Level,
    latch::{LatchCount, LatchState},
};

use crate::linearizable::objects::RecordedLatch;

/// A latch that any worker counts down.
pub(super) struct Counting {
    pub(super) id: String,
    pub(super) level: Level,
    pub(super) count: i64,
    /// The sum of the certain count-downs, and of those that are unknown.
    done: AtomicI64,
    unknown: AtomicI64,
}

/// A latch at which each of these participants arrives until its arrival is confirmed.
pub(super) struct Arriving {
    pub(super) id: String,
    pub(super) level: Level,
    pub(super) participants: usize,
}

/// The count after all have arrived. A participant that counts twice lowers it.
pub(super) const SPARE: u64 = 7;

/// The largest share of count-downs with an unknown outcome, in percent: with notes, and without.
const MAX_UNKNOWN: (usize, usize) = (10, 50);

/// The numbers of calls by result.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) done: AtomicUsize,
    pub(super) unknown: AtomicUsize,
    pub(super) failed: AtomicUsize,
}

impl Tally {
    /// A client that reports every outcome as unknown would not be wrong, but useless. Without
    /// notes no client can determine the outcome of a lost answer.
    pub(super) fn check(&self, has_state: bool) {
        let [done, unknown] = [&self.done, &self.unknown].map(|count| count.load(Relaxed));
        let most = if has_state { MAX_UNKNOWN.0 } else { MAX_UNKNOWN.1 };
        assert!(
            unknown * 100 <= (done + unknown) * most,
            "more than {most} % unknown: {self:?}"
        );
    }
}

impl Counting {
    pub(super) fn new(id: String, level: Level, count: usize) -> Self {
        Self {
            id,
            level,
            count: i64::try_from(count).unwrap(),
            done: AtomicI64::new(0),
            unknown: AtomicI64::new(0),
        }
    }

    pub(super) fn note(&self, told: &Result<LatchCount, Error>, tally: &Tally) {
        match told {
            Ok(counted) => {
                assert!(counted.counted);
                self.done.fetch_add(1, Relaxed);
                tally.done.fetch_add(1, Relaxed);
            }
            Err(error) if error.is_outcome_unknown() => {
                self.unknown.fetch_add(1, Relaxed);
                tally.unknown.fetch_add(1, Relaxed);
            }
            Err(_) => {
                tally.failed.fetch_add(1, Relaxed);
            }
        }
    }

    /// The count must lie between the bounds of the results.
    pub(super) async fn check(&self, latch: &RecordedLatch) {
        let info = latch.show().await.unwrap();
        let left = i64::try_from(info.count.unwrap()).unwrap();
        assert_eq!(info.farms.values().sum::<i64>(), left, "{info:?}");
        let (done, unknown) = (self.done.load(Relaxed), self.unknown.load(Relaxed));
        let gone = self.count - left;
        assert!(
            done <= gone && gone <= done + unknown,
            "{}: {gone} were counted down, {done} for certain and {unknown} perhaps",
            self.id
        );
    }
}

impl Arriving {
    pub(super) async fn check(&self, latch: &RecordedLatch) {
        let info = latch.show().await.unwrap();
        assert_eq!(
            (info.state, info.count),
            (LatchState::Open, Some(SPARE)),
            "{}",
            self.id
        );
        let arrived = info.arrived.and_then(|arrived| usize::try_from(arrived).ok());
        assert_eq!(arrived, Some(self.participants));
    }
}
