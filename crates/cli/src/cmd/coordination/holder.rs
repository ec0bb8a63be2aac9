//! The output of holders.

use hbase_txn::lock::LockHolder;
use serde::Serialize;

use crate::durations;

/// Formats a holder for people, with the token that a forced release needs.
pub(super) fn sentence(holder: &LockHolder) -> String {
    match holder.token {
        Some(token) => format!("{holder}; token {token}"),
        None => holder.to_string(),
    }
}

/// Returns a line with the number of waiting processes, if any waits.
pub(super) fn waiting(processes: usize) -> String {
    match processes {
        0 => String::new(),
        1 => "\n1 process waits".to_owned(),
        _ => format!("\n{processes} processes wait"),
    }
}

#[derive(Serialize)]
pub(super) struct HolderObject<'a> {
    holder: Option<&'a str>,
    token: Option<String>,
    age_ms: u64,
    remaining_ms: Option<u64>,
}

impl<'a> From<&'a LockHolder> for HolderObject<'a> {
    fn from(holder: &'a LockHolder) -> Self {
        Self {
            holder: holder.name.as_deref(),
            token: holder.token.map(|token| token.to_string()),
            age_ms: durations::milliseconds(holder.age()),
            remaining_ms: holder.remaining().map(durations::milliseconds),
        }
    }
}
