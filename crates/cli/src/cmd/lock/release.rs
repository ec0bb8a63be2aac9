//! `hbase-txn lock release` and `renew`.

use std::time::Duration;

use clap::{ArgGroup, Args};
use hbase_txn::lock::{LockHolder, LockLoss, LockToken, ReleaseOutcome};
use serde::Serialize;

use super::which::{KeyObject, Kind, Named, Which, lease};
use crate::{
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::Ranged,
};

/// Release a lock by its token, or revoke it from its holder
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whose").required(true), after_help = RELEASE)]
pub(crate) struct Release {
    #[command(flatten)]
    which: Which,
    /// Token that `acquire` printed
    #[arg(long, value_name = "T", group = "whose")]
    token: Option<LockToken>,
    /// Revocation of the lock; the holder notices at its next renewal, and goes on until then
    #[arg(long, group = "whose")]
    force: bool,
}

/// The hold to renew.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Renew {
    #[command(flatten)]
    which: Which,
    /// Token that `acquire` printed
    #[arg(long, value_name = "T")]
    token: LockToken,
    /// Lease from now on: 100ms to 720h, at most the TTL of the table's family [default: that of the
    /// lock, with which it was acquired or last renewed]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    ttl: Option<Ranged<Duration>>,
}

const RELEASE: &str = r#"Example: hbase-txn lock release locks nightly --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --output json answers

{"lock":"DC#fra#billing#nightly","outcome":"released","holder":null}

The outcome is released; expired (its lease expired, or it was released: the table does not show which); removed (revoked before its lease expired); or taken, and `holder` has it now: the token is that of an earlier holder, or of another lock. With --force it is evicted, and `holder` has lost it, or free. `holder` is null for a Java client, which writes no name.

Exit status: 0 released or evicted, 3 expired, removed, taken or free, 1 refused or failed, 4 the answer was lost."#;

/// The outcome of a release or renewal.
pub(in crate::cmd) struct End {
    outcome: &'static str,
    /// The current or previous holder.
    holder: Option<LockHolder>,
    text: String,
    exit: Exit,
}

#[derive(Serialize)]
struct EndObject<'a> {
    #[serde(flatten)]
    key: KeyObject<'a>,
    outcome: &'static str,
    holder: Option<String>,
}

impl Release {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named(Kind::Lock)?;
        let (level, id) = (named.name.level(), named.name.id());
        let locks = named.open(global).await?;
        let end = match self.token {
            Some(token) => End::of_release(locks.release(level, id, token).await?)?,
            None => End::evicted(locks.force_release(level, id).await?),
        };
        end.print(global, &named)
    }
}

impl Renew {
    /// Renews the lease by `renew`.
    pub(in crate::cmd) async fn run(
        self,
        global: &Global,
        kind: Kind,
        renew: impl AsyncFnOnce(&Named<'_>, LockToken, Option<Duration>) -> Result<Result<(), LockLoss>, Failure>,
    ) -> Outcome {
        let named = self.which.named(kind)?;
        let lease = self.ttl.as_ref().map(lease).transpose()?;
        let end = End::of_renewal(renew(&named, self.token, lease).await?);
        end.print(global, &named)
    }
}

impl End {
    pub(in crate::cmd) fn of_release(released: ReleaseOutcome) -> Result<Self, Failure> {
        match released {
            ReleaseOutcome::Lost(loss) => Ok(Self::lost(loss)),
            ReleaseOutcome::Released => Ok(Self::done("released")),
            other => Err(Failure::Refused(other.to_string())),
        }
    }

    fn of_renewal(renewed: Result<(), LockLoss>) -> Self {
        renewed.map_or_else(Self::lost, |()| Self::done("renewed"))
    }

    fn done(outcome: &'static str) -> Self {
        Self {
            outcome,
            holder: None,
            text: outcome.to_owned(),
            exit: Exit::Done,
        }
    }

    fn lost(loss: LockLoss) -> Self {
        let (outcome, text) = match &loss {
            LockLoss::Expired => (
                "expired",
                "not held by this token: its lease expired, or it was released".to_owned(),
            ),
            LockLoss::Taken(holder) => ("taken", format!("not held by this token, but by {holder}")),
            _ => ("removed", format!("not held by this token: {loss}")),
        };
        let holder = match loss {
            LockLoss::Taken(holder) => Some(holder),
            _ => None,
        };
        Self {
            outcome,
            holder,
            text,
            exit: Exit::NotMet,
        }
    }

    /// The outcome of a revocation by token.
    pub(in crate::cmd) fn of_eviction(token: LockToken, holder: Option<LockHolder>) -> Self {
        if holder.is_some() {
            return Self::evicted(holder);
        }
        Self {
            outcome: "gone",
            holder: None,
            text: format!(
                "nothing was revoked: token {token} holds nothing; show prints the present holders"
            ),
            exit: Exit::NotMet,
        }
    }

    fn evicted(holder: Option<LockHolder>) -> Self {
        let (outcome, text, exit) = match &holder {
            Some(holder) => ("evicted", format!("revoked from {holder}"), Exit::Done),
            None => ("free", "not held".to_owned(), Exit::NotMet),
        };
        Self {
            outcome,
            holder,
            text,
            exit,
        }
    }

    pub(in crate::cmd) fn print(self, global: &Global, named: &Named<'_>) -> Outcome {
        match global.output {
            Format::Table => output::line(&format!("{}: {}", named.key(), self.text))?,
            Format::Json => output::json(&EndObject {
                key: KeyObject(named),
                outcome: self.outcome,
                holder: self.holder.and_then(|holder| holder.name),
            })?,
        }
        Ok(self.exit)
    }
}
