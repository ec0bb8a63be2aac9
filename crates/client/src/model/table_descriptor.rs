//! The descriptor of a table: its families and attributes.

use std::{collections::BTreeMap, fmt, time::Duration};

use bytes::Bytes;

use super::{BytesBinary, Durability, IntoBytes, IntoTableName, TableName};
use crate::error::{Error, Result};

/// A table's descriptor: name, families, attributes. HBase keeps attributes as text in bytes.
///
/// # Example
///
/// A table with one family, and with the endpoint that changes several rows of a region together. For
/// transactions, `hbase_txn::TableDescriptorExt` adds a partition rule and further families.
///
/// ```
/// use hbase_client::{FamilyDescriptor, TableDescriptor};
///
/// let orders = TableDescriptor::new("orders")
///     .unwrap()
///     .with_family(FamilyDescriptor::new("f"))
///     .with_multi_row_mutation_endpoint();
/// assert!(orders.names_multi_row_mutation_endpoint());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableDescriptor {
    /// The table's name.
    pub name: TableName,
    /// Attributes of the table, such as `SPLIT_POLICY` or `coprocessor$1`.
    pub attributes: BTreeMap<Bytes, Bytes>,
    /// The column families, in the order of their names.
    pub families: Vec<FamilyDescriptor>,
    /// Settings of the older `CONFIGURATION` section. HBase stores settings that a client sends
    /// here as attributes, and returns them as such.
    pub configuration: BTreeMap<String, String>,
}

/// A column family: name and attributes such as `VERSIONS` or `TTL`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyDescriptor {
    /// The family's name.
    pub name: Bytes,
    /// Its attributes. A missing attribute has HBase's default.
    pub attributes: BTreeMap<Bytes, Bytes>,
    /// Its `CONFIGURATION`: settings of the servers for this family alone, such as
    /// `RowPrefixBloomFilter.prefix_length`.
    pub configuration: BTreeMap<String, String>,
}

/// The state of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableState {
    /// In use.
    Enabled,
    /// Offline.
    Disabled,
    /// Going offline.
    Disabling,
    /// Coming into use.
    Enabling,
}

impl fmt::Display for TableState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Disabling => "disabling",
            Self::Enabling => "enabling",
        })
    }
}

/// The class of the endpoint for multi-row transactions, which is part of every HBase server.
const ENDPOINT: &str = "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint";
/// The priority of system coprocessors, with which HBase itself loads this endpoint.
const SYSTEM_PRIORITY: &str = "536870911";

impl From<TableName> for TableDescriptor {
    /// A descriptor without families or attributes.
    fn from(name: TableName) -> Self {
        Self {
            name,
            attributes: BTreeMap::new(),
            families: Vec::new(),
            configuration: BTreeMap::new(),
        }
    }
}

impl TableDescriptor {
    /// Creates a descriptor without families or attributes.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not the name of a table.
    pub fn new(name: impl IntoTableName) -> Result<Self> {
        name.into_table_name().map(Self::from)
    }

    /// Adds a family, or replaces the family of that name.
    #[must_use]
    pub fn with_family(mut self, family: FamilyDescriptor) -> Self {
        self.families.retain(|existing| existing.name != family.name);
        self.families.push(family);
        self.families.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    /// Sets an attribute.
    #[must_use]
    pub fn with_attribute(mut self, key: impl IntoBytes, value: impl IntoBytes) -> Self {
        self.attributes.insert(key.into_bytes(), value.into_bytes());
        self
    }

    /// Attaches `MultiRowMutationEndpoint`, which is part of every HBase server, unless it is
    /// attached already.
    #[must_use]
    pub fn with_multi_row_mutation_endpoint(self) -> Self {
        if self.names_multi_row_mutation_endpoint() {
            return self;
        }
        let taken: Vec<u32> = self.coprocessors().map(|(number, _)| number).collect();
        let free = (1..).find(|number| !taken.contains(number)).unwrap_or(1);
        self.with_attribute(
            format!("coprocessor${free}"),
            format!("|{ENDPOINT}|{SYSTEM_PRIORITY}|"),
        )
    }

    /// Returns whether the descriptor names `MultiRowMutationEndpoint`. A server can load it for
    /// all tables, and can be configured to ignore coprocessors of tables: only a call proves that
    /// it answers.
    #[must_use]
    pub fn names_multi_row_mutation_endpoint(&self) -> bool {
        self.coprocessors().any(|(_, class)| class == ENDPOINT)
    }

    /// Checks for a descriptor that the master would reject: a table without families, or a family
    /// with an invalid name.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput), with the family.
    pub fn check(&self) -> Result<()> {
        if self.families.is_empty() {
            return Err(Error::invalid("a table without column families"));
        }
        self.families.iter().try_for_each(FamilyDescriptor::check)
    }

    /// Returns the family of this name.
    #[must_use]
    pub fn family(&self, name: impl AsRef<[u8]>) -> Option<&FamilyDescriptor> {
        self.families.iter().find(|family| family.name == name.as_ref())
    }

    /// Returns an attribute as text.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .get(key.as_bytes())
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Returns the durability of writes that don't specify one:
    /// [`UseDefault`](Durability::UseDefault) if the table leaves it to its region servers.
    #[must_use]
    pub fn durability(&self) -> Durability {
        match self.attribute("DURABILITY") {
            Some("SKIP_WAL") => Durability::SkipWal,
            Some("ASYNC_WAL") => Durability::AsyncWal,
            Some("SYNC_WAL") => Durability::SyncWal,
            Some("FSYNC_WAL") => Durability::FsyncWal,
            _ => Durability::UseDefault,
        }
    }

    /// Returns the coprocessors attached to the table: number and class. Values are
    /// `path|class|priority|arguments`.
    fn coprocessors(&self) -> impl Iterator<Item = (u32, &str)> {
        self.attributes.iter().filter_map(|(key, value)| {
            let key = std::str::from_utf8(key).ok()?;
            // HBase matches the key case-insensitively.
            let number = key
                .get(..12)
                .filter(|start| start.eq_ignore_ascii_case("coprocessor$"))?
                .len();
            let class = std::str::from_utf8(value).ok()?.split('|').nth(1)?;
            Some((key[number..].parse().ok()?, class.trim()))
        })
    }
}

impl FamilyDescriptor {
    /// Creates a family with HBase's defaults.
    #[must_use]
    pub fn new(name: impl IntoBytes) -> Self {
        Self {
            name: name.into_bytes(),
            attributes: BTreeMap::new(),
            configuration: BTreeMap::new(),
        }
    }

