//! `hbase-txn elect`.

use clap::{Args, Subcommand};
use hbase_txn::{
    coordination::{Election, Leader},
    lock::{LockManager, LockName, Session},
};
use serde::Serialize;

use super::{
    evict::Evicted,
    holder::{self, HolderObject},
};
use crate::{
    cmd::lock::{
        request::Terms,
        run::Run,
        watch::Watched,
        which::{Kind, NameObject, Which, key},
    },
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// Run a command on one leader at a time, show, watch or revoke the leadership
#[derive(Debug, Args)]
pub(crate) struct Elect {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run a command as the leader, and resign when it ends
    ///
    /// Waits until no other process leads, and renews the leadership until the command ends. The
    /// command runs as with `lock run`: HBASE_TXN_LOCK has the election's key, HBASE_TXN_FENCING the
    /// term, which is higher than that of every earlier leader.
    #[command(after_help = RUN, mut_arg("wait", |wait| wait.help(WAIT)))]
    Run(Run),
    /// Revoke a leadership by the holder's token
    ///
    /// Only the holder with this token is evicted. If it has released or lost the leadership,
    /// nothing changes.
    #[command(after_help = RELEASE)]
    Release(Evicted),
    /// Show the leader
    #[command(after_help = SHOW)]
    Show(Which),
    /// Print the leaders of elections and then each change
    ///
    /// Stops with --wait, with --count, or at a signal such as that of Ctrl-C. Each election is
    /// read several times a second while it changes, and twice a second otherwise: a leadership
    /// that begins and ends between two reads is not seen.
    #[command(after_help = WATCH)]
    Watch(Watched),
}

const WAIT: &str = "Maximum time to wait for other leaders, not counting the creation of the table; 0s: one attempt [default: 720h]";

const RUN: &str = r#"Example: hbase-txn elect run locks scheduler --farm fra --client billing --ttl 18s -- ./scheduler

If the leadership is lost while CMD runs, CMD and the processes that it started get TERM, and KILL 5 seconds later. If renewals fail, they have ended before the lease expires, provided that the lease is 18s or longer and clocks agree to a second. Let the receivers of CMD's changes refuse lower terms all the same.

Exit status: that of CMD, 128 + N if signal N ended it; 3 another process led until --wait was over, and CMD was not run; 127 CMD does not exist; 126 CMD can't be run; 1 refused or failed, and CMD was not run; 4 the leadership was lost while CMD ran. --conflict-exit-code and --lost-exit-code choose others, as for lock run."#;

const RELEASE: &str = r#"Example: hbase-txn elect release locks scheduler --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --force --output json answers

{"election":"LEAD#DC#fra#billing#scheduler","outcome":"evicted","holder":"ci@build-7:4711"}

The outcome is evicted, or gone: the token was released, expired or evicted before. With --log warn it is logged, too.

Exit status: 0 evicted, 3 gone, 1 refused or failed, 4 the answer was lost."#;

const SHOW: &str = r#"Example: hbase-txn elect show locks scheduler --farm fra --client billing --output json answers

{"election":"LEAD#DC#fra#billing#scheduler","level":"dc","farm":"fra","client":"billing","id":"scheduler","term":1767225600123,"leader":{"holder":"ci@build-7:4711","token":"9f86d081884c7d659a2feaa0c55ad015","age_ms":1500,"remaining_ms":28500}}

`leader` and `term` are null when no process leads. Age and remaining time are by this machine's clock.

Exit status: 0, with or without a leader; 1 refused or failed."#;

const WATCH: &str = r#"Example: hbase-txn elect watch locks scheduler --farm fra --client billing --count 1 --output json prints one object for each event:

{"election":"LEAD#DC#fra#billing#scheduler","at":"2026-01-01T00:00:00.123Z","event":"acquired","holder":"ci@build-7:4711","token":"9f86d081884c7d659a2feaa0c55ad015","remaining_ms":28500,"term":1767225600123}

`event` is held or free, the state at the beginning; acquired, by the next leader; renewed, with --renewals; released, by the leader or by force; expired; or failed, with `error`. Failures and exit status are those of lock watch."#;

#[derive(Serialize)]
pub(super) struct ElectionObject<'a> {
    #[serde(flatten)]
    name: NameObject<'a>,
    term: Option<i64>,
    leader: Option<HolderObject<'a>>,
}

impl<'a> ElectionObject<'a> {
    pub(super) fn new(election: &str, name: Option<&'a LockName>, leader: Option<&'a Leader>) -> Self {
        Self {
            name: NameObject {
                kind: Kind::Election,
                key: key(election),
                name,
            },
            term: leader.and_then(|leader| leader.term),
            leader: leader.map(|leader| (&leader.holder).into()),
        }
    }
}

impl Elect {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Run(run) => {
                let ask = async |locks: &LockManager, session: &Session, terms: Terms<'_>| {
                    let mut campaign = open(locks, &terms.named.name)?.campaign().session(session);
                    if let Some(wait) = terms.wait {
                        campaign = campaign.wait(wait);
                    }
                    Ok(campaign.lead().await?.into_guard())
                };
                run.run(global, Kind::Election, ask).await
            }
            Action::Release(evicted) => {
                let evict = async |locks: &LockManager, name: &LockName, token| {
                    open(locks, name)?.force_release(token).await
                };
                evicted.run(global, Kind::Election, evict).await
            }
            Action::Show(which) => show(&which, global).await,
            Action::Watch(watched) => {
                let watch = |locks: &LockManager, name: &LockName| Ok(open(locks, name)?.watch());
                watched.run(global, Kind::Election, watch).await
            }
        }
    }
}

fn open(locks: &LockManager, name: &LockName) -> hbase_txn::Result<Election> {
    Election::new(locks, name.level(), name.id())
}

async fn show(which: &Which, global: &Global) -> Outcome {
    let named = which.named(Kind::Election)?;
    let election = open(&named.open(global).await?, &named.name)?;
    let (name, leader) = (named.key(), election.leader().await?);
    match (global.output, &leader) {
        (Format::Json, leader) => output::json(&ElectionObject::new(
            election.key(),
            Some(&named.name),
            leader.as_ref(),
        ))?,
        (Format::Table, None) => output::line(&format!("{name}: no leader"))?,
        (Format::Table, Some(leader)) => {
            let term = leader
                .term
                .map_or_else(String::new, |term| format!("; term {term}"));
            output::line(&format!(
                "{name}: led by {}{term}",
                holder::sentence(&leader.holder)
            ))?;
        }
    }
    Ok(Exit::Done)
}
