//! Puts that must not follow a delete of their row within a millisecond.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use hbase_txn::Mutation;

/// The time after which the server's clock has advanced by a millisecond.
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

/// The maximum number of rows that are kept.
const MOST_ROWS: usize = 10_000;

/// The rows that were deleted at the server's time.
///
/// A delete without a timestamp gets the server's time, and hides a later put with the same timestamp.
#[derive(Debug, Default)]
pub(super) struct DeletedRows(HashSet<Bytes>);

impl DeletedRows {
    /// Adds the row of a mutation, if it is a delete that gets the server's time.
    pub(super) fn add(&mut self, mutation: &Mutation, deletes_now: bool) {
        if deletes_now {
            self.0.insert(Bytes::copy_from_slice(mutation.row()));
        }
    }

    /// Returns whether all mutations so far must be done for a millisecond before this one is written.
    pub(super) fn must_precede(&self, mutation: &Mutation) -> bool {
        self.0.len() >= MOST_ROWS || matches!(mutation, Mutation::Put(_)) && self.0.contains(mutation.row())
    }

    /// Forgets all rows: their deletes are done for a millisecond.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use hbase_txn::{Delete, Put};

    use super::*;

    #[test]
    fn only_puts_of_a_deleted_row_wait() {
        let delete = Mutation::from(Delete::new("a"));
        let put = |row: &'static str| Mutation::from(Put::new(row).cell("f", "q", "v"));
        let mut rows = DeletedRows::default();
        rows.add(&delete, false);
        assert!(!rows.must_precede(&put("a")), "it has a timestamp");
        rows.add(&delete, true);
        assert!(rows.must_precede(&put("a")));
        assert!(!rows.must_precede(&put("b")));
        assert!(!rows.must_precede(&delete));
        rows.clear();
        assert!(!rows.must_precede(&put("a")));
    }
}
