//! Forced releases by the holder's token.

use clap::Args;
use hbase_txn::lock::{LockHolder, LockToken};
use serde::Serialize;

use crate::{
    cmd::lock::{
        release::End,
        which::{KeyObject, Named, Which},
    },
    exit::Outcome,
    global::{Format, Global},
    output,
};

/// The holder to evict.
#[derive(Debug, Args)]
pub(super) struct Evicted {
    #[command(flatten)]
    pub(super) which: Which,
    /// Token of the holder, as `show` prints it
    #[arg(long, value_name = "T")]
    pub(super) token: LockToken,
    /// Confirmation: the holder notices at its next renewal, and goes on until then
    #[arg(long, required = true)]
    force: bool,
}

#[derive(Serialize)]
struct EvictionObject<'a> {
    #[serde(flatten)]
    key: KeyObject<'a>,
    outcome: &'a str,
    holder: Option<&'a str>,
}

/// Prints the outcome of a forced release by this token, and returns the exit status.
pub(super) fn print_eviction(
    global: &Global,
    named: &Named<'_>,
    token: LockToken,
    holder: Option<LockHolder>,
) -> Outcome {
    let end = match holder {
        Some(holder) => End::evicted(Some(holder)),
        None => End::gone(token),
    };
    match global.output {
        Format::Table => output::line(&end.sentence(&named.key()))?,
        Format::Json => output::json(&EvictionObject {
            key: KeyObject(named),
            outcome: end.outcome,
            holder: end.holder.as_ref().and_then(|holder| holder.name.as_deref()),
        })?,
    }
    Ok(end.exit)
}
