//! Notices when a table's partition rule changes under an open client.
//!
//! Atomicity never hangs on this: a group is sent to one region that has all its rows, or not at all. But under
//! another rule the client would group rows that the table may part tomorrow, so it stops, and stays so until the
//! table has its old rule again or is opened anew. A changed rule takes effect when regions reopen; so the rule is
//! read again whenever a region turns out to have been reopened, split, merged or moved, and from time to time
//! besides.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

/// When the rule was last read, and which openings of regions it was read for.
#[derive(Debug)]
pub(super) struct RuleWatch {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// None once another rule was found: then it is read again before every transaction, until it is the old one.
    read_at: Option<Instant>,
    /// Per region name, the opening that the rule is known to be no older than.
    openings: HashMap<Bytes, i64>,
}

impl RuleWatch {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            state: Mutex::new(State {
                read_at: Some(Instant::now()),
                openings: HashMap::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the rule was read so long ago that it must be read again. Says so to one caller at a time.
    pub(super) fn is_due(&self) -> bool {
        let mut state = self.state();
        let Some(read_at) = state.read_at else {
            return true;
        };
        let due = read_at.elapsed() >= self.interval;
        if due {
            state.read_at = Some(Instant::now());
        }
        due
    }

    /// Whether the rule was read since this opening of the region.
    pub(super) fn covers(&self, region: &Bytes, opening: i64) -> bool {
        self.state()
            .openings
            .get(region)
            .is_some_and(|known| *known >= opening)
    }

    /// Notes that the rule was read after this opening of the region.
    pub(super) fn cover(&self, region: Bytes, opening: i64) {
        self.state().openings.insert(region, opening);
    }

    /// Notes that the rule was read now.
    pub(super) fn read_now(&self) {
        self.state().read_at = Some(Instant::now());
    }

    /// Notes that the table has another rule now.
    pub(super) fn changed(&self) {
        self.state().read_at = None;
    }

    /// Whether the table had another rule when it was last read.
    pub(super) fn is_changed(&self) -> bool {
        self.state().read_at.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reopened_or_new_region_is_not_covered() {
        let watch = RuleWatch::new(Duration::from_secs(60));
        watch.cover("r1".into(), 5);
        assert!(watch.covers(&"r1".into(), 5) && watch.covers(&"r1".into(), 4));
        assert!(!watch.covers(&"r1".into(), 6) && !watch.covers(&"r2".into(), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn is_due_once_per_interval() {
        let watch = RuleWatch::new(Duration::from_secs(60));
        assert!(!watch.is_due());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(watch.is_due());
        assert!(!watch.is_due());
    }

    #[tokio::test(start_paused = true)]
    async fn stays_due_for_everyone_once_the_rule_was_found_changed() {
        let watch = RuleWatch::new(Duration::from_secs(60));
        watch.changed();
        assert!(watch.is_due() && watch.is_due());
        watch.read_now();
        assert!(!watch.is_due());
    }
}
