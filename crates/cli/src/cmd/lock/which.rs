//! The arguments that name a lock, an election, a semaphore, a read/write lock or a group.

use std::{fmt, time::Duration};

use clap::Args;
use hbase_txn::{
    Level,
    client::{BytesBinary, Connection, TableName},
    lock::{LockManager, LockManagerOptions, LockName, MAX_LEASE, MIN_LEASE},
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    cmd::missing_table::{self, Missing},
    durations,
    exit::Failure,
    global::Global,
    hints,
    values::{self, Ranged},
};

#[derive(Debug, Args)]
pub(in crate::cmd) struct Which {
    /// Lock table, with its namespace if it has one
    pub(in crate::cmd) table: TableName,
    /// Id, unique for its client, or without --client a full name as `lock list --all` prints it;
    /// \xNN is a byte
    #[arg(value_parser = values::text)]
    id: String,
    #[command(flatten)]
    scope: Scope,
}

/// The processes that a lock excludes.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Scope {
    /// Scope: dc, the processes of the client in one farm; xdc, those in all farms [default: dc]
    #[arg(long, value_name = "dc|xdc", requires = "client")]
    level: Option<Level>,
    /// Farm (data centre) of the client, for level dc
    #[arg(long, value_name = "F", value_parser = values::text, requires = "client")]
    farm: Option<String>,
    /// Client: the service whose processes share the name, not one process
    #[arg(long, value_name = "C", value_parser = values::text)]
    client: Option<String>,
}

/// The kind of a row in a lock table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cmd) enum Kind {
    Lock,
    Election,
    Semaphore,
    RwLock,
    Group,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Lock,
        Self::Election,
        Self::Semaphore,
        Self::RwLock,
        Self::Group,
    ];

    /// Returns its name in JSON.
    pub(in crate::cmd) fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Election => "election",
            Self::Semaphore => "semaphore",
            Self::RwLock => "rwlock",
            Self::Group => "group",
        }
    }

    /// Returns the group of its commands.
    pub(in crate::cmd) fn group(self) -> &'static str {
        match self {
            Self::Election => "elect",
            kind => kind.word(),
        }
    }

    /// Returns what its holders are called.
    pub(in crate::cmd) fn holders(self) -> &'static str {
        match self {
            Self::Lock => "holder",
            Self::Election => "leader",
            Self::Semaphore | Self::RwLock => "holders",
            Self::Group => "members",
        }
    }

    /// Returns the beginning of its keys, before the name.
    fn prefix(self) -> &'static str {
        match self {
            Self::Lock => "",
            Self::Election => "LEAD#",
            Self::Semaphore => "SEM#",
            Self::RwLock => "RW#",
            Self::Group => "GRP#",
        }
    }
}

/// A lock, an election, a semaphore, a read/write lock or a group of a table.
#[derive(Debug)]
pub(in crate::cmd) struct Named<'a> {
    pub(in crate::cmd) table: &'a TableName,
    pub(in crate::cmd) kind: Kind,
    pub(in crate::cmd) name: LockName,
}

impl Which {
    /// Returns what is named. Checks it before any call to a server.
    pub(in crate::cmd) fn named(&self, kind: Kind) -> Result<Named<'_>, Failure> {
        self.scope.named(&self.table, kind, &self.id)
    }
}

impl Scope {
    /// Returns what is named by this id or full name. Checks it before any call to a server.
    pub(in crate::cmd) fn named<'a>(
        &self,
        table: &'a TableName,
        kind: Kind,
        id: &str,
    ) -> Result<Named<'a>, Failure> {
        let name = match (&self.client, self.level.unwrap_or_default(), &self.farm) {
            (None, ..) => return of_full_name(table, kind, id),
            (Some(client), Level::Xdc, _) => LockName::xdc(client, id),
            (Some(client), Level::Dc, Some(farm)) => LockName::dc(farm, client, id),
            (Some(_), Level::Dc, None) => {
                return Err(Failure::Unparsable(
                    "a lock of level dc belongs to a farm; name it by --farm F, or use --level xdc, which spans all"
                        .to_owned(),
                ));
            }
        };
        let name =
            name.map_err(|error| Failure::Refused(format!("naming a lock, table {table}: {error}")))?;
        Ok(Named { table, kind, name })
    }
}

/// Parses a full name: the key that lists print.
fn of_full_name<'a>(table: &'a TableName, kind: Kind, key: &str) -> Result<Named<'a>, Failure> {
    if let Some(name) = key.strip_prefix(kind.prefix()).and_then(|name| name.parse().ok()) {
        return Ok(Named { table, kind, name });
    }
    let is_of = |other: &Kind| {
        let name = key.strip_prefix(other.prefix());
        *other != kind && name.is_some_and(|name| name.parse::<LockName>().is_ok())
    };
    Err(Failure::Unparsable(
        match Kind::ALL.iter().find(|other| is_of(other)) {
            Some(other) => format!(
                "{key} names a {}; use the commands of hbase-txn {}",
                other.word(),
                other.group()
            ),
            None => format!(
                "{key} is not a full name such as {prefix}DC#FARM#CLIENT#ID or {prefix}XDC#CLIENT#ID; write it so, or \
                 add --client C",
                prefix = kind.prefix()
            ),
        },
    ))
}

