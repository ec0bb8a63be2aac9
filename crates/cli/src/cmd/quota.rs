//! `hbase-txn quota`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use hbase_txn::{
    admin::{
        Admin, QuotaScope, QuotaTarget, SpaceQuota, SpaceQuotaSettings, SpaceViolationPolicy, Throttle,
        ThrottleInterval, ThrottleSettings, ThrottleType,
    },
    client::TableName,
};
use serde::Serialize;

use super::confirm::confirm;
use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// List, set and remove throttles, and limits of the space of tables and namespaces
#[derive(Debug, Args)]
pub(crate) struct Quota {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Set(Set),
    Remove(Remove),
    SetSpace(SetSpace),
    RemoveSpace(RemoveSpace),
}

/// List all throttles and limits of space
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn quota list")]
struct List {}

/// Limit requests in a time
///
/// Replaces the throttle of the same type. Servers apply it within hbase.quota.refresh.period.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn quota set write-number 1000 --per second --table orders")]
struct Set {
    /// What is limited
    #[arg(value_name = "TYPE", value_parser = throttle_type)]
    throttle_type: ThrottleType,
    /// Limit: requests, bytes, capacity units or milliseconds, by the type
    #[arg(value_parser = values::whole::<u64>)]
    limit: Ranged<u64>,
    /// Time that the limit is for
    #[arg(long, value_enum)]
    per: Interval,
    /// One limit for all region servers together, instead of one for each
    #[arg(long)]
    for_cluster: bool,
    #[command(flatten)]
    target: Target,
}

/// Remove the throttles of a user, a table or a namespace
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn quota remove --table orders")]
struct Remove {
    /// Only the throttle of this type
    #[arg(value_name = "TYPE", value_parser = throttle_type)]
    throttle_type: Option<ThrottleType>,
    #[command(flatten)]
    target: Target,
}

/// Limit the bytes that a table takes, or all tables of a namespace together
///
/// Replaces the limit that there is. Servers look at the sizes every few minutes, so a table can take
/// more by then. Transactions through the endpoint are only refused by the policy disable, which takes
/// the table offline: on a terminal, the command first asks for the name. Elsewhere it requires --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn quota set-space 1099511627776 --policy no-inserts --table orders")]
struct SetSpace {
    /// Limit in bytes of store files
    #[arg(value_parser = values::whole::<u64>)]
    limit: Ranged<u64>,
    /// What is refused above the limit
    #[arg(long, value_enum)]
    policy: Policy,
    #[command(flatten)]
    target: SpaceTarget,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Remove the limit of the space of a table or a namespace
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn quota remove-space --table orders")]
struct RemoveSpace {
    #[command(flatten)]
    target: SpaceTarget,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct SpaceTarget {
    /// Limit of a table
    #[arg(long)]
    table: Option<TableName>,
    /// Limit of all tables of a namespace together
    #[arg(long)]
    namespace: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    /// Puts, increments and appends, but not deletes
    NoInserts,
    /// Writes
    NoWrites,
    /// Writes and compactions
    NoWritesCompactions,
    /// Everything: the master disables the table
    Disable,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("target").required(true).multiple(true).args(["user", "table", "namespace"])))]
struct Target {
    /// Requests of a user
    #[arg(long)]
    user: Option<String>,
    /// Requests to a table
    #[arg(long)]
    table: Option<TableName>,
    /// Requests to the tables of a namespace
    #[arg(long, conflicts_with = "table")]
    namespace: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Interval {
    Second,
    Minute,
    Hour,
    Day,
}

#[derive(Serialize)]
struct QuotaObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    r#type: String,
    limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    per: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_cluster: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
}

/// The name of a type: its Rust name in lower case, with hyphens.
fn name(throttle_type: ThrottleType) -> String {
    let mut name = String::new();
    for letter in format!("{throttle_type:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn throttle_type(text: &str) -> Result<ThrottleType, String> {
    let mut types = ThrottleType::ALL.into_iter();
    types.find(|known| name(*known) == text).ok_or_else(|| {
        let known: Vec<_> = ThrottleType::ALL.into_iter().map(name).collect();
        format!("types are {}", known.join(", "))
    })
}

impl Quota {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        match self.action {
            Action::List(List {}) => {
                let throttles = admin.throttles().await?.into_iter().map(QuotaObject::from);
                let space = admin.space_quotas().await?.into_iter().map(QuotaObject::from);
                return print(global, throttles.chain(space));
            }
            Action::Set(set) => {
                let limit = set.limit.get("LIMIT")?;
                let interval = match set.per {
                    Interval::Second => ThrottleInterval::Second,
                    Interval::Minute => ThrottleInterval::Minute,
                    Interval::Hour => ThrottleInterval::Hour,
                    Interval::Day => ThrottleInterval::Day,
                };
                let throttle = Throttle::new(set.throttle_type, limit, interval);
                let throttle = if set.for_cluster {
                    throttle.for_cluster()
                } else {
                    throttle
                };
                admin.set_throttle(&set.target.into(), &throttle).await?;
            }
            Action::Remove(remove) => {
                admin
                    .remove_throttle(&remove.target.into(), remove.throttle_type)
                    .await?;
            }
            Action::SetSpace(set) => {
                if let (Policy::Disable, Some(name)) = (set.policy, set.target.name()) {
                    let consequence = format!("Above the limit, HBase disables {name}.");
                    confirm(global, set.yes, &name, &consequence)?;
                }
                let quota = SpaceQuota::new(set.limit.get("LIMIT")?, set.policy.into());
                admin.set_space_quota(&set.target.into(), &quota).await?;
            }
            Action::RemoveSpace(remove) => admin.remove_space_quota(&remove.target.into()).await?,
        }
        Ok(Exit::Done)
    }
}

