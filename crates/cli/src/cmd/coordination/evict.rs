//! Forced releases by the holder's token.

use clap::Args;
use hbase_txn::lock::{LockHolder, LockToken};
use serde::Serialize;

use crate::{
    cmd::lock::{release::End, which::Which},
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

/// A resource, with its printed key.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Resource {
    Election(String),
    RwLock(String),
    Semaphore(String),
}

#[derive(Serialize)]
struct EvictionObject<'a> {
    #[serde(flatten)]
    resource: &'a Resource,
    outcome: &'a str,
    holder: Option<&'a str>,
}

impl Resource {
    /// Prints the outcome of a forced release by this token, and returns the exit status.
    pub(super) fn print_eviction(
        &self,
        global: &Global,
        token: LockToken,
        holder: Option<LockHolder>,
    ) -> Outcome {
        let end = match holder {
            Some(holder) => End::evicted(Some(holder)),
            None => End::gone(token),
        };
        match global.output {
            Format::Table => {
                let (Self::Election(name) | Self::RwLock(name) | Self::Semaphore(name)) = self;
                output::line(&end.sentence(name))?;
            }
            Format::Json => output::json(&EvictionObject {
                resource: self,
                outcome: end.outcome,
                holder: end.holder.as_ref().and_then(|holder| holder.name.as_deref()),
            })?,
        }
        Ok(end.exit)
    }
}
