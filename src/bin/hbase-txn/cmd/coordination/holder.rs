//! Who holds something, as it is told.

use hbase_txn::LockHolder;
use serde::Serialize;

use crate::durations;

#[derive(Serialize)]
pub(super) struct HolderObject<'a> {
    holder: Option<&'a str>,
    age_ms: u64,
    remaining_ms: Option<u64>,
}

impl<'a> From<&'a LockHolder> for HolderObject<'a> {
    fn from(holder: &'a LockHolder) -> Self {
        Self {
            holder: holder.name.as_deref(),
            age_ms: durations::milliseconds(holder.age()),
            remaining_ms: holder.remaining().map(durations::milliseconds),
        }
    }
}