impl From<Target> for QuotaTarget {
    fn from(target: Target) -> Self {
        match (target.user, target.table, target.namespace) {
            (Some(user), Some(table), _) => Self::UserTable { user, table },
            (Some(user), None, Some(namespace)) => Self::UserNamespace { user, namespace },
            (Some(user), None, None) => Self::User(user),
            (None, Some(table), _) => Self::Table(table),
            (None, None, namespace) => Self::Namespace(namespace.unwrap_or_default()),
        }
    }
}

impl SpaceTarget {
    fn name(&self) -> Option<String> {
        let table = self.table.as_ref().map(ToString::to_string);
        table.or_else(|| self.namespace.clone())
    }
}

impl From<SpaceTarget> for QuotaTarget {
    fn from(target: SpaceTarget) -> Self {
        match target.table {
            Some(table) => Self::Table(table),
            None => Self::Namespace(target.namespace.unwrap_or_default()),
        }
    }
}

impl From<Policy> for SpaceViolationPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::NoInserts => Self::NoInserts,
            Policy::NoWrites => Self::NoWrites,
            Policy::NoWritesCompactions => Self::NoWritesCompactions,
            Policy::Disable => Self::Disable,
        }
    }
}

impl QuotaObject {
    fn new(target: QuotaTarget, r#type: String, limit: u64) -> Self {
        let (user, table, namespace) = match target {
            QuotaTarget::User(user) => (Some(user), None, None),
            QuotaTarget::UserTable { user, table } => (Some(user), Some(table), None),
            QuotaTarget::UserNamespace { user, namespace } => (Some(user), None, Some(namespace)),
            QuotaTarget::Table(table) => (None, Some(table), None),
            QuotaTarget::Namespace(namespace) => (None, None, Some(namespace)),
            // All requests of a region server.
            _ => (None, None, None),
        };
        Self {
            user,
            table: table.map(|table| table.to_string()),
            namespace,
            r#type,
            limit,
            per: None,
            for_cluster: None,
            policy: None,
        }
    }
}

impl From<ThrottleSettings> for QuotaObject {
    fn from(found: ThrottleSettings) -> Self {
        let throttle = found.throttle;
        Self {
            per: Some(match throttle.interval {
                ThrottleInterval::Second => "second",
                ThrottleInterval::Minute => "minute",
                ThrottleInterval::Hour => "hour",
                ThrottleInterval::Day => "day",
            }),
            for_cluster: Some(throttle.scope == QuotaScope::Cluster),
            ..Self::new(found.target, name(throttle.throttle_type), throttle.limit)
        }
    }
}

impl From<SpaceQuotaSettings> for QuotaObject {
    fn from(found: SpaceQuotaSettings) -> Self {
        Self {
            policy: Some(match found.quota.policy {
                SpaceViolationPolicy::NoInserts => "no-inserts",
                SpaceViolationPolicy::NoWrites => "no-writes",
                SpaceViolationPolicy::NoWritesCompactions => "no-writes-compactions",
                SpaceViolationPolicy::Disable => "disable",
            }),
            ..Self::new(found.target, "space".to_owned(), found.quota.limit)
        }
    }
}

fn print(global: &Global, objects: impl Iterator<Item = QuotaObject>) -> Outcome {
    match global.output {
        Format::Json => {
            for object in objects {
                output::json(&object)?;
            }
        }
        Format::Table => {
            let header = [
                "user",
                "table",
                "namespace",
                "type",
                "limit",
                "per",
                "of",
                "policy",
            ];
            let rows = objects.map(|found| {
                let [user, table, namespace] =
                    [found.user, found.table, found.namespace].map(Option::unwrap_or_default);
                let of = found
                    .for_cluster
                    .map(|all| if all { "cluster" } else { "server" });
                let [per, of, policy] =
                    [found.per, of, found.policy].map(|word| word.unwrap_or_default().to_owned());
                let limit = found.limit.to_string();
                [user, table, namespace, found.r#type, limit, per, of, policy]
            });
            output::page(&output::table(header, rows))?;
        }
    }
    Ok(Exit::Done)
}
