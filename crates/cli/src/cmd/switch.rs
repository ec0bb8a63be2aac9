//! `hbase-txn split-switch`, `merge-switch`, `balancer-switch`, `normalizer-switch`, `snapshot-cleanup-switch`
//! and `throttle-switch`.

use clap::{Args, ValueEnum};
use hbase_txn::admin::Admin;
use serde::Serialize;

use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// A switch of the cluster.
#[derive(Debug, Args)]
pub(crate) struct Switch {
    /// The new state [default: show the present one]
    to: Option<OnOff>,
}

/// The work of the master that a switch allows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Split,
    Merge,
    Balancer,
    Normalizer,
    SnapshotCleanup,
    Throttle,
}

/// Whether something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnOff {
    On,
    Off,
}

#[derive(Serialize)]
struct SwitchObject {
    switch: &'static str,
    on: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    was_on: Option<bool>,
}

impl Switch {
    pub(crate) async fn run(self, work: Work, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let (on, was_on) = match self.to {
            Some(to) => (to.is_on(), Some(work.switch(&admin, to.is_on()).await?)),
            None => (work.is_enabled(&admin).await?, None),
        };
        let switch = work.name();
        match global.output {
            Format::Json => output::json(&SwitchObject { switch, on, was_on })?,
            Format::Table => output::line(&format!("{switch} switch: {}", if on { "on" } else { "off" }))?,
        }
        Ok(Exit::Done)
    }
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Merge => "merge",
            Self::Balancer => "balancer",
            Self::Normalizer => "normalizer",
            Self::SnapshotCleanup => "snapshot-cleanup",
            Self::Throttle => "throttle",
        }
    }

    async fn is_enabled(self, admin: &Admin) -> hbase_client::Result<bool> {
        match self {
            Self::Split => admin.is_split_enabled().await,
            Self::Merge => admin.is_merge_enabled().await,
            Self::Balancer => admin.is_balancer_enabled().await,
            Self::Normalizer => admin.is_normalizer_enabled().await,
            Self::SnapshotCleanup => admin.is_snapshot_cleanup_enabled().await,
            Self::Throttle => admin.is_rpc_throttle_enabled().await,
        }
    }

    /// Sets the switch, and returns its state before that.
    async fn switch(self, admin: &Admin, on: bool) -> hbase_client::Result<bool> {
        match self {
            Self::Split => admin.split_switch(on).await,
            Self::Merge => admin.merge_switch(on).await,
            Self::Balancer => admin.balancer_switch(on).await,
            Self::Normalizer => admin.normalizer_switch(on).await,
            Self::SnapshotCleanup => admin.snapshot_cleanup_switch(on).await,
            Self::Throttle => admin.rpc_throttle_switch(on).await,
        }
    }
}

impl OnOff {
    pub(super) fn is_on(self) -> bool {
        self == Self::On
    }
}
