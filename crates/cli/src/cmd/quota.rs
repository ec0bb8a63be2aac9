//! `hbase-txn quota`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use hbase_txn::{
    QuotaScope, QuotaTarget, TableName, Throttle, ThrottleInterval, ThrottleSettings, ThrottleType,
};
use serde::Serialize;

use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// List, set and remove throttles of users, tables and namespaces
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
}

/// List all throttles
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
struct ThrottleObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    r#type: String,
    limit: u64,
    per: &'static str,
    for_cluster: bool,
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
        let admin = global.connect().await?.admin();
        match self.action {
            Action::List(List {}) => return print(global, admin.throttles().await?),
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

impl From<ThrottleSettings> for ThrottleObject {
    fn from(found: ThrottleSettings) -> Self {
        let (user, table, namespace) = match found.target {
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
            r#type: name(found.throttle.throttle_type),
            limit: found.throttle.limit,
            per: match found.throttle.interval {
                ThrottleInterval::Second => "second",
                ThrottleInterval::Minute => "minute",
                ThrottleInterval::Hour => "hour",
                ThrottleInterval::Day => "day",
            },
            for_cluster: found.throttle.scope == QuotaScope::Cluster,
        }
    }
}

fn print(global: &Global, throttles: Vec<ThrottleSettings>) -> Outcome {
    let objects = throttles.into_iter().map(ThrottleObject::from);
    match global.output {
        Format::Json => {
            for object in objects {
                output::json(&object)?;
            }
        }
        Format::Table => {
            let header = ["user", "table", "namespace", "type", "limit", "per", "of"];
            let rows = objects.map(|found| {
                let [user, table, namespace] =
                    [found.user, found.table, found.namespace].map(Option::unwrap_or_default);
                let of = if found.for_cluster { "cluster" } else { "server" };
                let (limit, per) = (found.limit.to_string(), found.per.to_owned());
                [user, table, namespace, found.r#type, limit, per, of.to_owned()]
            });
            output::line(&output::table(header, rows))?;
        }
    }
    Ok(Exit::Done)
}
