//! Forced releases by the holder's token.

use clap::Args;
use hbase_txn::lock::{LockHolder, LockManager, LockName, LockToken};

use crate::{
    cmd::lock::{
        release::End,
        which::{Kind, Which},
    },
    exit::Outcome,
    global::Global,
};

/// The holder to evict.
#[derive(Debug, Args)]
pub(super) struct Evicted {
    #[command(flatten)]
    which: Which,
    /// Token of the holder, as `show` prints it
    #[arg(long, value_name = "T")]
    token: LockToken,
    /// Confirmation: the holder notices at its next renewal, and goes on until then
    #[arg(long, required = true)]
    force: bool,
}

impl Evicted {
    /// Evicts the holder by `evict`, which returns it unless the token holds nothing.
    pub(super) async fn run(
        self,
        global: &Global,
        kind: Kind,
        evict: impl AsyncFnOnce(&LockManager, &LockName, LockToken) -> hbase_txn::Result<Option<LockHolder>>,
    ) -> Outcome {
        let named = self.which.named(kind)?;
        let locks = named.open(global).await?;
        let holder = evict(&locks, &named.name, self.token).await?;
        End::of_eviction(self.token, holder).print(global, &named)
    }
}
