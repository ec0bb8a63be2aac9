//! `hbase-txn semaphore`.

use std::{ffi::OsString, time::Duration};

use clap::{Args, Subcommand};
use hbase_txn::{LockGuard, LockManager, LockToken, PermitHolder, Semaphore as Permits, SemaphoreInfo};
use serde::Serialize;

use super::holder::HolderObject;
use crate::{
    args::{Format, Global},
    cmd::{
        Outcome,
        lock::{
            acquire::give_back,
            release::End,
            request::{Asked, Missing, MissingTable, Terms},
            run::{margin, run_under},
            signals::Signals,
            which::{Which, key, lease},
        },
    },
    durations,
    exit::{Exit, Failure},
    output,
    values::{self, Ranged},
};

/// Semaphores: permits, of which there are so many for all processes together
#[derive(Debug, Args)]
pub(crate) struct Semaphore {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    Acquire(Acquire),
    Run(Run),
    Release(Release),
    Renew(Renew),
    Resize(Resize),
    Show(Show),
    Delete(Delete),
}

/// Create a semaphore; one that is there with as many permits is left as it is
#[derive(Debug, Args)]
#[command(after_help = CREATE)]
struct Create {
    #[command(flatten)]
    which: Which,
    /// How many permits there are, 1 to 1024
    #[arg(value_name = "PERMITS", allow_negative_numbers = true, value_parser = values::whole::<u32>)]
    permits: Ranged<u32>,
    #[command(flatten)]
    table: MissingTable,
}

/// Take permits, and leave them held until their lease is over or they are released by their token
#[derive(Debug, Args)]
#[command(after_help = ACQUIRE)]
struct Acquire {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    count: Count,
}

/// Run a command under permits, which are renewed until it ends, and released then
///
/// The command is run as by `lock run`: HBASE_TXN_LOCK has the semaphore's key, HBASE_TXN_FENCING the permits' number.
#[derive(Debug, Args)]
#[command(after_help = RUN)]
struct Run {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    count: Count,
    /// The command and its arguments, behind --
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct Count {
    /// How many permits, all or none
    #[arg(long, value_name = "N", default_value = "1", allow_hyphen_values = true, value_parser = values::whole::<u32>)]
    permits: Ranged<u32>,
}

/// Release permits by their token
#[derive(Debug, Args)]
#[command(after_help = RELEASE)]
struct Release {
    #[command(flatten)]
    which: Which,
    /// The token that acquire printed
    #[arg(long, value_name = "T")]
    token: LockToken,
}

/// Renew the lease of permits by their token
///
/// They are held for the whole lease from now on, or as long as before if that is longer.
#[derive(Debug, Args)]
#[command(after_help = RENEW)]
struct Renew {
    #[command(flatten)]
    which: Which,
    /// The token that acquire printed
    #[arg(long, value_name = "T")]
    token: LockToken,
    /// The lease from now on: 100ms to 720h
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true, value_parser = durations::parse)]
    ttl: Ranged<Duration>,
}

/// Change how many permits there are. Those that are held stay held
#[derive(Debug, Args)]
struct Resize {
    #[command(flatten)]
    which: Which,
    /// How many permits there are from now on, 1 to 1024
    #[arg(value_name = "PERMITS", allow_negative_numbers = true, value_parser = values::whole::<u32>)]
    permits: Ranged<u32>,
}

/// Show how many permits are free, and who holds the others
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
struct Show {
    #[command(flatten)]
    which: Which,
}

/// Delete a semaphore. Permits that are held stay held until their leases are over
///
/// Exit status: 0 it is deleted, 3 there was none, 1 refused or failed, 4 the answer was lost.
#[derive(Debug, Args)]
struct Delete {
    #[command(flatten)]
    which: Which,
}

const CREATE: &str = r#"Example: hbase-txn semaphore create locks exports 4 --farm fra --client billing --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","permits":4}

Exit status: 0 it is there with so many permits; 1 refused, as when it is there with another number, or failed; 4 the answer was lost."#;

const ACQUIRE: &str = r#"Example: hbase-txn semaphore acquire locks exports --farm fra --client billing --permits 2 --wait 10s --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","permits":2,"token":"9f86d081884c7d659a2feaa0c55ad015","fencing":1767225600123,"ttl_ms":30000}

Exit status: 0 they are held; 3 there were not enough, and nothing is printed; 1 refused or failed; 4 the answer was lost: they may be held, until their lease is over."#;

const RUN: &str = r#"Example: hbase-txn semaphore run locks exports --farm fra --client billing --wait 1m -- ./export.sh

If the permits are lost while CMD runs, CMD and what it started get TERM, and KILL 5 seconds later.

