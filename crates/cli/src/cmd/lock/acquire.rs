//! `hbase-txn lock acquire`.

use std::io;

use clap::Args;
use hbase_txn::lock::{LockGuard, LockManager, LockToken};
use serde::Serialize;

use super::{
    request::{Asked, LockUse, MissingTable, Request, Terms},
    signals::Signals,
    which::{KeyObject, Kind},
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
struct Acquired<'a> {
    #[serde(flatten)]
    key: KeyObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<u32>,
    token: String,
    fencing: i64,
    ttl_ms: u64,
}

impl Acquire {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let Request { asked, table } = &self.request;
        let ask = async |locks: LockManager, terms: Terms<'_>| terms.lock(&locks)?.acquire().await;
        acquire(global, Kind::Lock, asked, Some(table), None, ask).await
    }
}

/// Acquires what `ask` requests, prints its token, and leaves it held.
pub(in crate::cmd) async fn acquire(
    global: &Global,
    kind: Kind,
    asked: &Asked,
    table: Option<&MissingTable>,
    permits: Option<u32>,
    ask: impl AsyncFnOnce(LockManager, Terms<'_>) -> hbase_txn::Result<LockGuard>,
) -> Outcome {
    let (named, lease) = (asked.which.named(kind)?, asked.lease()?);
    let mut signals = Signals::listen()?;
    let guard = asked.acquire(global, &mut signals, kind, LockUse::Detached, table, ask);
    let guard = guard.await?;
    let printed = match global.output {
        Format::Json => output::json(&Acquired {
            key: KeyObject(&named),
            permits,
            token: guard.token().to_string(),
            fencing: guard.fencing(),
            ttl_ms: durations::milliseconds(lease),
        }),
        Format::Table => {
            let permits = permits.map(|permits| output::counted(permits as usize, "permit") + " ");
            output::line(&format!(
                "{}: {}held for {}; token {}, fencing number {}",
                named.key(),
                permits.unwrap_or_default(),
                durations::shown(lease),
                guard.token(),
                guard.fencing()
            ))
        }
    };
    hand_over(guard, printed).await
}

/// Detaches a lock whose token was printed. If it was not, releases the lock, because it is useless
/// without the token.
async fn hand_over(guard: LockGuard, printed: io::Result<()>) -> Outcome {
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
