//! `hbase-txn lock list`.

use clap::Args;
use hbase_txn::{
    Level,
    client::TableName,
    coordination::{self, CoordinationInfo, CoordinationState},
    lock::{LockHolder, LockInfo, LockManagerOptions, LockName},
};
use serde::Serialize;

use super::{elect::ElectionObject, group::GroupObject, rwlock::RwLockObject, semaphore::SemaphoreObject};
use crate::{
    cmd::{
        lock::{look::LockObject, which::Kind},
        missing_table::{self, Missing},
    },
    durations,
    exit::{Exit, Outcome},
    global::{Format, Global},
    output, values,
};

/// List the held locks of a table
///
/// The table is read from one end to the other. Each line was true at some time, but not all lines
/// at the same time.
#[derive(Debug, Args)]
#[command(after_help = LIST)]
pub(crate) struct List {
    /// Lock table, with its namespace if it has one
    table: TableName,
    /// Elections, semaphores, read/write locks and groups too, each with its kind; a semaphore also
    /// without holders
    #[arg(long)]
    all: bool,
    /// Only locks of this level; as with --farm and --client, without keys in another form than
    /// this library's
    #[arg(long, value_name = "dc|xdc")]
    level: Option<Level>,
    /// Only locks of this farm, which have level dc
    #[arg(long, value_name = "F", value_parser = values::text)]
    farm: Option<String>,
    /// Only locks of this client
    #[arg(long, value_name = "C", value_parser = values::text)]
    client: Option<String>,
}

const LIST: &str = r#"Example: hbase-txn lock list locks --client billing --output json; its objects are those of lock show, with null for `fencing`. With --all each object also has `kind`: lock, election, semaphore, rwlock or group; the objects are those of the `show` of that kind.

The commands accept a listed name in place of --farm, --level and --client: hbase-txn lock show locks DC#fra#billing#nightly"#;

#[derive(Serialize)]
struct ListedObject<'a> {
    kind: &'static str,
    #[serde(flatten)]
    object: AnyObject<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyObject<'a> {
    Lock(LockObject<'a>),
    Election(ElectionObject<'a>),
    Semaphore(SemaphoreObject<'a>),
    RwLock(RwLockObject<'a>),
    Group(GroupObject<'a>),
}

impl List {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let connection = global.connect().await?;
        // The manager's client does not matter: it lists the locks of all clients.
        let options = LockManagerOptions::new("-");
        let manager = missing_table::open_locks(&connection, options, &self.table, Missing::Refused).await?;
        let mut locks = manager.list().await?;
        locks.retain(|lock| self.wants(lock.name.as_ref()));
        if !self.all {
            match global.output {
                Format::Json => output::json_lines(locks.iter().map(LockObject::from))?,
                Format::Table => output::page(&page(&locks))?,
            }
            return Ok(Exit::Done);
        }
        let mut others = coordination::list(&manager).await?;
        others.retain(|other| self.wants(Some(&other.name)));
        match global.output {
            Format::Json => {
                let locks = locks.iter().map(|lock| ListedObject {
                    kind: Kind::Lock.word(),
                    object: AnyObject::Lock(lock.into()),
                });
                output::json_lines(locks.chain(others.iter().filter_map(object)))?;
            }
            Format::Table => output::page(&page_of_all(&locks, &others))?,
        }
        Ok(Exit::Done)
    }

    fn wants(&self, name: Option<&LockName>) -> bool {
        let Self {
            level, farm, client, ..
        } = self;
        let Some(name) = name else {
            return level.is_none() && farm.is_none() && client.is_none();
        };
        level.is_none_or(|level| name.level() == level)
            && farm.as_deref().is_none_or(|farm| name.farm() == Some(farm))
            && client.as_deref().is_none_or(|client| name.client() == client)
    }
}

/// Returns the object, or `None` for a kind of a later version of the library.
fn object(info: &CoordinationInfo) -> Option<ListedObject<'_>> {
    let name = Some(&info.name);
    let (kind, object) = match &info.state {
        CoordinationState::Election(leader) => {
            let object = ElectionObject::new(&info.key, name, Some(leader));
            (Kind::Election, AnyObject::Election(object))
        }
        CoordinationState::Semaphore(state) => (
            Kind::Semaphore,
            AnyObject::Semaphore(SemaphoreObject::new(name, state)),
        ),
        CoordinationState::ReadWrite(state) => {
            (Kind::RwLock, AnyObject::RwLock(RwLockObject::new(name, state)))
        }
        CoordinationState::Group(state) => (Kind::Group, AnyObject::Group(GroupObject::new(name, state))),
        _ => return None,
    };
    Some(ListedObject {
        kind: kind.word(),
        object,
    })
}

/// Returns the name, the age and the remaining lease of a holder.
pub(in crate::cmd) fn cells(holder: &LockHolder) -> [String; 3] {
    let unknown = || "-".to_owned();
    let name = holder.name.as_ref();
    [
        name.map_or_else(unknown, |name| name.escape_debug().to_string()),
        durations::shown(holder.age()),
        holder.remaining().map_or_else(unknown, durations::shown),
    ]
}

fn page(locks: &[LockInfo]) -> String {
    let rows = locks.iter().filter_map(|lock| {
        let [name, age, remaining] = cells(lock.holder.as_ref()?);
        Some([lock.key.clone(), name, age, remaining])
    });
    output::table(["lock", "holder", "age", "remaining"], rows)
}

/// Returns a table with a line for each holder, and for each semaphore without one.
fn page_of_all(locks: &[LockInfo], others: &[CoordinationInfo]) -> String {
    let line = |kind: Kind, key: &str, state: String, holder: &LockHolder| {
        let [name, age, remaining] = cells(holder);
        [
            kind.word().to_owned(),
            key.to_owned(),
            state,
            name,
            age,
            remaining,
        ]
    };
    let mut rows: Vec<_> = locks
        .iter()
        .filter_map(|lock| {
            Some(line(
                Kind::Lock,
                &lock.key,
                "held".to_owned(),
                lock.holder.as_ref()?,
            ))
        })
        .collect();
    for CoordinationInfo { key, state, .. } in others {
        match state {
            CoordinationState::Election(leader) => {
                rows.push(line(Kind::Election, key, "leads".to_owned(), &leader.holder));
            }
            CoordinationState::Semaphore(semaphore) if semaphore.holders.is_empty() => {
                let state = output::counted(semaphore.permits as usize, "free permit");
                let free = ["semaphore", key, &state, "-", "-", "-"];
                rows.push(free.map(str::to_owned));
            }
            CoordinationState::Semaphore(semaphore) => {
                rows.extend(semaphore.holders.iter().map(|held| {
                    let state = format!(
                        "{} of {}",
                        held.permits,
                        output::counted(semaphore.permits as usize, "permit")
                    );
                    line(Kind::Semaphore, key, state, &held.holder)
                }));
            }
            CoordinationState::ReadWrite(lock) => {
                let does = super::rwlock::writer_does(lock).to_owned();
                let writer = lock.writer.iter();
                rows.extend(writer.map(|holder| line(Kind::RwLock, key, does.clone(), holder)));
                let readers = lock.readers.iter();
                rows.extend(readers.map(|holder| line(Kind::RwLock, key, "reads".to_owned(), holder)));
            }
            CoordinationState::Group(group) => {
                let members = group.members.iter().map(|member| &member.holder);
                rows.extend(members.map(|holder| line(Kind::Group, key, "member".to_owned(), holder)));
            }
            _ => {}
        }
    }
    let header = ["kind", "name", "state", "holder", "age", "remaining"];
    output::table(header, rows)
}
