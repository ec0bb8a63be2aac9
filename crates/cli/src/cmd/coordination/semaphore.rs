//! `hbase-txn semaphore`.

use std::time::Duration;

use clap::{Args, Subcommand};
use hbase_txn::{
    ErrorKind,
    coordination::{PermitHolder, PermitRequest, Semaphore as Permits, SemaphoreInfo},
    lock::{LockManager, LockName, LockToken, Session},
};
use serde::Serialize;

use super::holder::{self, HolderObject};
use crate::{
    cmd::{
        lock::{
            acquire::acquire,
            release::{End, Renew},
            request::{Asked, MissingTable, Terms, absent},
            run::Command,
            which::{Kind, NameObject, Named, Which, key},
        },
        missing_table,
    },
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// Acquire, renew and release permits of a semaphore, or run a command under them
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
    /// Renew the lease of permits by their token
    ///
    /// The permits are held for the whole lease from now on, or as long as before if that is longer.
    #[command(after_help = RENEW)]
    Renew(Renew),
    Resize(Resize),
    /// Show the number of free permits and the holders of the others
    #[command(after_help = SHOW)]
    Show(Which),
    /// Delete a semaphore
    ///
    /// Held permits stay held until their leases expire.
    ///
    /// Exit status: 0 deleted, 3 no such semaphore, 1 refused or failed, 4 the answer was lost.
    Delete(Which),
}

/// Create a semaphore with a number of permits
///
/// An existing semaphore with the same number is left unchanged.
#[derive(Debug, Args)]
#[command(after_help = CREATE)]
struct Create {
    #[command(flatten)]
    which: Which,
    /// Number of permits, 1 to 1024
    #[arg(value_name = "PERMITS", allow_negative_numbers = true, value_parser = values::whole::<u32>)]
    permits: Ranged<u32>,
    #[command(flatten)]
    table: MissingTable,
}

/// Acquire permits, and keep them until they are released or their lease expires
#[derive(Debug, Args)]
#[command(after_help = ACQUIRE)]
struct Acquire {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    count: Count,
}

/// Run a command under permits, and release them when it ends
///
/// The permits are renewed until then. The command runs as with `lock run`: HBASE_TXN_LOCK has the
/// semaphore's key, HBASE_TXN_FENCING the number of the permits.
#[derive(Debug, Args)]
#[command(after_help = RUN)]
struct Run {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    count: Count,
    #[command(flatten)]
    command: Command,
}

#[derive(Debug, Args)]
struct Count {
    /// Number of permits, acquired together or not at all
    #[arg(long, value_name = "N", default_value = "1", allow_hyphen_values = true, value_parser = values::whole::<u32>)]
    permits: Ranged<u32>,
}

/// Release permits by their token, or revoke them from their holder
#[derive(Debug, Args)]
#[command(after_help = RELEASE)]
struct Release {
    #[command(flatten)]
    which: Which,
    /// Token that `acquire` and `show` print
    #[arg(long, value_name = "T")]
    token: LockToken,
    /// Revocation of the permits; the holder notices at its next renewal, and goes on until then
    #[arg(long)]
    force: bool,
}

/// Change the number of permits
///
/// Held permits stay held.
#[derive(Debug, Args)]
struct Resize {
    #[command(flatten)]
    which: Which,
    /// Number of permits from now on, 1 to 1024
    #[arg(value_name = "PERMITS", allow_negative_numbers = true, value_parser = values::whole::<u32>)]
    permits: Ranged<u32>,
}

const CREATE: &str = r#"Example: hbase-txn semaphore create locks exports 4 --farm fra --client billing --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","permits":4}

Exit status: 0 it exists with this number of permits; 3 it exists with another number; 1 refused or failed; 4 the answer was lost."#;

const ACQUIRE: &str = r#"Example: hbase-txn semaphore acquire locks exports --farm fra --client billing --permits 2 --wait 10s --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","permits":2,"token":"9f86d081884c7d659a2feaa0c55ad015","fencing":1767225600123,"ttl_ms":30000}

