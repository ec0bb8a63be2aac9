//! `hbase-txn latch show` and `wait`.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use clap::Args;
use hbase_txn::latch::{LatchInfo, LatchState, WaitOutcome};
use serde::Serialize;

use super::which::{LatchUse, NameObject, Which};
use crate::{
    cmd::waiting::{self, Obstacle},
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::Ranged,
};

/// Show a latch's state, its count and the counts of the farms
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
pub(crate) struct Show {
    #[command(flatten)]
    which: Which,
}

/// Wait until a latch is reached
#[derive(Debug, Args)]
#[command(after_help = WAIT)]
pub(crate) struct Wait {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    wait: LongestWait,
}

/// How long a command waits.
#[derive(Debug, Args)]
pub(super) struct LongestWait {
    /// Longest wait; 0s: one look
    #[arg(long, value_name = "DURATION", default_value = "60s", allow_hyphen_values = true, value_parser = durations::parse)]
    wait: Ranged<Duration>,
}

impl LongestWait {
    pub(super) fn get(&self) -> Result<Duration, Failure> {
        self.wait.get("--wait")
    }
}

const SHOW: &str = r#"Example: hbase-txn latch show latches nightly --level xdc --client billing --output json answers

{"latch":"XDC#billing#nightly","level":"xdc","farm":null,"client":"billing","id":"nightly","state":"open","count":2,"farms":{"fra":3,"sgp":-1}}

`state` is open, reached, expired or absent; in a table without the family S an expired latch is absent. `count` is the rest, null if the latch is neither open nor reached. A farm counts down its own column, so one of `farms` may be negative.

Exit status: 0, whatever its state; 1 refused or failed."#;

const WAIT: &str = r#"Example: hbase-txn latch wait latches nightly --farm fra --client billing --wait 10m --output json answers

{"latch":"DC#fra#billing#nightly","state":"reached"}

`state` is reached; expired or absent, also if that happens during the wait; or open, if --wait was over first.

Exit status: 0 reached; 3 expired, absent, or still open when --wait (60s) was over; 1 refused or failed."#;

#[derive(Serialize)]
pub(super) struct LatchObject<'a> {
    #[serde(flatten)]
    name: NameObject<'a>,
    state: String,
    count: Option<u64>,
    farms: &'a BTreeMap<String, i64>,
}

impl<'a> LatchObject<'a> {
    pub(super) fn new(name: NameObject<'a>, info: &'a LatchInfo) -> Self {
        Self {
            name,
            state: info.state.to_string(),
            count: info.count,
            farms: &info.farms,
        }
    }
}

#[derive(Serialize)]
struct WaitObject {
    latch: String,
    state: &'static str,
}

impl Show {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named(LatchUse::Read)?;
        let info = named.open(global).await?.show().await?;
        match global.output {
            Format::Json => output::json(&LatchObject::new(named.object(), &info))?,
            Format::Table => output::line(&format!("{}: {}", named.key(), sentence(&info)))?,
        }
        Ok(Exit::Done)
    }
}

impl Wait {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let time = self.wait.get()?;
        let named = self.which.named(LatchUse::Read)?;
        let latch = named.open(global).await?;
        let shown = latch.clone();
        let obstacles = waiting::polled(move || {
            let latch = shown.clone();
            async move { Ok(Obstacle::State(sentence(&latch.show().await?))) }
        });
        let (state, text) = match waiting::shown(obstacles, latch.wait(time)).await? {
            WaitOutcome::Reached => ("reached", "reached".to_owned()),
            WaitOutcome::Expired => ("expired", "expired, and can no longer be reached".to_owned()),
            WaitOutcome::Absent => ("absent", "there is no such latch, or it was deleted".to_owned()),
            WaitOutcome::TimedOut => ("open", format!("still open after {}", durations::shown(time))),
            other => return Err(Failure::Refused(format!("{}: {other:?}", named.key()))),
        };
        let latch = named.key();
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

pub(super) fn sentence(info: &LatchInfo) -> String {
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
