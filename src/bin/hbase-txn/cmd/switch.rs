//! `hbase-txn switch`.

use clap::{Args, ValueEnum};
use hbase_txn::RegionSwitch;
use serde::Serialize;

use super::Outcome;
use crate::{
    args::{Format, Global},
    exit::Exit,
    output,
};

/// Let the master split or merge regions, of all tables of the cluster, or not
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn switch splits on")]
pub(crate) struct Switch {
    /// What is switched
    what: What,
    /// Without it: tell how it is
    to: Option<OnOff>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Splitting regions, asked for or by size
    Splits,
    /// Merging regions
    Merges,
}

/// Whether something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnOff {
    On,
    Off,
}

#[derive(Serialize)]
struct Switched {
    switch: &'static str,
    on: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    was_on: Option<bool>,
}

impl Switch {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let (name, switch) = match self.what {
            What::Splits => ("splits", RegionSwitch::Splits),
            What::Merges => ("merges", RegionSwitch::Merges),
        };
        let admin = global.connect().await?.admin();
        let (on, was_on) = match self.to {
            Some(to) => {
                let on = to == OnOff::On;
                (on, Some(admin.switch(switch, on).await?))
            }
            None => (admin.is_switched_on(switch).await?, None),
        };
        match global.output {
            Format::Json => output::json(&Switched {
                switch: name,
                on,
                was_on,
            })?,
            Format::Table => output::line(&format!("{name}: {}", if on { "on" } else { "off" }))?,
        }
        Ok(Exit::Done)
    }
}