Exit status: that of CMD, 128 + N if signal N ended it; 3 the permits are not available, and CMD was not run; 1 CMD can't be run, or permits not be asked for; 4 they were lost while CMD ran."#;

const RELEASE: &str = r#"Example: hbase-txn semaphore release locks exports --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","outcome":"released"}

The outcome is released, or as `lock release` tells it.

Exit status: 0 released, 3 not held any more, 1 refused or failed, 4 the answer was lost."#;

const RENEW: &str = r#"Example: hbase-txn semaphore renew locks exports --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --ttl 5m --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","outcome":"renewed"}

The outcome is renewed, or as `lock renew` tells it.

Exit status: 0 renewed, 3 not held any more, 1 refused or failed, 4 the answer was lost."#;

const SHOW: &str = r#"Example: hbase-txn semaphore show locks exports --farm fra --client billing --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","permits":4,"available":2,"fencing":1767225600123,"holders":[{"permits":2,"holder":"ci@build-7:4711","age_ms":1500,"remaining_ms":28500}]}

Age and remaining time are by this machine's clock. `fencing` is the highest number so far, which attempts that came to nothing raise too; null when none is remembered.

Exit status: 0; 1 there is no such semaphore, refused or failed."#;

#[derive(Serialize)]
struct Defined<'a> {
    semaphore: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
}

#[derive(Serialize)]
struct Acquired {
    semaphore: String,
    permits: u32,
    token: String,
    fencing: u64,
    ttl_ms: u64,
}

#[derive(Serialize)]
struct SemaphoreObject<'a> {
    semaphore: String,
    permits: u32,
    available: u32,
    fencing: Option<u64>,
    holders: Vec<PermitsObject<'a>>,
}

#[derive(Serialize)]
struct PermitsObject<'a> {
    permits: u32,
    #[serde(flatten)]
    holder: HolderObject<'a>,
}

impl Semaphore {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Create(create) => create.run(global).await,
            Action::Acquire(acquire) => acquire.run(global).await,
            Action::Run(run) => run.run(global).await,
            Action::Release(release) => release.run(global).await,
            Action::Renew(renew) => renew.run(global).await,
            Action::Resize(resize) => resize.run(global).await,
            Action::Show(show) => show.run(global).await,
            Action::Delete(delete) => delete.run(global).await,
        }
    }
}

/// A semaphore of a table that is there.
async fn open(which: &Which, global: &Global) -> Result<Permits, Failure> {
    which.name()?;
    let locks = which.open(global).await?;
    Ok(Permits::open(&locks, which.level, &which.id).await?)
}

impl Create {
    async fn run(self, global: &Global) -> Outcome {
        self.which.name()?;
        let permits = number(&self.permits, "PERMITS")?;
        let missing = self.table.missing(&self.which)?;
        let connection = global.connect().await?;
        let locks = missing
            .open(&connection, self.which.options(), &self.which)
            .await?;
        let semaphore = Permits::create(&locks, self.which.level, &self.which.id, permits).await?;
        tell(global, &semaphore)
    }
}

impl Resize {
    async fn run(self, global: &Global) -> Outcome {
        let permits = number(&self.permits, "PERMITS")?;
        let semaphore = open(&self.which, global).await?;
        semaphore.resize(permits).await?;
        tell(global, &semaphore)
    }
}

fn tell(global: &Global, semaphore: &Permits) -> Outcome {
    let (name, permits) = (key(semaphore.key()), semaphore.permits());
    match global.output {
        Format::Table => output::line(&format!(
            "{name}: {}",
            output::counted(permits as usize, "permit")
        ))?,
        Format::Json => output::json(&Defined {
            semaphore: name,
            permits: Some(permits),
            outcome: None,
        })?,
    }
    Ok(Exit::Done)
}

/// A number of permits that may be in range: what is, the library knows.
fn number(permits: &Ranged<u32>, what: &str) -> Result<u32, Failure> {
    let number = permits.get(what)?;
    if (1..=Permits::MOST_PERMITS).contains(&number) {
        return Ok(number);
    }
    Err(Failure::Refused(format!(
        "{what} {number} is out of range: 1 to {}",
        Permits::MOST_PERMITS
    )))
}

impl Count {
    fn get(&self) -> Result<u32, Failure> {
        number(&self.permits, "--permits")
    }
}

