//! `hbase-txn latch count-down` and `count-up`.

use clap::Args;
use hbase_txn::{ClientErrorKind, latch::LatchCount};
use serde::Serialize;

use super::which::{LatchUse, Named, Which};
use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// Count a latch down, in the column of the farm
#[derive(Debug, Args)]
#[command(after_help = DOWN)]
pub(crate) struct CountDown {
    #[command(flatten)]
    which: Which,
    /// Number to subtract
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    by: Ranged<u64>,
    /// Participant to count down by one, once however often the command is run
    #[arg(long, value_name = "P", conflicts_with = "by", value_parser = values::text)]
    participant: Option<String>,
}

/// Count a latch up, in the column of the farm
#[derive(Debug, Args)]
#[command(after_help = UP)]
pub(crate) struct CountUp {
    #[command(flatten)]
    which: Which,
    /// Number to add
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    by: Ranged<u64>,
}

const DOWN: &str = r#"Example: hbase-txn latch count-down latches nightly --farm fra --client billing --participant worker-1 --output json answers

{"latch":"DC#fra#billing#nightly","counted":true,"count":2}

`count` is the rest. `counted` is false for a participant that has arrived before: nothing is counted, and this is not a failure. With a participant the command can be repeated after any error; without one, not after 4.

Exit status: 0 counted, or arrived before; 3 no such latch, it has expired, or less is left; 1 refused or failed; 4 the answer was lost, and the count may have been applied."#;

const UP: &str = r#"Example: hbase-txn latch count-up latches nightly --by 2 --farm fra --client billing --output json answers

{"latch":"DC#fra#billing#nightly","counted":true,"count":4}

The latch lives as long as before. A reached latch is open again; clients that saw it reached are not notified.

Exit status: 0 counted; 3 no such latch, or it has expired; 1 refused or failed; 4 the answer was lost, and the count may have been applied."#;

#[derive(Serialize)]
struct CountObject {
    latch: String,
    counted: bool,
    count: u64,
}

impl CountDown {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let by = self.by.get("--by")?;
        let named = self.which.named(LatchUse::Count)?;
        let latch = named.open(global).await?;
        let counted = match &self.participant {
            Some(participant) => latch.arrive(participant).await,
            None => latch.count_down(by).await,
        };
        match counted {
            Ok(counted) => print(global, &named, counted),
            // A limit of the latch, not of a server.
            Err(error) if error.kind() == ClientErrorKind::LimitExceeded && error.remote().is_none() => {
                Err(Failure::NotMet(error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl CountUp {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let by = self.by.get("--by")?;
        let named = self.which.named(LatchUse::Count)?;
        let counted = named.open(global).await?.count_up(by).await?;
        print(global, &named, counted)
    }
}

fn print(global: &Global, named: &Named<'_>, counted: LatchCount) -> Outcome {
    let latch = named.key();
    let LatchCount {
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
