//! `hbase-txn latch count-down` and `count-up`.

use clap::Args;
use hbase_txn::{Counted, ErrorKind, Latch};
use serde::Serialize;

use super::which::{Deed, Which, key};
use crate::{
    args::{Format, Global},
    cmd::Outcome,
    exit::{Exit, Failure},
    output,
    values::{self, Ranged},
};

/// Count a latch down, in the column of the farm
#[derive(Debug, Args)]
#[command(after_help = DOWN)]
pub(crate) struct CountDown {
    #[command(flatten)]
    which: Which,
    /// By how much
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    by: Ranged<u64>,
    /// Count one down for this participant, once however often it is tried
    #[arg(long, value_name = "P", conflicts_with = "by", value_parser = values::text)]
    participant: Option<String>,
}

/// Add to what there is to count down, in the column of the farm
#[derive(Debug, Args)]
#[command(after_help = UP)]
pub(crate) struct CountUp {
    #[command(flatten)]
    which: Which,
    /// By how much
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    by: Ranged<u64>,
}

const DOWN: &str = r#"Example: hbase-txn latch count-down latches nightly --farm fra --client billing --participant worker-1 --output json answers

{"latch":"billing_nightly","counted":true,"count":2}

`count` is what is left. `counted` is false for a participant that has arrived before: nothing is counted, and that is no failure. With a participant it can be tried again after any error; without one not after 4.

Exit status: 0 counted, or arrived before; 3 there is no such latch, it has expired, or less is left; 1 refused or failed; 4 the answer was lost, and nobody knows whether it was counted."#;

const UP: &str = r#"Example: hbase-txn latch count-up latches nightly --by 2 --farm fra --client billing --output json answers

{"latch":"billing_nightly","counted":true,"count":4}

The latch lives as long as before. One that was reached is open again; who has been told that it was reached is not told.

Exit status: 0 counted; 3 there is no such latch, or it has expired; 1 refused or failed; 4 the answer was lost, and nobody knows whether it was counted."#;

#[derive(Serialize)]
struct CountObject {
    latch: String,
    counted: bool,
    count: u64,
}

impl CountDown {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let by = self.by.get("--by")?;
        let latch = self.which.open(global, Deed::Counts).await?;
        let counted = match &self.participant {
            Some(participant) => latch.arrive(participant).await,
            None => latch.count_down(by).await,
        };
        match counted {
            Ok(counted) => tell(global, &latch, counted),
            // Of the latch, not of a server.
            Err(error) if error.kind() == ErrorKind::LimitExceeded && error.remote().is_none() => {
                Err(Failure::NotMet(error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl CountUp {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let by = self.by.get("--by")?;
        let latch = self.which.open(global, Deed::Counts).await?;
        let counted = latch.count_up(by).await?;
        tell(global, &latch, counted)
    }
}

fn tell(global: &Global, latch: &Latch, counted: Counted) -> Outcome {
    let latch = key(latch);
    let Counted {
        counted, left: count, ..
    } = counted;
    match global.output {
        Format::Json => output::json(&CountObject {
            latch,
            counted,
            count,
        })?,
        Format::Table => {
            let what = if counted { "counted" } else { "had arrived before" };
            output::line(&format!("{latch}: {what}; {count} left to count down"))?;
        }
    }
    Ok(Exit::Done)
}
