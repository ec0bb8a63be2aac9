//! `hbase-txn group`.

use bytes::Bytes;
use clap::{Args, Subcommand};
use hbase_txn::{
    client::BytesBinary,
    coordination::{self, GroupInfo, Member},
    lock::{LockManager, LockName, Session},
};
use serde::Serialize;

use super::{
    evict::Evicted,
    holder::{self, HolderObject},
};
use crate::{
    cmd::lock::{
        request::{Request, Terms},
        run::Command,
        which::{Kind, NameObject, Which, key},
    },
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output, values,
};

/// Run a command as a member of a group, or show and evict the members
#[derive(Debug, Args)]
pub(crate) struct Group {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(Run),
    /// Evict a member by its token
    ///
    /// Only the member with this token is evicted. If it has left, nothing changes.
    #[command(after_help = RELEASE)]
    Release(Evicted),
    /// Show the members, in the order in which they joined by the servers' clocks
    #[command(after_help = SHOW)]
    Show(Which),
}

/// Run a command as a member, and leave the group when it ends
///
/// All processes can read the members, with the data of each. The membership is renewed until the
/// command ends. The command runs as with `lock run`: HBASE_TXN_LOCK has the group's key.
#[derive(Debug, Args)]
#[command(after_help = RUN, mut_arg("wait", |wait| wait.hide(true)))]
struct Run {
    #[command(flatten)]
    request: Request,
    /// Data for the other members, such as an address; at most 4096 bytes, \xNN is a byte
    #[arg(long, value_name = "DATA", default_value = "", value_parser = values::bytes)]
    data: Bytes,
    #[command(flatten)]
    command: Command,
}

const RUN: &str = r#"Example: hbase-txn group run locks workers --farm fra --client billing --ttl 18s --data 10.0.0.7:9000 -- ./worker

If the membership is lost while CMD runs, CMD and the processes that it started get TERM, and KILL 5 seconds later. A member whose process dies is listed until its lease expires.

Exit status: that of CMD, 128 + N if signal N ended it; 3 the group was full until --timeout was over, and CMD was not run; 127 CMD does not exist; 126 CMD can't be run; 1 refused or failed, and CMD was not run; 4 the membership was lost while CMD ran. --conflict-exit-code and --lost-exit-code choose others, as for lock run."#;

const RELEASE: &str = r#"Example: hbase-txn group release locks workers --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --force --output json answers

{"group":"GRP#DC#fra#billing#workers","outcome":"evicted","holder":"ci@build-7:4711"}

The outcome is evicted, or gone: the member has left, its lease expired, or it was evicted before. With --log warn it is logged, too.

Exit status: 0 evicted, 3 gone, 1 refused or failed, 4 the answer was lost."#;

const SHOW: &str = r#"Example: hbase-txn group show locks workers --farm fra --client billing --output json answers

{"group":"GRP#DC#fra#billing#workers","level":"dc","farm":"fra","client":"billing","id":"workers","members":[{"data":"10.0.0.7:9000","holder":"ci@build-7:4711","token":"9f86d081884c7d659a2feaa0c55ad015","age_ms":1500,"remaining_ms":28500}]}

Age and remaining time are by this machine's clock.

Exit status: 0, with or without members; 1 refused or failed."#;

#[derive(Serialize)]
pub(super) struct GroupObject<'a> {
    #[serde(flatten)]
    name: NameObject<'a>,
    members: Vec<MemberObject<'a>>,
}

#[derive(Serialize)]
struct MemberObject<'a> {
    data: String,
    #[serde(flatten)]
    holder: HolderObject<'a>,
}

impl<'a> GroupObject<'a> {
    pub(super) fn new(name: Option<&'a LockName>, info: &'a GroupInfo) -> Self {
        Self {
            name: NameObject {
                kind: Kind::Group,
                key: key(&info.key),
                name,
            },
            members: info.members.iter().map(MemberObject::from).collect(),
        }
    }
}

impl<'a> From<&'a Member> for MemberObject<'a> {
    fn from(member: &'a Member) -> Self {
        Self {
            data: data(member),
            holder: (&member.holder).into(),
        }
    }
}

/// Formats the data of a member.
fn data(member: &Member) -> String {
    BytesBinary(&member.data).to_string()
}

impl Group {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Run(run) => run.run(global).await,
            Action::Release(evicted) => {
                let evict = async |locks: &LockManager, name: &LockName, token| {
                    open(locks, name)?.force_release(token).await
                };
                evicted.run(global, Kind::Group, evict).await
            }
            Action::Show(which) => show(&which, global).await,
        }
    }
}

impl Run {
    async fn run(self, global: &Global) -> Outcome {
        let Request { asked, table } = &self.request;
        asked.without_wait()?;
        let (size, most) = (self.data.len(), coordination::Group::MAX_DATA);
        if size > most {
            let text = format!("--data has {size} bytes; the maximum is {most}");
            return Err(Failure::Unparsable(text));
        }
        let ask = async |locks: &LockManager, session: &Session, terms: Terms<'_>| {
            open(locks, &terms.named.name)?
                .join(session, self.data.clone())
                .await
        };
        self.command
            .run(global, Kind::Group, asked, Some(table), ask)
            .await
    }
}

fn open(locks: &LockManager, name: &LockName) -> hbase_txn::Result<coordination::Group> {
    coordination::Group::new(locks, name.level(), name.id())
}

async fn show(which: &Which, global: &Global) -> Outcome {
    let named = which.named(Kind::Group)?;
    let info = open(&named.open(global).await?, &named.name)?.show().await?;
    match global.output {
        Format::Table => output::page(&page(&info))?,
        Format::Json => output::json(&GroupObject::new(Some(&named.name), &info))?,
    }
    Ok(Exit::Done)
}

fn page(info: &GroupInfo) -> String {
    let name = key(&info.key);
    let line = |member: &Member| {
        let holder = holder::sentence(&member.holder);
        match data(member) {
            data if data.is_empty() => format!("\n{holder}"),
            data => format!("\n{data}: {holder}"),
        }
    };
    let members: String = info.members.iter().map(line).collect();
    if members.is_empty() {
        format!("{name}: no members")
    } else {
        format!("{name}:{members}")
    }
}
