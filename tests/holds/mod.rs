//! The owners' view of their holds of locks, and a checker of it.
//!
//! An owner holds a lock from the answer of its acquisition until it begins the release, or detects
//! the loss. All owners are in one process, so all times are of one clock.

pub(crate) mod capacity;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;

/// The id of a hold in a history.
pub(crate) type HoldId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Acquired { fencing: i64 },
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    pub(crate) lock: usize,
    pub(crate) hold: HoldId,
    pub(crate) what: What,
}

/// All acquisitions and ends of holds.
#[derive(Clone)]
pub(crate) struct History {
    began: Instant,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    events: Vec<Event>,
    next_hold: HoldId,
}

/// A hold that has begun.
#[must_use = "a hold that is never ended is refused by the checker"]
pub(crate) struct Begun {
    lock: usize,
    hold: HoldId,
}

/// A violation in a history.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Two owners held the lock at the same time.
    Overlap {
        lock: usize,
        first: HoldId,
        second: HoldId,
    },
    /// A later hold has a number that is not higher.
    Fencing {
        lock: usize,
        before: i64,
        after: i64,
    },
    AcquiredTwice(HoldId),
    EndedTwice(HoldId),
    NeverEnded(HoldId),
    NeverAcquired(HoldId),
    EndedBeforeItBegan(HoldId),
    EndedOnAnotherLock(HoldId),
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            shared: Arc::default(),
        }
    }

    /// Records that the lock was acquired now.
    pub(crate) fn acquired(&self, lock: usize, fencing: i64) -> Begun {
        let at = self.began.elapsed();
        let mut shared = self.shared.lock().unwrap();
        let hold = shared.next_hold;
        shared.next_hold += 1;
        let what = What::Acquired { fencing };
        shared.events.push(Event { at, lock, hold, what });
        Begun { lock, hold }
    }

    /// Records that the hold ends now.
    pub(crate) fn ended(&self, begun: Begun) {
        self.ended_at(begun, Instant::now());
    }

    /// Records that the hold ended at this moment.
    pub(crate) fn ended_at(&self, Begun { lock, hold }: Begun, moment: Instant) {
        let at = moment.saturating_duration_since(self.began);
        let what = What::Ended;
        self.shared
            .lock()
            .unwrap()
            .events
            .push(Event { at, lock, hold, what });
    }

    /// Returns the number of holds. Panics on a violation.
    pub(crate) fn check(&self) -> usize {
        let shared = self.shared.lock().unwrap();
        match check(&shared.events) {
            Ok(holds) => holds,
            Err(fault) => panic!("{fault}"),
        }
    }
}

/// The interval of a hold.
#[derive(Clone, Copy)]
struct Interval {
    hold: HoldId,
    fencing: i64,
    from: Duration,
    until: Duration,
}

/// Returns the number of holds, or the first violation.
pub(crate) fn check(events: &[Event]) -> Result<usize, Fault> {
    let mut begun: BTreeMap<HoldId, (&Event, i64)> = BTreeMap::new();
    let mut ended: HashMap<HoldId, &Event> = HashMap::new();
    for event in events {
        match event.what {
            What::Acquired { fencing } => {
                if begun.insert(event.hold, (event, fencing)).is_some() {
                    return Err(Fault::AcquiredTwice(event.hold));
                }
            }
            What::Ended => {
                if ended.insert(event.hold, event).is_some() {
                    return Err(Fault::EndedTwice(event.hold));
                }
            }
        }
    }
    let mut locks: BTreeMap<usize, Vec<Interval>> = BTreeMap::new();
    for (hold, (begin, fencing)) in &begun {
        let end = ended.remove(hold).ok_or(Fault::NeverEnded(*hold))?;
        if end.lock != begin.lock {
            return Err(Fault::EndedOnAnotherLock(*hold));
        }
        if end.at < begin.at {
            return Err(Fault::EndedBeforeItBegan(*hold));
        }
        locks.entry(begin.lock).or_default().push(Interval {
            hold: *hold,
            fencing: *fencing,
            from: begin.at,
            until: end.at,
        });
    }
    if let Some(hold) = ended.into_keys().min() {
        return Err(Fault::NeverAcquired(hold));
    }
    for (lock, mut intervals) in locks {
        intervals.sort_by_key(|interval| (interval.from, interval.until));
        for pair in intervals.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            if second.from < first.until {
                return Err(Fault::Overlap {
                    lock,
                    first: first.hold,
                    second: second.hold,
                });
            }
            if second.fencing <= first.fencing {
                return Err(Fault::Fencing {
                    lock,
                    before: first.fencing,
                    after: second.fencing,
                });
            }
        }
    }
    Ok(begun.len())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { lock, first, second } => {
                write!(f, "lock {lock} is held twice: holds {first} and {second}")
            }
            Self::Fencing { lock, before, after } => {
                write!(f, "lock {lock}: fencing number {after} behind {before}")
            }
            Self::AcquiredTwice(hold) => write!(f, "hold {hold} is acquired twice"),
            Self::EndedTwice(hold) => write!(f, "hold {hold} ends twice"),
            Self::NeverEnded(hold) => write!(f, "hold {hold} never ends"),
            Self::NeverAcquired(hold) => write!(f, "hold {hold} ends and never began"),
            Self::EndedBeforeItBegan(hold) => write!(f, "hold {hold} ends before it begins"),
            Self::EndedOnAnotherLock(hold) => write!(f, "hold {hold} ends on another lock"),
        }
    }
}