impl Acquire {
    async fn run(self, global: &Global) -> Outcome {
        self.asked.which.name()?;
        let (lease, permits) = (self.asked.lease()?, self.count.get()?);
        let mut signals = Signals::listen()?;
        let guard = acquire(&self.asked, permits, None, global, &mut signals).await?;
        let acquired = Acquired {
            semaphore: key(guard.name()),
            permits,
            token: guard.token().to_string(),
            fencing: guard.fencing(),
            ttl_ms: durations::milliseconds(lease),
        };
        let told = match global.output {
            Format::Json => output::json(&acquired),
            Format::Table => output::line(&format!(
                "{}: {} held for {}; token {}, fencing number {}",
                acquired.semaphore,
                output::counted(permits as usize, "permit"),
                durations::shown(lease),
                acquired.token,
                acquired.fencing
            )),
        };
        match told {
            Ok(()) => {
                let _: LockToken = guard.leave();
                Ok(Exit::Done)
            }
            Err(error) => Err(give_back(guard, &error).await),
        }
    }
}

impl Run {
    async fn run(self, global: &Global) -> Outcome {
        self.asked.which.name()?;
        let permits = self.count.get()?;
        let margin = margin(self.asked.lease()?);
        let mut signals = Signals::listen()?;
        let guard = acquire(&self.asked, permits, Some(margin), global, &mut signals).await?;
        run_under(guard, &self.command, &mut signals).await
    }
}

/// Acquires permits; with a margin, to be renewed.
async fn acquire(
    asked: &Asked,
    permits: u32,
    margin: Option<Duration>,
    global: &Global,
    signals: &mut Signals,
) -> Result<LockGuard, Failure> {
    let ask = async |locks: LockManager, terms: Terms<'_>| {
        let semaphore = Permits::open(&locks, terms.level, terms.id).await?;
        let request = semaphore.permits_together(permits).ttl(terms.lease);
        let request = request.wait(terms.wait.unwrap_or_default());
        match margin {
            Some(margin) => request.renewed().skew_margin(margin).acquire().await,
            None => request.acquire().await,
        }
    };
    asked.acquire(global, signals, Missing::Refused, ask).await
}

impl Release {
    async fn run(self, global: &Global) -> Outcome {
        let semaphore = open(&self.which, global).await?;
        let end = End::of_release(semaphore.release(self.token).await?)?;
        tell_end(global, &semaphore, &end)
    }
}

impl Renew {
    async fn run(self, global: &Global) -> Outcome {
        let lease = lease(&self.ttl)?;
        let semaphore = open(&self.which, global).await?;
        let end = End::of_renewal(semaphore.renew(self.token, lease).await?);
        tell_end(global, &semaphore, &end)
    }
}

fn tell_end(global: &Global, semaphore: &Permits, end: &End) -> Outcome {
    let name = key(semaphore.key());
    match global.output {
        Format::Table => output::line(&end.sentence(&name))?,
        Format::Json => output::json(&Defined {
            semaphore: name,
            permits: None,
            outcome: Some(end.outcome),
        })?,
    }
    Ok(end.exit)
}

impl Show {
    async fn run(self, global: &Global) -> Outcome {
        let info = open(&self.which, global).await?.show().await?;
        match global.output {
            Format::Table => output::line(&page(&info))?,
            Format::Json => output::json(&SemaphoreObject {
                semaphore: key(&info.key),
                permits: info.permits,
                available: info.available,
                fencing: info.fencing,
                holders: info.holders.iter().map(PermitsObject::from).collect(),
            })?,
        }
        Ok(Exit::Done)
    }
}

impl<'a> From<&'a PermitHolder> for PermitsObject<'a> {
    fn from(holder: &'a PermitHolder) -> Self {
        Self {
            permits: holder.permits,
            holder: (&holder.holder).into(),
        }
    }
}

fn page(info: &SemaphoreInfo) -> String {
    let mut page = format!(
        "{}: {} of {} free",
        key(&info.key),
        info.available,
        output::counted(info.permits as usize, "permit")
    );
    for PermitHolder { permits, holder, .. } in &info.holders {
        page.push_str(&format!("\n{permits} held by {holder}"));
    }
    page
}

impl Delete {
    async fn run(self, global: &Global) -> Outcome {
        self.which.name()?;
        let locks = self.which.open(global).await?;
        let semaphore = match Permits::open(&locks, self.which.level, &self.which.id).await {
            Ok(semaphore) => Some(semaphore),
            Err(error) if error.kind() == hbase_txn::ErrorKind::SemaphoreAbsent => None,
            Err(error) => return Err(error.into()),
        };
        let deleted = match &semaphore {
            Some(semaphore) => semaphore.delete().await?,
            None => false,
        };
        let name = key(self.which.name()?.key());
        let (outcome, exit) = match deleted {
            true => ("deleted", Exit::Done),
            false => ("absent", Exit::NotMet),
        };
        match global.output {
            Format::Table => output::line(&format!("SEM#{name}: {outcome}"))?,
            Format::Json => output::json(&Defined {
                semaphore: format!("SEM#{name}"),
                permits: None,
                outcome: Some(outcome),
            })?,
        }
        Ok(exit)
    }
}
