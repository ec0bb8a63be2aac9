//! Rows with a recent delete, whose next put waits.
//!
//! A server stamps a put and a delete of one millisecond alike, and HBase then hides the put, although
//! it came later (`ScanQueryMatcher`: a delete marker is sorted before the cells of its timestamp).
//! When a delete is acknowledged, the clock of its server has reached its timestamp. So a put of the
//! row that is sent a millisecond later gets a later timestamp.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::model::TableName;

/// The pause between the answer to a delete and the next put of its row: a millisecond of the server.
/// A clock that is being corrected runs up to 8.3 % slower (`maxslewrate` of chrony).
const PAUSE: Duration = Duration::from_micros(1_100);
/// The maximum number of rows that are kept. If more are deleted within a pause, all puts wait.
const MAX_ROWS: usize = 1 << 14;

/// The rows of a client that were deleted at the server's time, for a millisecond after the answer.
#[derive(Debug, Default)]
pub(super) struct RecentDeletes {
    /// Whether there are any, so that puts without deletes cost one load.
    any: AtomicBool,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    /// The ends of the pauses, by the hash of table and row. An equal hash of another row costs a pause.
    ends: HashMap<u64, Instant>,
    /// The end of a pause of all rows.
    end_of_all: Option<Instant>,
    /// The end of the last pause.
    last_end: Option<Instant>,
}

impl RecentDeletes {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows whose deletes were acknowledged just now.
    pub(super) fn add<'r>(&self, table: &TableName, deleted: impl Iterator<Item = &'r [u8]>) {
        let mut deleted = deleted.peekable();
        if deleted.peek().is_none() {
            return;
        }
        let now = Instant::now();
        let end = now + PAUSE;
        let mut rows = self.rows();
        rows.forget_until(now);
        rows.last_end = Some(end);
        for row in deleted {
            if rows.ends.len() >= MAX_ROWS {
                rows.end_of_all = Some(end);
                break;
            }
            rows.ends.insert(key(table, row), end);
        }
        self.any.store(true, Ordering::Relaxed);
    }

    /// Returns when puts of these rows may be sent, or `None` if that is now.
    pub(super) fn end_of_pause<'r>(
        &self,
        table: &TableName,
        put: impl Iterator<Item = &'r [u8]>,
    ) -> Option<Instant> {
        // A caller that knows of an acknowledged delete also sees this.
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let now = Instant::now();
        let mut rows = self.rows();
        if rows.forget_until(now) {
            self.any.store(false, Ordering::Relaxed);
            return None;
        }
        let of_rows = put.filter_map(|row| rows.ends.get(&key(table, row)).copied());
        of_rows.chain(rows.end_of_all).filter(|end| *end > now).max()
    }
}

impl Rows {
    /// Forgets all rows if their pauses have ended, and otherwise those whose pauses have, if there are
    /// many. Returns whether all were forgotten.
    fn forget_until(&mut self, now: Instant) -> bool {
        if self.last_end.is_none_or(|end| end <= now) {
            if !self.ends.is_empty() {
                self.ends = HashMap::new();
            }
            (self.end_of_all, self.last_end) = (None, None);
            return true;
        }
        if self.ends.len() >= MAX_ROWS {
            self.ends.retain(|_, end| *end > now);
        }
        false
    }
}

fn key(table: &TableName, row: &[u8]) -> u64 {
    // With constant keys, so that runs of a simulation are equal.
    let mut hasher = DefaultHasher::new();
    (table, row).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn table(name: &str) -> TableName {
        name.parse().unwrap()
    }

    fn end(recent: &RecentDeletes, table: &TableName, row: &[u8]) -> Option<Instant> {
        recent.end_of_pause(table, [row].into_iter())
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_deleted_row_pauses_and_for_a_millisecond() {
        let (recent, orders) = (RecentDeletes::default(), table("orders"));
        assert_eq!(end(&recent, &orders, b"a"), None);
        recent.add(&orders, [&b"a"[..]].into_iter());
        let first = Instant::now() + PAUSE;
        assert_eq!(end(&recent, &orders, b"a"), Some(first));
        assert_eq!(end(&recent, &orders, b"b"), None);
        assert_eq!(end(&recent, &table("others"), b"a"), None);
        advance(PAUSE / 2).await;
        recent.add(&orders, [&b"b"[..]].into_iter());
        let both = recent.end_of_pause(&orders, [&b"a"[..], b"b"].into_iter());
        assert_eq!(both, Some(Instant::now() + PAUSE));
        advance(PAUSE / 2).await;
        assert_eq!(end(&recent, &orders, b"a"), None);
        assert!(end(&recent, &orders, b"b").is_some());
        advance(PAUSE / 2).await;
        assert_eq!(end(&recent, &orders, b"b"), None);
        assert!(!recent.any.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn more_rows_than_are_kept_pause_all() {
        let (recent, orders) = (RecentDeletes::default(), table("orders"));
        let rows: Vec<_> = (0..=MAX_ROWS as u64).map(u64::to_be_bytes).collect();
        recent.add(&orders, rows.iter().map(|row| &row[..]));
        assert_eq!(recent.rows().ends.len(), MAX_ROWS);
        assert!(end(&recent, &orders, b"another").is_some());
        advance(PAUSE).await;
        assert_eq!(end(&recent, &orders, b"another"), None);
        assert_eq!(recent.rows().ends.capacity(), 0);
    }
}