Exit status: 0 acquired; 3 not enough free permits, and nothing is printed; 1 refused or failed; 4 the answer was lost: the permits may be held until their lease expires."#;

const RUN: &str = r#"Example: hbase-txn semaphore run locks exports --farm fra --client billing --wait 1m -- ./export.sh

If the permits are lost while CMD runs, CMD and the processes that it started get TERM, and KILL 5 seconds later.

Exit status: that of CMD, 128 + N if signal N ended it; 3 the permits are not available, and CMD was not run; 127 CMD does not exist; 126 CMD can't be run; 1 refused or failed, and CMD was not run; 4 they were lost while CMD ran. --conflict-exit-code and --lost-exit-code choose others, as for lock run."#;

const RELEASE: &str = r#"Example: hbase-txn semaphore release locks exports --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","outcome":"released","holder":null}

The outcome is released, or one of those of `lock release`. With --force it is evicted, or gone if the token holds no permits, and `holder` has the evicted holder's name.

Exit status: 0 released or evicted, 3 not held by this token, 1 refused or failed, 4 the answer was lost."#;

const RENEW: &str = r#"Example: hbase-txn semaphore renew locks exports --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --ttl 5m --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","outcome":"renewed","holder":null}

The outcome is renewed, or one of those of `lock renew`.

Exit status: 0 renewed, 3 not held by this token, 1 refused or failed, 4 the answer was lost."#;

const SHOW: &str = r#"Example: hbase-txn semaphore show locks exports --farm fra --client billing --output json answers

{"semaphore":"SEM#DC#fra#billing#exports","level":"dc","farm":"fra","client":"billing","id":"exports","permits":4,"available":2,"waiting":0,"fencing":1767225600123,"holders":[{"permits":2,"holder":"ci@build-7:4711","token":"9f86d081884c7d659a2feaa0c55ad015","age_ms":1500,"remaining_ms":28500}]}

Age and remaining time are by this machine's clock. `waiting` counts the processes that wait, up to 64. `fencing` is the highest number so far, which failed attempts raise too; null when none is known.

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
pub(super) struct SemaphoreObject<'a> {
    #[serde(flatten)]
    name: NameObject<'a>,
    permits: u32,
    available: u32,
    waiting: usize,
    fencing: Option<i64>,
    holders: Vec<PermitsObject<'a>>,
}

impl<'a> SemaphoreObject<'a> {
    pub(super) fn new(name: Option<&'a LockName>, info: &'a SemaphoreInfo) -> Self {
        Self {
            name: NameObject {
                kind: Kind::Semaphore,
                key: key(&info.key),
                name,
            },
            permits: info.permits,
            available: info.available,
            waiting: info.waiting,
            fencing: info.fencing,
            holders: info.holders.iter().map(PermitsObject::from).collect(),
        }
    }
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
            Action::Renew(renew) => {
                let renewal = async |named: &Named<'_>, token: LockToken, lease: Option<Duration>| {
                    Ok(open(named, global).await?.renew(token, lease).await?)
                };
                renew.run(global, Kind::Semaphore, renewal).await
            }
            Action::Resize(resize) => resize.run(global).await,
            Action::Show(which) => show(&which, global).await,
            Action::Delete(which) => delete(&which, global).await,
        }
    }
}

/// Opens a semaphore in an existing table.
async fn open(named: &Named<'_>, global: &Global) -> Result<Permits, Failure> {
    let locks = named.open(global).await?;
    let opened = Permits::open(&locks, named.name.level(), named.name.id()).await;
    opened.map_err(|error| match error.kind() {
        ErrorKind::SemaphoreAbsent => absent(named, error),
        _ => error.into(),
    })
}

impl Create {
    async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named(Kind::Semaphore)?;
        let permits = number(&self.permits, "PERMITS")?;
        let missing = self.table.missing(&self.which)?;
        let connection = global.connect().await?;
        let locks = missing_table::open_locks(&connection, named.options(), named.table, missing).await?;
        let semaphore = Permits::create(&locks, named.name.level(), named.name.id(), permits).await?;
        print(global, &semaphore)
    }
}

