//! `hbase-txn lock show`.

use clap::Args;
use hbase_txn::lock::LockInfo;
use serde::Serialize;

use super::which::{Kind, NameObject, Which};
use crate::{
    durations,
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// Show the holder of a lock
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
pub(crate) struct Show {
    #[command(flatten)]
    which: Which,
}

const SHOW: &str = r#"Example: hbase-txn lock show locks nightly --farm fra --client billing --output json answers

{"lock":"DC#fra#billing#nightly","level":"dc","farm":"fra","client":"billing","id":"nightly","state":"held","holder":"ci@build-7:4711","age_ms":1500,"remaining_ms":298500,"waiting":0,"fencing":1767225600123,"rows_disagree":false}

`state` is held or free. `holder` and `remaining_ms` are also null if a Java client holds it, which writes neither. Age and remaining time are by this machine's clock. `waiting` counts the processes that wait, up to 64. `fencing` is the last number, which renewals raise too: a holder's own is this or a lower one. It is null when none is known. With `rows_disagree` the two rows of the lock disagree: a Java client removed or overwrote the lock row of a holder.

Exit status: 0, held or free; 1 refused or failed."#;

#[derive(Serialize)]
pub(in crate::cmd) struct LockObject<'a> {
    #[serde(flatten)]
    name: NameObject<'a>,
    state: &'static str,
    holder: Option<&'a str>,
    age_ms: Option<u64>,
    remaining_ms: Option<u64>,
    waiting: usize,
    fencing: Option<i64>,
    rows_disagree: bool,
}

impl<'a> From<&'a LockInfo> for LockObject<'a> {
    fn from(lock: &'a LockInfo) -> Self {
        let holder = lock.holder.as_ref();
        Self {
            name: NameObject {
                kind: Kind::Lock,
                key: lock.key.clone(),
                name: lock.name.as_ref(),
            },
            state: if holder.is_some() { "held" } else { "free" },
            holder: holder.and_then(|holder| holder.name.as_deref()),
            age_ms: holder.map(|holder| durations::milliseconds(holder.age())),
            remaining_ms: holder
                .and_then(|holder| holder.remaining())
                .map(durations::milliseconds),
            waiting: lock.waiting,
            fencing: lock.fencing,
            rows_disagree: lock.rows_disagree,
        }
    }
}

const AT_ODDS: &str = "its rows disagree: a Java client removed or overwrote the lock row of this holder";

impl Show {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named(Kind::Lock)?;
        let locks = named.open(global).await?;
        let lock = locks.show(named.name.level(), named.name.id()).await?;
        match global.output {
            Format::Json => output::json(&LockObject::from(&lock))?,
            Format::Table => output::line(&sentence(&lock))?,
        }
        Ok(Exit::Done)
    }
}

fn sentence(lock: &LockInfo) -> String {
    let fencing = lock
        .fencing
        .map_or_else(String::new, |fencing| format!("; fencing number {fencing}"));
    match &lock.holder {
        None => format!("{}: free{fencing}", lock.key),
        Some(holder) => {
            let odds = if lock.rows_disagree {
                format!("; {AT_ODDS}")
            } else {
                String::new()
            };
            let waiting = match lock.waiting {
                0 => String::new(),
                number => format!("; {number} waiting"),
            };
            format!("{}: held by {holder}{waiting}{fencing}{odds}", lock.key)
        }
    }
}
