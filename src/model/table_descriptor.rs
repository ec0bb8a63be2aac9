//! What a table is: its families, and its attributes.

use std::{collections::BTreeMap, fmt, time::Duration};

use bytes::Bytes;

use super::{BytesBinary, Durability, PartitionRule, TableName};
use crate::error::{Error, ErrorKind, Result};

/// A table's descriptor: name, families, attributes. HBase keeps attributes as text in bytes.
///
/// # Example
///
/// A table for transactions, as `hbase-txn table create` makes it:
///
/// ```
/// use hbase_txn::{FamilyDescriptor, PartitionRule, TableDescriptor};
///
/// let orders = TableDescriptor::new("orders".parse().unwrap())
///     .with_family(FamilyDescriptor::new("f"))
///     .with_partition_rule(&PartitionRule::prefix_length(3).unwrap())
///     .with_multi_row_mutation_endpoint()
///     .with_record_family();
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
    /// Settings of the older `CONFIGURATION` section. HBase takes what is sent here for attributes, and answers so.
    pub configuration: BTreeMap<String, String>,
}

/// A column family: name and attributes such as `VERSIONS` or `TTL`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyDescriptor {
    /// The family's name.
    pub name: Bytes,
    /// Its attributes; what is missing has HBase's default.
    pub attributes: BTreeMap<Bytes, Bytes>,
    /// Settings of the older `CONFIGURATION` section.
    pub configuration: BTreeMap<String, String>,
}

/// Whether a table is there to be used.
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

/// The class of the endpoint that makes multi-row transactions; it is in every HBase server.
const ENDPOINT: &str = "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint";
/// The priority of system coprocessors, which HBase itself gives this endpoint where it uses it.
const SYSTEM_PRIORITY: &str = "536870911";

/// How long a transaction's record outlives its replay window, in seconds: two days.
const RECORD_TTL: &str = "172800";
/// A family with a shorter TTL could lose records that are still asked for.
const SHORTEST_RECORD_TTL: u64 = 3_600;
/// A commit, and what clocks may differ, must fit into the replay window: five minutes.
const SHORTEST_REPLAY_WINDOW: u32 = 300;
/// The replay window of a table that names none: a day.
const DEFAULT_REPLAY_WINDOW: Duration = Duration::from_secs(24 * 3_600);

impl TableDescriptor {
    /// The family that is reserved for the records of transactions.
    pub const RECORD_FAMILY: &'static str = "_txn";
    /// The family that is reserved for the version cells of partitions.
    pub const VERSION_FAMILY: &'static str = "_version";
    /// The family that is reserved for locks in partitions.
    pub const LOCK_FAMILY: &'static str = "_lock";
    /// Families that are kept for the toolkit, and what each is for.
    pub const RESERVED_FAMILIES: [(&'static str, &'static str); 3] = [
        (Self::RECORD_FAMILY, "the records of transactions"),
        (Self::VERSION_FAMILY, "the versions of partitions"),
        (Self::LOCK_FAMILY, "locks in partitions"),
    ];
    /// The attribute that says, as `true`, that every transaction of the table changes its partition's version cell.
    pub const PARTITION_VERSION: &'static str = "hbase-txn.partition-version";

    /// The attribute with the table's replay window: how long a transaction's record is sure to be found, in whole
    /// seconds. 86,400, a day, where there is none; 300 at least.
    pub const REPLAY_WINDOW: &'static str = "hbase-txn.replay-window.seconds";

    /// A descriptor without families or attributes.
    #[must_use]
    pub fn new(name: TableName) -> Self {
        Self {
            name,
            attributes: BTreeMap::new(),
            families: Vec::new(),
            configuration: BTreeMap::new(),
        }
    }

