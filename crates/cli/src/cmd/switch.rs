//! `hbase-txn split-switch`, `merge-switch`, `balancer-switch` and `normalizer-switch`.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// Show or set whether the master splits regions, of all tables of the cluster
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn split-switch on")]
pub(crate) struct SplitSwitch {
    /// The new state [default: show the present one]
    to: Option<OnOff>,
}

/// Show or set whether the master merges regions, of all tables of the cluster
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn merge-switch on")]
pub(crate) struct MergeSwitch {
    /// The new state [default: show the present one]
    to: Option<OnOff>,
}

/// Show or set whether the master moves regions to balance the servers
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn balancer-switch on")]
pub(crate) struct BalancerSwitch {
    /// The new state [default: show the present one]
    to: Option<OnOff>,
}

/// Show or set whether the master splits and merges regions by their sizes
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn normalizer-switch on")]
pub(crate) struct NormalizerSwitch {
    /// The new state [default: show the present one]
    to: Option<OnOff>,
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

impl SplitSwitch {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect().await?.admin();
        let (on, was_on) = match self.to {
            Some(to) => (to.is_on(), Some(admin.split_switch(to.is_on()).await?)),
            None => (admin.is_split_enabled().await?, None),
        };
        print(global, "split", on, was_on)
    }
}

impl MergeSwitch {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect().await?.admin();
        let (on, was_on) = match self.to {
            Some(to) => (to.is_on(), Some(admin.merge_switch(to.is_on()).await?)),
            None => (admin.is_merge_enabled().await?, None),
        };
        print(global, "merge", on, was_on)
    }
}

impl BalancerSwitch {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect().await?.admin();
        let (on, was_on) = match self.to {
            Some(to) => (to.is_on(), Some(admin.balancer_switch(to.is_on()).await?)),
            None => (admin.is_balancer_enabled().await?, None),
        };
        print(global, "balancer", on, was_on)
    }
}

impl NormalizerSwitch {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect().await?.admin();
        let (on, was_on) = match self.to {
            Some(to) => (to.is_on(), Some(admin.normalizer_switch(to.is_on()).await?)),
            None => (admin.is_normalizer_enabled().await?, None),
        };
        print(global, "normalizer", on, was_on)
    }
}

impl OnOff {
    pub(super) fn is_on(self) -> bool {
        self == Self::On
    }
}

fn print(global: &Global, switch: &'static str, on: bool, was_on: Option<bool>) -> Outcome {
    match global.output {
        Format::Json => output::json(&SwitchObject { switch, on, was_on })?,
        Format::Table => output::line(&format!("{switch} switch: {}", if on { "on" } else { "off" }))?,
    }
    Ok(Exit::Done)
}