impl Resize {
    async fn run(self, global: &Global) -> Outcome {
        let permits = number(&self.permits, "PERMITS")?;
        let semaphore = open(&self.which.named(Kind::Semaphore)?, global).await?;
        semaphore.resize(permits).await?;
        print(global, &semaphore)
    }
}

fn print(global: &Global, semaphore: &Permits) -> Outcome {
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

/// Checks the range of a number of permits.
fn number(permits: &Ranged<u32>, what: &str) -> Result<u32, Failure> {
    let number = permits.get(what)?;
    if (1..=Permits::MAX_PERMITS).contains(&number) {
        return Ok(number);
    }
    Err(Failure::Unparsable(format!(
        "{what} {number} is out of range: 1 to {}",
        Permits::MAX_PERMITS
    )))
}

impl Count {
    fn get(&self) -> Result<u32, Failure> {
        number(&self.permits, "--permits")
    }
}

impl Acquire {
    async fn run(self, global: &Global) -> Outcome {
        let permits = self.count.get()?;
        let ask = async |locks: LockManager, terms: Terms<'_>| {
            request(&locks, &terms, permits).await?.acquire().await
        };
        acquire(global, Kind::Semaphore, &self.asked, None, Some(permits), ask).await
    }
}

impl Run {
    async fn run(self, global: &Global) -> Outcome {
        let permits = self.count.get()?;
        let ask = async |locks: &LockManager, session: &Session, terms: Terms<'_>| {
            let request = request(locks, &terms, permits).await?;
            request.session(session).acquire().await
        };
        self.command
            .run(global, Kind::Semaphore, &self.asked, None, ask)
            .await
    }
}

/// Creates the request for permits.
async fn request(locks: &LockManager, terms: &Terms<'_>, permits: u32) -> hbase_txn::Result<PermitRequest> {
    let name = &terms.named.name;
    let semaphore = Permits::open(locks, name.level(), name.id()).await?;
    let request = semaphore.acquire_many(permits).ttl(terms.lease);
    Ok(request.wait(terms.wait.unwrap_or_default()))
}

impl Release {
    async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named(Kind::Semaphore)?;
        let semaphore = open(&named, global).await?;
        let end = if self.force {
            End::of_eviction(self.token, semaphore.force_release(self.token).await?)
        } else {
            End::of_release(semaphore.release(self.token).await?)?
        };
        end.print(global, &named)
    }
}

async fn show(which: &Which, global: &Global) -> Outcome {
    let named = which.named(Kind::Semaphore)?;
    let info = open(&named, global).await?.show().await?;
    match global.output {
        Format::Table => output::page(&page(&info))?,
        Format::Json => output::json(&SemaphoreObject::new(Some(&named.name), &info))?,
    }
    Ok(Exit::Done)
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
        page.push_str(&format!("\n{permits} held by {}", holder::sentence(holder)));
    }
    page + &holder::waiting(info.waiting)
}

async fn delete(which: &Which, global: &Global) -> Outcome {
    let named = which.named(Kind::Semaphore)?;
    let locks = named.open(global).await?;
    let semaphore = match Permits::open(&locks, named.name.level(), named.name.id()).await {
        Ok(semaphore) => Some(semaphore),
        Err(error) if error.kind() == ErrorKind::SemaphoreAbsent => None,
        Err(error) => return Err(error.into()),
    };
    let deleted = match &semaphore {
        Some(semaphore) => semaphore.delete().await?,
        None => false,
    };
    let name = named.key();
    let (outcome, exit) = if deleted {
        ("deleted", Exit::Done)
    } else {
        ("absent", Exit::NotMet)
    };
    match global.output {
        Format::Table => output::line(&format!("{name}: {outcome}"))?,
        Format::Json => output::json(&Defined {
            semaphore: name,
            permits: None,
            outcome: Some(outcome),
        })?,
    }
    Ok(exit)
}
