//! `hbase-txn elect`.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use hbase_txn::{Election, LockManager};
use serde::Serialize;

use super::holder::HolderObject;
use crate::{
    args::{Format, Global},
    cmd::{
        Outcome,
        lock::{
            request::{Request, Terms},
            run::{margin, run_under},
            signals::Signals,
            which::{Which, key},
        },
    },
    exit::Exit,
    output,
};

/// Elections: one leader at a time, in terms that rise
#[derive(Debug, Args)]
pub(crate) struct Elect {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(Run),
    Show(Show),
}

/// Run a command as the leader: wait until nobody else leads, renew the leadership until the command ends, and resign then
///
/// The command is run as by `lock run`: HBASE_TXN_LOCK has the election's key, HBASE_TXN_FENCING the term, which is higher
/// than that of every earlier leader.
#[derive(Debug, Args)]
#[command(after_help = RUN)]
struct Run {
    #[command(flatten)]
    request: Request,
    /// The command and its arguments, behind --
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Show who leads
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
struct Show {
    #[command(flatten)]
    which: Which,
}

const RUN: &str = r#"Example: hbase-txn elect run locks scheduler --farm fra --client billing --ttl 18s -- ./scheduler

If the leadership is lost while CMD runs, CMD and what it started get TERM, and KILL 5 seconds later. Where renewals fail, that is done early enough to be over before the lease is, if the lease is 18s or longer and clocks agree to a second: let what CMD changes refuse lower terms all the same.

Exit status: that of CMD, 128 + N if signal N ended it; 3 somebody else led as long as --wait, and CMD was not run; 1 CMD can't be run, or nobody be asked; 4 the leadership was lost while CMD ran."#;

const SHOW: &str = r#"Example: hbase-txn elect show locks scheduler --farm fra --client billing --output json answers

{"election":"LEAD#DC#fra#billing#scheduler","term":1767225600123,"leader":{"holder":"ci@build-7:4711","age_ms":1500,"remaining_ms":28500}}

`leader` and `term` are null when nobody leads. Age and remaining time are by this machine's clock.

Exit status: 0, whether somebody leads or not; 1 refused or failed."#;

#[derive(Serialize)]
struct ElectionObject<'a> {
    election: String,
    term: Option<u64>,
    leader: Option<HolderObject<'a>>,
}

impl Elect {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Run(run) => run.run(global).await,
            Action::Show(show) => show.run(global).await,
        }
    }
}

impl Run {
    async fn run(self, global: &Global) -> Outcome {
        let Request { asked, table } = &self.request;
        asked.which.name()?;
        let margin = margin(asked.lease()?);
        let missing = table.missing(&asked.which)?;
        let mut signals = Signals::listen()?;
        let ask = async |locks: LockManager, terms: Terms<'_>| {
            let campaign = Election::new(&locks, terms.level, terms.id)?.campaign();
            let campaign = campaign.ttl(terms.lease).wait(terms.long_wait());
            Ok(campaign.skew_margin(margin).lead().await?.into_guard())
        };
        let guard = asked.acquire(global, &mut signals, missing, ask).await?;
        run_under(guard, &self.command, &mut signals).await
    }
}

impl Show {
    async fn run(self, global: &Global) -> Outcome {
        self.which.name()?;
        let locks = self.which.open(global).await?;
        let election = Election::new(&locks, self.which.level, &self.which.id)?;
        let (name, leader) = (key(election.key()), election.leader().await?);
        match (global.output, &leader) {
            (Format::Json, leader) => output::json(&ElectionObject {
                election: name,
                term: leader.as_ref().and_then(|leader| leader.term),
                leader: leader.as_ref().map(|leader| (&leader.holder).into()),
            })?,
            (Format::Table, None) => output::line(&format!("{name}: nobody leads"))?,
            (Format::Table, Some(leader)) => {
                let term = leader
                    .term
                    .map_or_else(String::new, |term| format!("; term {term}"));
                output::line(&format!("{name}: led by {}{term}", leader.holder))?;
            }
        }
        Ok(Exit::Done)
    }
}