    /// Adds a family, or replaces the one of that name.
    #[must_use]
    pub fn with_family(mut self, family: FamilyDescriptor) -> Self {
        self.families.retain(|existing| existing.name != family.name);
        self.families.push(family);
        self.families.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    /// Sets an attribute.
    #[must_use]
    pub fn with_attribute(mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.attributes.insert(key.into(), value.into());
        self
    }

    /// States a partition rule: the split restriction, and the older policy for servers without it.
    #[must_use]
    pub fn with_partition_rule(mut self, rule: &PartitionRule) -> Self {
        for (key, value) in rule.attributes() {
            self = self.with_attribute(key, value);
        }
        self
    }

    /// Attaches `MultiRowMutationEndpoint`, which every HBase server ships, unless it is attached already.
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

    /// Adds the family that transactions with a record need, [`RECORD_FAMILY`](Self::RECORD_FAMILY), or gives it the
    /// settings that they need.
    ///
    /// One version, because a record is overwritten as its transaction goes on; a TTL, because nobody deletes it;
    /// `NEW_VERSION_BEHAVIOR`, so that a delete marker does not hide a record that is written after it.
    #[must_use]
    pub fn with_record_family(self) -> Self {
        let family = self
            .family(Self::RECORD_FAMILY)
            .cloned()
            .unwrap_or_else(|| FamilyDescriptor::new(Self::RECORD_FAMILY));
        self.with_family(
            family
                .with_attribute("VERSIONS", "1")
                .with_attribute("TTL", RECORD_TTL)
                .with_attribute("NEW_VERSION_BEHAVIOR", "true"),
        )
    }

    /// Gives each partition a version cell, which every transaction of this toolkit changes: adds the family
    /// [`VERSION_FAMILY`](Self::VERSION_FAMILY), and says so in the attribute
    /// [`PARTITION_VERSION`](Self::PARTITION_VERSION).
    ///
    /// With it a read-modify-write notices whatever another one changed in the partition, rows and columns that were added
    /// meanwhile included; without it, what it read. The price is one more cell in each transaction, and that
    /// any two of one partition that overlap in time are in each other's way. Tables that are open do not notice a
    /// change of this; open them again before the first use that counts on it.
    #[must_use]
    pub fn with_partition_version(self) -> Self {
        let family = self
            .family(Self::VERSION_FAMILY)
            .cloned()
            .unwrap_or_else(|| FamilyDescriptor::new(Self::VERSION_FAMILY));
        self.with_family(family.with_attribute("VERSIONS", "1"))
            .with_attribute(Self::PARTITION_VERSION, "true")
    }

    /// Whether every transaction of the table changes its partition's version cell.
    #[must_use]
    pub fn has_partition_version(&self) -> bool {
        self.attribute(Self::PARTITION_VERSION)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Adds the family that locks in partitions need, [`LOCK_FAMILY`](Self::LOCK_FAMILY), or gives it the setting that they
    /// need: one version.
    ///
    /// No TTL, because each lock brings its own; and no `NEW_VERSION_BEHAVIOR`, by which a lock that is acquired often becomes
    /// slower and slower.
    #[must_use]
    pub fn with_lock_family(self) -> Self {
        let family = self
            .family(Self::LOCK_FAMILY)
            .cloned()
            .unwrap_or_else(|| FamilyDescriptor::new(Self::LOCK_FAMILY));
        self.with_family(family.with_attribute("VERSIONS", "1"))
    }

    /// Whether a family is kept for the toolkit itself.
    pub(crate) fn reserves_family(family: &[u8]) -> bool {
        Self::RESERVED_FAMILIES
            .iter()
            .any(|(kept, _)| kept.as_bytes() == family)
    }

    /// How long a transaction's record is sure to be found; none without the family for records. Shorten it only when
    /// no client has the table open, and no older transaction will be asked about.
    ///
    /// # Errors
    ///
    /// [`RecordFamilyMissing`](ErrorKind::RecordFamilyMissing) for a family that would lose records, and an attribute
    /// [`REPLAY_WINDOW`](Self::REPLAY_WINDOW) that is no number of seconds, or too small a one.
    pub fn replay_window(&self) -> Result<Option<Duration>> {
        let Some(family) = self.family(Self::RECORD_FAMILY) else {
            return Ok(None);
        };
        let bad = |what: String| Error::new(ErrorKind::RecordFamilyMissing, what).at_table(&self.name);
        if let Some(ttl) = family.attribute("TTL")
            && ttl.parse::<u64>().is_ok_and(|ttl| ttl < SHORTEST_RECORD_TTL)
        {
            return Err(bad(format!(
                "family {} forgets records after {ttl} s; it must keep them for {SHORTEST_RECORD_TTL} s at least",
                Self::RECORD_FAMILY
            )));
        }
        match self.attribute(Self::REPLAY_WINDOW) {
            None => Ok(Some(DEFAULT_REPLAY_WINDOW)),
            Some(text) => match text.parse::<u32>() {
                Ok(seconds) if seconds >= SHORTEST_REPLAY_WINDOW => {
                    Ok(Some(Duration::from_secs(seconds.into())))
                }
                _ => Err(bad(format!(
                    "attribute {} is {text:?}; it is a number of seconds, {SHORTEST_REPLAY_WINDOW} at least",
                    Self::REPLAY_WINDOW
                ))),
            },
        }
    }

    /// Whether the descriptor names `MultiRowMutationEndpoint`. A server may load it for all tables as well, and
    /// may have been told to ignore tables' own coprocessors: only a call proves that it answers.
    #[must_use]
    pub fn names_multi_row_mutation_endpoint(&self) -> bool {
        self.coprocessors().any(|(_, class)| class == ENDPOINT)
    }

    /// Refuses a table that the master would refuse: one without families, or with a family whose name HBase does not
    /// take.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput), naming the family.
    pub(crate) fn check(&self) -> Result<()> {
        if self.families.is_empty() {
            return Err(Error::invalid("a table without column families"));
        }
        self.families.iter().try_for_each(FamilyDescriptor::check)
    }

    /// The family of this name.
    #[must_use]
    pub fn family(&self, name: impl AsRef<[u8]>) -> Option<&FamilyDescriptor> {
        self.families.iter().find(|family| family.name == name.as_ref())
    }

    /// An attribute, as text.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .get(key.as_bytes())
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The durability of writes that don't name one.
    #[must_use]
    pub fn durability(&self) -> Durability {
        match self.attribute("DURABILITY") {
            Some("SKIP_WAL") => Durability::SkipWal,
            Some("ASYNC_WAL") => Durability::AsyncWal,
            Some("FSYNC_WAL") => Durability::FsyncWal,
            _ => Durability::SyncWal,
        }
    }

    /// The coprocessors attached to the table: number and class. Values are `path|class|priority|arguments`.
    fn coprocessors(&self) -> impl Iterator<Item = (u32, &str)> {
        self.attributes.iter().filter_map(|(key, value)| {
            let key = std::str::from_utf8(key).ok()?;
            // HBase matches the key without regard to case.
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
    /// A family with HBase's defaults.
    #[must_use]
    pub fn new(name: impl Into<Bytes>) -> Self {
        Self {
            name: name.into(),
            attributes: BTreeMap::new(),
            configuration: BTreeMap::new(),
        }
    }

    /// Sets an attribute.
    #[must_use]
    pub fn with_attribute(mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.attributes.insert(key.into(), value.into());
        self
    }

    /// An attribute, as text.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .get(key.as_bytes())
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Refuses a name that HBase does not take.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput), naming the family.
    pub(crate) fn check(&self) -> Result<()> {
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

    /// How long its cells live at most, from their timestamps; none when that is for ever.
    pub(crate) fn time_to_live(&self) -> Option<Duration> {
        /// HBase's "for ever", in seconds.
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
        TableDescriptor::new("t".parse().unwrap())
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
    fn a_familys_cells_live_as_long_as_its_ttl_unless_that_is_for_ever() {
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
    fn the_record_family_stands_beside_the_others_and_keeps_other_settings_of_its_own() {
        let own = FamilyDescriptor::new("_txn").with_attribute("COMPRESSION", "SNAPPY");
        let descriptor = table()
            .with_family(FamilyDescriptor::new("f"))
            .with_family(own)
            .with_record_family();
        let names: Vec<_> = descriptor.families.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["_txn", "f"]);
        let family = descriptor.family(TableDescriptor::RECORD_FAMILY).unwrap();
        assert_eq!(family.attribute("NEW_VERSION_BEHAVIOR"), Some("true"));
        assert_eq!(family.attribute("COMPRESSION"), Some("SNAPPY"));
    }

    #[test]
    fn the_lock_family_has_one_version_and_is_kept_for_the_toolkit() {
        let descriptor = table().with_lock_family();
        let family = descriptor.family(TableDescriptor::LOCK_FAMILY).unwrap();
        assert_eq!(family.attribute("VERSIONS"), Some("1"));
        assert_eq!(family.attribute("TTL"), None);
        for family in ["_txn", "_version", "_lock"] {
            assert!(TableDescriptor::reserves_family(family.as_bytes()));
        }
        assert!(!TableDescriptor::reserves_family(b"lock"));
    }

    #[test]
    fn the_version_of_partitions_is_a_family_and_an_attribute_that_says_true() {
        let descriptor = table().with_partition_version();
        assert!(descriptor.has_partition_version() && !table().has_partition_version());
        let family = descriptor.family(TableDescriptor::VERSION_FAMILY).unwrap();
        assert_eq!(family.attribute("VERSIONS"), Some("1"));
        let off = descriptor.with_attribute(TableDescriptor::PARTITION_VERSION, "false");
        assert!(!off.has_partition_version());
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