    /// Sets an attribute.
    #[must_use]
    pub fn with_attribute(mut self, key: impl IntoBytes, value: impl IntoBytes) -> Self {
        self.attributes.insert(key.into_bytes(), value.into_bytes());
        self
    }

    /// Adds a setting of the family's `CONFIGURATION`.
    #[must_use]
    pub fn with_configuration(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.configuration.insert(key.into(), value.into());
        self
    }

    /// Returns an attribute as text.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .get(key.as_bytes())
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Checks for a name that the master would reject.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput), with the family.
    pub fn check(&self) -> Result<()> {
        let name = &self.name;
        let illegal = |byte: &u8| matches!(byte, b':' | b'/' | b'\\') || byte.is_ascii_control();
        if name.is_empty()
            || name.starts_with(b".")
            || name.iter().any(illegal)
            || name.len() > i8::MAX as usize
        {
            return Err(Error::invalid(format!(
                "{:?} can't be a column family: a name has 1 to 127 bytes, does not begin with a dot, and has no colon, \
                 slash, backslash or control character",
                BytesBinary(name)
            )));
        }
        Ok(())
    }

    /// Returns the TTL of the family, or `None` if its cells do not expire.
    pub fn time_to_live(&self) -> Option<Duration> {
        /// HBase's value for no TTL, in seconds.
        const FOREVER: u64 = i32::MAX as u64;
        let seconds = self.attribute("TTL")?.parse::<u64>().ok()?;
        (seconds < FOREVER).then(|| Duration::from_secs(seconds))
    }
}

impl fmt::Display for FamilyDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", BytesBinary(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableDescriptor {
        TableDescriptor::new("t").unwrap()
    }

    #[test]
    fn a_family_that_hbase_does_not_take_is_refused_by_name() {
        assert!(table().check().is_err());
        for name in ["", ".f", "f:x", "a/b", "a\\b", "a\nb"] {
            let error = table()
                .with_family(FamilyDescriptor::new(name))
                .check()
                .unwrap_err();
            assert!(error.to_string().contains("can't be a column family"), "{error}");
        }
        table()
            .with_family(FamilyDescriptor::new("_f.g-1"))
            .check()
            .unwrap();
    }

    #[test]
    fn familys_ttl_limits_its_cells_unless_it_is_forever() {
        let ttl = |seconds: &str| {
            FamilyDescriptor::new("D")
                .with_attribute("TTL", seconds.to_owned())
                .time_to_live()
        };
        assert_eq!(ttl("60"), Some(Duration::from_secs(60)));
        assert_eq!(ttl("2147483647"), None);
        assert_eq!(ttl("FOREVER"), None);
    }

    #[test]
    fn the_endpoint_takes_the_next_free_number_and_is_attached_once() {
        let descriptor = table()
            .with_attribute("coprocessor$1", "|org.example.Other|1|")
            .with_multi_row_mutation_endpoint()
            .with_multi_row_mutation_endpoint();
        assert_eq!(
            descriptor.attribute("coprocessor$2"),
            Some("|org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint|536870911|")
        );
        assert_eq!(descriptor.attributes.len(), 2);
    }

    #[test]
    fn an_endpoint_attached_with_a_path_or_another_case_is_seen() {
        let descriptor = table().with_attribute("Coprocessor$7", format!("hdfs:///x.jar|{ENDPOINT}||a=b"));
        assert!(descriptor.names_multi_row_mutation_endpoint());
        assert!(
            !table()
                .with_attribute("coprocessor$1", "|")
                .names_multi_row_mutation_endpoint()
        );
    }
}
