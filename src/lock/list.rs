//! The locks that are held in a table.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_client::{BytesBinary, Comparator, Comparison, Filter, Scan};

use super::{
    layout::{ALONE, COMPANION, FAMILY, MARKER, OWNER},
    manager::LockManager,
    name::LockName,
    row_state::RowState,
    state::LockInfo,
};
use crate::error::{ClientErrorKind, Error, Result};

/// The most locks that are listed.
const MOST: usize = 1_000_000;

impl LockManager {
    /// Lists the held locks of the table, of every client and farm, in the order of their rows.
    /// Without fencing numbers.
    ///
    /// The table is read from one end to the other: what is told was so at some moment, but not all
    /// at the same.
    ///
    /// # Errors
    ///
    /// Those of the scan; [`LimitExceeded`](ClientErrorKind::LimitExceeded) when more than a
    /// million are held.
    pub async fn list(&self) -> Result<Vec<LockInfo>> {
        // Without the fencing cells: each lock of the last days has one.
        let scan = Scan::new()
            .column(FAMILY, MARKER)
            .column(FAMILY, OWNER)
            .filter(Filter::value(Comparison::NotEqual, Comparator::binary("")));
        let mut rows: BTreeMap<Bytes, Vec<RowState>> = BTreeMap::new();
        let mut scanner = self.scan(scan)?;
        let own_rows = if self.has_companions() { 2 } else { 1 };
        while let Some(row) = scanner.next().await? {
            let key = row.key();
            // Companions come first, as they do in a lock's rows.
            let (lock, index) = match key.strip_suffix(COMPANION) {
                Some(lock) if self.has_companions() => (key.slice(..lock.len()), 0),
                _ => (key.clone(), own_rows - 1),
            };
            let state = RowState::of(&FAMILY, &ALONE, Some(&row));
            if state.occupant().is_none() {
                continue;
            }
            if rows.len() >= MOST && !rows.contains_key(&lock) {
                return Err(Error::new(
                    ClientErrorKind::LimitExceeded,
                    format!("more than {MOST} locks are held"),
                )
                .at_table(self.table())
                .with_hint("show the locks that you want to know about one by one"));
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
