//! `hbase-txn lock acquire`.

use std::io;

use clap::Args;
use hbase_txn::lock::{LockGuard, LockToken};
use serde::Serialize;

use super::{
    request::{LockUse, Request},
    signals::Signals,
    which::key,
};
use crate::{
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// Acquire a lock, and keep it until it is released or its lease expires
///
/// The lock stays held when this command has ended, and `show` marks it "detached". Any process can release and renew the lock with the printed token. The fencing number is higher
/// than that of every earlier holder: pass it to each receiver of a change under the lock, which
/// must refuse lower numbers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Acquire {
    #[command(flatten)]
    request: Request,
}

const EXAMPLE: &str = r#"Example: hbase-txn lock acquire locks nightly --farm fra --client billing --ttl 5m --wait 10s --output json answers

{"lock":"DC#fra#billing#nightly","token":"9f86d081884c7d659a2feaa0c55ad015","fencing":1767225600123,"ttl_ms":300000}

Exit status: 0 acquired; 3 another process holds it, and stderr has its name; 1 refused or failed; 4 the answer was lost: the lock may be held until its lease expires."#;

#[derive(Serialize)]
struct Acquired {
    lock: String,
    token: String,
    fencing: i64,
    ttl_ms: u64,
}

impl Acquire {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let lease = self.request.asked.lease()?;
        let mut signals = Signals::listen()?;
        let guard = self
            .request
            .acquire(global, &mut signals, LockUse::Detached, |request| request)
            .await?;
        let acquired = Acquired {
            lock: key(guard.name()),
            token: guard.token().to_string(),
            fencing: guard.fencing(),
            ttl_ms: durations::milliseconds(lease),
        };
        let printed = match global.output {
            Format::Json => output::json(&acquired),
            Format::Table => output::line(&format!(
                "{}: held for {}; token {}, fencing number {}",
                acquired.lock,
                durations::shown(lease),
                acquired.token,
                acquired.fencing
            )),
        };
        hand_over(guard, printed).await
    }
}

/// Detaches a lock whose token was printed. If it was not, releases the lock, because it is useless
/// without the token.
pub(in crate::cmd) async fn hand_over(guard: LockGuard, printed: io::Result<()>) -> Outcome {
    let why = match printed {
        Ok(()) if output::is_closed() => "the reader of stdout closed it".to_owned(),
        Ok(()) => {
            let _: LockToken = guard.detach();
            return Ok(Exit::Done);
        }
        Err(error) => error.to_string(),
    };
    let end = match guard.release().await {
        Ok(_) => "it was released".to_owned(),
        Err(error) => format!("the release failed too, so it is held until its lease expires: {error}"),
    };
    Err(Failure::Refused(format!(
        "acquired, but cannot print the token: {why}; {end}"
    )))
}
