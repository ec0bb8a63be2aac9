//! The arguments that name a latch.

use clap::Args;
use hbase_txn::{
    Level,
    client::{BytesBinary, TableName},
    latch::{Latch, LatchManagerOptions, LatchName},
    lock::LockName,
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    cmd::{
        lock::which::serialize_parts,
        missing_table::{self, Missing},
    },
    exit::Failure,
    global::Global,
    values,
};

/// The farm name of commands that do not count.
pub(super) const NO_FARM: &str = "-";

#[derive(Debug, Args)]
pub(super) struct Which {
    /// Latch table, with its namespace if it has one
    pub(super) table: TableName,
    /// Id of the latch, unique for its client, or without --client a full name as `latch list` prints
    /// it; \xNN is a byte
    #[arg(value_parser = values::text)]
    id: String,
    /// Counts that make the latch: dc, those of one farm; xdc, the sum of all farms [default: dc]
    #[arg(long, value_name = "dc|xdc", requires = "client")]
    level: Option<Level>,
    /// Farm (data centre) whose column is counted; not needed to show, wait for or delete a latch
    /// of level xdc
    #[arg(long, value_name = "F", value_parser = values::text)]
    farm: Option<String>,
    /// Client of the latch: a service, not a process
    #[arg(long, value_name = "C", value_parser = values::text)]
    client: Option<String>,
}

/// The use of the latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LatchUse {
    Count,
    Read,
}

/// A latch of a table.
#[derive(Debug)]
pub(super) struct Named<'a> {
    table: &'a TableName,
    pub(super) level: Level,
    /// The farm of the latch at level dc, and whose column is counted.
    farm: Option<String>,
    name: LatchName,
}

impl Which {
    /// Returns the latch. Checks its name and the farm before any call to a server.
    pub(super) fn named(&self, latch_use: LatchUse) -> Result<Named<'_>, Failure> {
        let table = &self.table;
        let named = match &self.client {
            Some(client) => Named {
                table,
                level: self.level.unwrap_or_default(),
                farm: self.farm.clone(),
                name: latch_name("latch", table, client, &self.id)?,
            },
            None => {
                let full = full_name(&self.id)?;
                if let (Level::Dc, Some(farm)) = (full.level(), &self.farm) {
                    return Err(Failure::Unparsable(format!(
                        "{full} names its farm; leave --farm {farm} out"
                    )));
                }
                Named {
                    table,
                    level: full.level(),
                    farm: full.farm().map(str::to_owned).or_else(|| self.farm.clone()),
                    name: latch_name("latch", table, full.client(), full.id())?,
                }
            }
        };
        let refusal = match (&named.farm, named.level, latch_use) {
            (Some(_), ..) | (None, Level::Xdc, LatchUse::Read) => return Ok(named),
            (None, Level::Xdc, LatchUse::Count) => {
                "the count is in the column of a farm, also at level xdc; name the farm by --farm F"
            }
            (None, Level::Dc, _) => {
                "a latch of level dc belongs to a farm; name it by --farm F, or use --level xdc, which adds up all"
            }
        };
        Err(Failure::Unparsable(refusal.to_owned()))
    }
}

/// Parses a full name: the key that `latch list` prints.
pub(super) fn full_name(text: &str) -> Result<LockName, Failure> {
    text.parse().map_err(|_| {
        Failure::Unparsable(format!(
            "{text} is not a full name such as DC#FARM#CLIENT#ID or XDC#CLIENT#ID; write it so, or add --client C"
        ))
    })
}

pub(super) fn latch_name(
    what: &str,
    table: &TableName,
    client: &str,
    id: &str,
) -> Result<LatchName, Failure> {
    LatchName::new(client, id)
        .map_err(|error| Failure::Refused(format!("naming a {what}, table {table}: {error}")))
}

impl Named<'_> {
    pub(super) fn id(&self) -> &str {
        self.name.id()
    }

    pub(super) fn options(&self) -> LatchManagerOptions {
        LatchManagerOptions::new(self.name.client(), self.farm.as_deref().unwrap_or(NO_FARM))
    }

    /// Opens the latch, in an existing table.
    pub(super) async fn open(&self, global: &Global) -> Result<Latch, Failure> {
        let connection = global.connect().await?;
        let latches =
            missing_table::open_latches(&connection, self.options(), self.table, Missing::Refused).await?;
        Ok(latches.latch(self.level, self.id())?)
    }

    /// Returns the name that outputs show.
    pub(super) fn key(&self) -> String {
        let farm = self.farm.as_deref().filter(|_| self.level == Level::Dc);
        shown(Some(&self.name), farm, self.name.key())
    }

    /// Returns the name and its parts, for JSON.
    pub(super) fn object(&self) -> NameObject<'_> {
        let farm = self.farm.as_deref().filter(|_| self.level == Level::Dc);
        NameObject {
            word: "latch",
            name: Some(&self.name),
            farm,
            key: self.name.key(),
        }
    }
}

/// Formats the full name of a latch or barrier, which is that of a lock with the same parts. Without
/// one, returns the key.
pub(super) fn shown(name: Option<&LatchName>, farm: Option<&str>, key: &str) -> String {
    let full = full(name, farm);
    let full = full.as_ref().map_or(key, LockName::key);
    BytesBinary(full.as_bytes()).to_string()
}

fn full(name: Option<&LatchName>, farm: Option<&str>) -> Option<LockName> {
    let name = name?;
    let full = match farm {
        Some(farm) => LockName::dc(farm, name.client(), name.id()),
        None => LockName::xdc(name.client(), name.id()),
    };
    full.ok()
}

/// A name in JSON, with its parts: null if it is not a valid one.
pub(super) struct NameObject<'a> {
    /// The key of the name.
    pub(super) word: &'static str,
    pub(super) name: Option<&'a LatchName>,
    pub(super) farm: Option<&'a str>,
    pub(super) key: &'a str,
}

impl Serialize for NameObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry(self.word, &shown(self.name, self.farm, self.key))?;
        serialize_parts(&mut map, full(self.name, self.farm).as_ref())?;
        map.end()
    }
}