impl Named<'_> {
    /// Returns the key that outputs show.
    pub(in crate::cmd) fn key(&self) -> String {
        key(&format!("{}{}", self.kind.prefix(), self.name))
    }

    pub(in crate::cmd) fn options(&self) -> LockManagerOptions {
        let options = LockManagerOptions::new(self.name.client());
        match self.name.farm() {
            Some(farm) => options.farm(farm),
            None => options,
        }
    }

    /// Returns a command on it. `more` follows the id.
    pub(in crate::cmd) fn command(&self, action: &str, more: &str) -> String {
        let scope = match self.name.farm() {
            Some(farm) => format!("--farm {}", argument(farm)),
            None => "--level xdc".to_owned(),
        };
        format!(
            "hbase-txn {} {action} {} {}{more} {scope} --client {}",
            self.kind.group(),
            self.table,
            argument(self.name.id()),
            argument(self.name.client())
        )
    }

    /// Opens the locks of an existing table.
    pub(in crate::cmd) async fn open(&self, global: &Global) -> Result<LockManager, Failure> {
        self.open_on(&global.connect().await?).await
    }

    /// Opens the locks of an existing table over this connection.
    pub(in crate::cmd) async fn open_on(&self, connection: &Connection) -> Result<LockManager, Failure> {
        missing_table::open_locks(connection, self.options(), self.table, Missing::Refused).await
    }
}

/// A key in JSON.
pub(in crate::cmd) struct KeyObject<'a>(pub(in crate::cmd) &'a Named<'a>);

impl Serialize for KeyObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0.kind.word(), self.0.key())])
    }
}

/// A key in JSON, with the parts of the name: null if it is not one.
pub(in crate::cmd) struct NameObject<'a> {
    pub(in crate::cmd) kind: Kind,
    pub(in crate::cmd) key: String,
    pub(in crate::cmd) name: Option<&'a LockName>,
}

impl Serialize for NameObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry(self.kind.word(), &self.key)?;
        serialize_parts(&mut map, self.name)?;
        map.end()
    }
}

/// Writes the parts of a name as entries of an object.
pub(in crate::cmd) fn serialize_parts<M: SerializeMap>(
    map: &mut M,
    name: Option<&LockName>,
) -> Result<(), M::Error> {
    let level = name.map(|name| name.level().to_string().to_lowercase());
    map.serialize_entry("level", &level)?;
    map.serialize_entry("farm", &name.and_then(LockName::farm))?;
    map.serialize_entry("client", &name.map(LockName::client))?;
    map.serialize_entry("id", &name.map(LockName::id))
}

fn argument(text: &str) -> String {
    hints::word(&BytesBinary(text.as_bytes()))
}

/// Formats a key for output.
pub(in crate::cmd) fn key(name: &(impl fmt::Display + ?Sized)) -> String {
    BytesBinary(name.to_string().as_bytes()).to_string()
}

/// Checks that a lease is in the range of all tables.
pub(in crate::cmd) fn lease(ttl: &Ranged<Duration>) -> Result<Duration, Failure> {
    let ttl = ttl.get("--ttl")?;
    if (MIN_LEASE..=MAX_LEASE).contains(&ttl) {
        return Ok(ttl);
    }
    Err(Failure::Unparsable(format!(
        "--ttl {} is out of range: a lease is from {} to {}",
        durations::shown(ttl),
        durations::shown(MIN_LEASE),
        durations::shown(MAX_LEASE)
    )))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn scope(client: Option<&str>) -> Scope {
        Scope {
            level: None,
            farm: client.map(|_| "fra".to_owned()),
            client: client.map(str::to_owned),
        }
    }

    #[rstest]
    #[case(Kind::Lock, "DC#fra#svc#a#b")]
    #[case(Kind::Election, "LEAD#DC#fra#svc#a#b")]
    #[case(Kind::Semaphore, "SEM#XDC#svc#a")]
    #[case(Kind::RwLock, "RW#XDC#svc#a")]
    fn key_that_is_printed_is_accepted(#[case] kind: Kind, #[case] key: &str) {
        let table = "locks".parse().unwrap();
        assert_eq!(scope(None).named(&table, kind, key).unwrap().key(), key);
        // With a client it is an id.
        assert_eq!(
            scope(Some("svc")).named(&table, kind, key).unwrap().name.id(),
            key
        );
    }

    #[rstest]
    #[case(Kind::Lock, "a", "add --client C")]
    #[case(Kind::Lock, "DC#fra#svc", "DC#FARM#CLIENT#ID")]
    #[case(
        Kind::Semaphore,
        "DC#fra#svc#a",
        "names a lock; use the commands of hbase-txn lock"
    )]
    #[case(Kind::Lock, "LEAD#DC#fra#svc#a", "use the commands of hbase-txn elect")]
    fn other_text_without_a_client_is_refused(#[case] kind: Kind, #[case] key: &str, #[case] why: &str) {
        let table = "locks".parse().unwrap();
        let refused = scope(None).named(&table, kind, key).unwrap_err();
        assert!(matches!(refused, Failure::Unparsable(_)), "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    }

    #[test]
    fn command_has_the_id_and_the_scope() {
        let table = "ns:locks".parse().unwrap();
        let named = scope(Some("svc")).named(&table, Kind::Semaphore, "a b").unwrap();
        assert_eq!(
            named.command("create", " PERMITS"),
            "hbase-txn semaphore create ns:locks 'a b' PERMITS --farm fra --client svc"
        );
    }
}
