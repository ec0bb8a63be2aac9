//! The locks that are held in a table.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_client::{BytesBinary, Comparator, Comparison, Filter, Scan};

use super::{
    manager::LockManager,
    name::LockName,
    protocol::{
        layout::{ALONE, COMPANION, FAMILY, FENCING},
        row_state::RowState,
    },
    state::LockInfo,
};
use crate::error::{ClientErrorKind, Error, Result};

/// The maximum number of listed locks.
pub(super) const MOST: usize = 1_000_000;

/// Returns the error of a list with more locks than [`MOST`].
pub(super) fn too_many() -> Error {
    Error::new(
        ClientErrorKind::LimitExceeded,
        format!("more than {MOST} locks are held"),
    )
    .with_hint("show single locks")
}

impl LockManager {
    /// Lists the held locks of the table, of all clients and farms, in the order of their rows. The
    /// fencing numbers are not read.
    ///
    /// The list is not a snapshot: the table is scanned, and each lock is as it was when the scan
    /// passed it.
    ///
    /// # Errors
    ///
    /// Returns the errors of the scan, and [`LimitExceeded`](ClientErrorKind::LimitExceeded) if
    /// more than a million locks are held.
    pub async fn list(&self) -> Result<Vec<LockInfo>> {
        // Without the fencing cells: every lock of the last seven days has one.
        let is_needed = [
            Filter::qualifier(Comparison::NotEqual, Comparator::binary(FENCING)),
            Filter::value(Comparison::NotEqual, Comparator::binary("")),
        ];
        let scan = Scan::new().family(FAMILY).filter(Filter::all(is_needed));
        let mut rows: BTreeMap<Bytes, Vec<RowState>> = BTreeMap::new();
        let mut scanner = self.scan(scan)?;
        let own_rows = if self.has_companions() { 2 } else { 1 };
        while let Some(row) = scanner.next().await? {
            let key = row.key();
            // Companions come first, as in `LockRows`.
            let (lock, index) = match key.strip_suffix(COMPANION) {
                Some(lock) if self.has_companions() => (key.slice(..lock.len()), 0),
                _ => (key.clone(), own_rows - 1),
            };
            let state = RowState::of(&FAMILY, &ALONE, Some(&row));
            if state.occupant().is_none() {
                continue;
            }
            if rows.len() >= MOST && !rows.contains_key(&lock) {
                return Err(too_many().at_table(self.table()));
            }
            rows.entry(lock)
                .or_insert_with(|| vec![RowState::default(); own_rows])[index] = state;
        }
        Ok(rows
            .into_iter()
            .map(|(row, states)| {
                let key = BytesBinary(row.get(1..).unwrap_or_default()).to_string();
                LockInfo::of(LockName::of_row(&row), key, &states)
            })
            .collect())
    }
}
