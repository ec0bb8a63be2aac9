//! `hbase-txn latch show` and `wait`.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use clap::Args;
use hbase_txn::latch::{LatchInfo, LatchState, WaitOutcome};
use serde::Serialize;

use super::which::{LatchUse, Which, key};
use crate::{
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// Show a latch's state, its count and the counts of the farms
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
pub(crate) struct Show {
    #[command(flatten)]
    which: Which,
}

/// Wait up to --timeout until a latch is reached
#[derive(Debug, Args)]
#[command(after_help = WAIT)]
pub(crate) struct Wait {
    #[command(flatten)]
    which: Which,
}

const SHOW: &str = r#"Example: hbase-txn latch show latches nightly --level xdc --client billing --output json answers

{"latch":"billing_nightly","state":"open","count":2,"farms":{"fra":3,"sgp":-1}}

`state` is open, reached, expired or absent; in a table without the family S an expired latch is absent. `count` is the rest, null if the latch is neither open nor reached. A farm counts down its own column, so one of `farms` may be negative.

Exit status: 0, whatever its state; 1 refused or failed."#;

const WAIT: &str = r#"Example: hbase-txn latch wait latches nightly --farm fra --client billing --timeout 10m --output json answers

{"latch":"billing_nightly","state":"reached"}

`state` is reached; expired or absent, also if that happens during the wait; or open, if --timeout expired first.

Exit status: 0 reached; 3 expired, absent, or still open when --timeout (60s) expired; 1 refused or failed."#;

/// The default of --timeout.
pub(super) const WAIT_TIME: Duration = Duration::from_secs(60);

#[derive(Serialize)]
struct LatchObject<'a> {
    latch: String,
    state: String,
    count: Option<u64>,
    farms: &'a BTreeMap<String, i64>,
}

#[derive(Serialize)]
struct WaitObject {
    latch: String,
    state: &'static str,
}

impl Show {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let latch = self.which.open(global, LatchUse::Read).await?;
        let info = latch.show().await?;
        match global.output {
            Format::Json => output::json(&LatchObject {
                latch: key(&latch),
                state: info.state.to_string(),
                count: info.count,
                farms: &info.farms,
            })?,
            Format::Table => output::line(&format!("{}: {}", key(&latch), sentence(&info)))?,
        }
        Ok(Exit::Done)
    }
}

impl Wait {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let time = global.timeout.unwrap_or(WAIT_TIME);
        let latch = self.which.open(global, LatchUse::Read).await?;
        let (state, text) = match latch.wait(time).await? {
            WaitOutcome::Reached => ("reached", "reached".to_owned()),
            WaitOutcome::Expired => ("expired", "expired, and will not be reached any more".to_owned()),
            WaitOutcome::Absent => ("absent", "there is no such latch, or it was deleted".to_owned()),
            WaitOutcome::TimedOut => ("open", format!("still open after {}", durations::shown(time))),
            other => return Err(Failure::Refused(format!("{}: {other:?}", key(&latch)))),
        };
        let latch = key(&latch);
        match global.output {
            Format::Json => output::json(&WaitObject { latch, state })?,
            Format::Table => output::line(&format!("{latch}: {text}"))?,
        }
        match state {
            "reached" => Ok(Exit::Done),
            _ => Ok(Exit::NotMet),
        }
    }
}

fn sentence(info: &LatchInfo) -> String {
    let mut text = info.state.to_string();
    if info.state == LatchState::Open
        && let Some(count) = info.count
    {
        text += &format!(", {count} to count down");
    }
    if !info.farms.is_empty() {
        let farms: Vec<_> = info
            .farms
            .iter()
            .map(|(farm, count)| format!("{farm} {count}"))
            .collect();
        text += &format!("; farms: {}", farms.join(", "));
    }
    if let Some(arrived) = info.arrived.filter(|arrived| *arrived > 0) {
        text += &format!("; {} arrived", output::counted(arrived as usize, "participant"));
    }
    let rest = info.ends.map(|ends| ends.duration_since(SystemTime::now()));
    if let Some(Ok(rest)) = rest {
        text += &format!("; expires in {}", durations::shown(rest));
    }
    text
}
