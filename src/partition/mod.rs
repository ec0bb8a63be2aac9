//! Partitions: rows of one prefix, which can change together.
//!
//! By a *partition rule*, HBase keeps the rows of one prefix in one region; a *partition* is all
//! rows of one prefix. The rule here must cut rows exactly as the server's split restriction does.
//! Otherwise the client would promise transactions on rows that a split may separate.

use std::{
    fmt,
    hash::{Hash, Hasher},
    num::NonZeroUsize,
};

use bytes::{BufMut, Bytes, BytesMut};
use hbase_client::{BytesBinary, IntoBytes, RegionInfo, TableDescriptor, low_level::key_after_prefix};

use crate::error::{Error, ErrorKind, Result};

/// How the prefix of a row is derived: its first bytes, or the bytes before a delimiter.
///
/// # Example
///
/// ```
/// use hbase_txn::PartitionRule;
///
/// let by_length = PartitionRule::prefix_length(3).unwrap();
/// assert_eq!(by_length.partition_of("xxxabc"), by_length.partition_of("xxxzzz"));
///
/// let by_delimiter = PartitionRule::delimiter("/").unwrap();
/// assert_eq!(by_delimiter.partition_of("cust42/order/7").prefix(), "cust42");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum PartitionRule {
    /// The first bytes of the row. A shorter row is a partition of its own.
    PrefixLength(NonZeroUsize),
    /// The bytes before the first delimiter. A row without it is a partition of its own. Never
    /// empty.
    Delimiter(Bytes),
}

/// All rows of one prefix, which can change together. The prefix does not include the delimiter.
///
/// A row that the rule cannot cut (shorter than the length, or without the delimiter) is its own
/// partition, even if another partition has the same bytes as its prefix: the row `abc` is not part
/// of the partition `abc` of `abc/1`, because a region may begin between them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    prefix: Bytes,
    /// The first bytes of every row of the partition: the prefix, and the delimiter if there is
    /// one.
    start: Bytes,
    lone_row: bool,
}

/// Follows the first key of a partition in the keys of the library's own rows.
const RESERVED: &[u8] = b"\xff_txn\xff";

const RESTRICTION_TYPE: &str = "hbase.regionserver.region.split_restriction.type";
const RESTRICTION_LENGTH: &str = "hbase.regionserver.region.split_restriction.prefix_length";
const RESTRICTION_DELIMITER: &str = "hbase.regionserver.region.split_restriction.delimiter";
const SPLIT_POLICY: &str = "SPLIT_POLICY";
const POLICY_PACKAGE: &str = "org.apache.hadoop.hbase.regionserver.";
const LENGTH_POLICY: &str = "KeyPrefixRegionSplitPolicy";
const LENGTH_POLICY_LENGTH: &str = "KeyPrefixRegionSplitPolicy.prefix_length";
const LENGTH_POLICY_OLD_LENGTH: &str = "prefix_split_key_policy.prefix_length";
const DELIMITER_POLICY: &str = "DelimitedKeyPrefixRegionSplitPolicy";
const DELIMITER_POLICY_DELIMITER: &str = "DelimitedKeyPrefixRegionSplitPolicy.delimiter";

impl PartitionRule {
    /// Creates a rule by the first bytes of a row.
    ///
    /// # Errors
    ///
    /// Returns an error for length 0, and for lengths that no row can have.
    pub fn prefix_length(length: usize) -> Result<Self> {
        NonZeroUsize::new(length)
            .filter(|length| length.get() <= i16::MAX as usize)
            .map(Self::PrefixLength)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "a prefix length of {length}; it is from 1 to {}",
                    i16::MAX
                ))
            })
    }

    /// Creates a rule by a delimiter.
    ///
    /// # Errors
    ///
    /// Returns an error for an empty delimiter, and for bytes that are not UTF-8: HBase stores the
    /// delimiter as text.
    pub fn delimiter(delimiter: impl IntoBytes) -> Result<Self> {
        let delimiter = delimiter.into_bytes();
        if delimiter.is_empty() {
            return Err(Error::invalid("an empty delimiter"));
        }
        if std::str::from_utf8(&delimiter).is_err() {
            return Err(Error::invalid(format!(
                "delimiter {} is not UTF-8, and HBase keeps it as text",
                BytesBinary(&delimiter)
            )));
        }
        Ok(Self::Delimiter(delimiter))
    }

    /// Reads the rule of a table from its descriptor: its split restriction, or else one of the two
    /// older policies.
    ///
    /// HBase silently accepts a misspelt or incomplete rule and then splits at any row. Here such a
    /// rule is an error.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NoPartitionRule`], with the attribute that is missing or wrong.
    pub fn from_descriptor(table: &TableDescriptor) -> Result<Self> {
        let rule = match table.attribute(RESTRICTION_TYPE) {
            Some("KeyPrefix") => length_attribute(table, &[RESTRICTION_LENGTH]),
            Some("DelimitedKeyPrefix") => delimiter_attribute(table, RESTRICTION_DELIMITER),
            None | Some("None") => match table.attribute(SPLIT_POLICY).map(policy_name) {
                Some(LENGTH_POLICY) => {
                    length_attribute(table, &[LENGTH_POLICY_LENGTH, LENGTH_POLICY_OLD_LENGTH])
                }
                Some(DELIMITER_POLICY) => delimiter_attribute(table, DELIMITER_POLICY_DELIMITER),
                _ => Err(no_rule("the table has no partition rule".into())),
            },
            Some(other) => Err(no_rule(format!(
                "{RESTRICTION_TYPE} is {other:?}, which HBase takes for None; it is KeyPrefix or DelimitedKeyPrefix"
            ))),
        };
        rule.map_err(|error| {
            error.at_table(&table.name).with_hint(
                "create a table with a rule, or, if the rows of this one have prefixes, set a rule",
            )
        })
    }

    /// Returns the table attributes of this rule: the split restriction, and the older policy for
    /// servers without it.
    #[must_use]
    pub fn attributes(&self) -> Vec<(&'static str, String)> {
        let (kind, argument_key, policy, policy_key, argument) = match self {
            Self::PrefixLength(length) => (
                "KeyPrefix",
                RESTRICTION_LENGTH,
                LENGTH_POLICY,
                LENGTH_POLICY_LENGTH,
                length.to_string(),
            ),
            Self::Delimiter(delimiter) => (
                "DelimitedKeyPrefix",
                RESTRICTION_DELIMITER,
                DELIMITER_POLICY,
                DELIMITER_POLICY_DELIMITER,
                String::from_utf8_lossy(delimiter).into_owned(),
            ),
        };
        vec![
            (RESTRICTION_TYPE, kind.to_owned()),
            (argument_key, argument.clone()),
            (SPLIT_POLICY, format!("{POLICY_PACKAGE}{policy}")),
            (policy_key, argument),
        ]
    }

    /// Returns the partition of a row.
    #[must_use]
    pub fn partition_of(&self, row: impl IntoBytes) -> Partition {
        let row = &row.into_bytes();
        let cut = match self {
            Self::PrefixLength(length) if length.get() <= row.len() => Some((length.get(), length.get())),
            Self::PrefixLength(_) => None,
            Self::Delimiter(delimiter) => find(row, delimiter).map(|at| (at, at + delimiter.len())),
        };
        match cut {
            Some((prefix, start)) => Partition {
                prefix: row.slice(..prefix),
                start: row.slice(..start),
                lone_row: false,
            },
            None => Partition {
                prefix: row.clone(),
                start: row.clone(),
                lone_row: true,
            },
        }
    }

    /// Returns the partition of a bare prefix, whether or not any row has it.
    ///
    /// # Errors
    ///
    /// Returns an error for a prefix that the rule would not derive: an empty one, one longer than
    /// the length, or one that contains the delimiter. A prefix shorter than the length is the row
    /// of exactly these bytes.
    pub fn partition(&self, prefix: impl IntoBytes) -> Result<Partition> {
        let prefix = prefix.into_bytes();
        let shown = BytesBinary(&prefix).to_string();
        if prefix.is_empty() {
            return Err(Error::invalid("an empty partition prefix"));
        }
        match self {
            Self::PrefixLength(length) if prefix.len() > length.get() => Err(Error::invalid(format!(
                "prefix {shown} has {} bytes; this table's partitions have {length}",
                prefix.len()
            ))),
            Self::PrefixLength(_) => Ok(self.partition_of(&prefix)),
            Self::Delimiter(delimiter) if find(&prefix, delimiter).is_some() => Err(Error::invalid(format!(
                "prefix {shown} holds the delimiter {}; name the partition without it",
                BytesBinary(delimiter)
            ))),
            Self::Delimiter(delimiter) => {
                let mut start = BytesMut::with_capacity(prefix.len() + delimiter.len());
                start.put_slice(&prefix);
                start.put_slice(delimiter);
                if find(&start, delimiter) != Some(prefix.len()) {
                    return Err(Error::invalid(format!(
                        "no row is in a partition {shown}: with the delimiter {} behind it, it is cut earlier",
                        BytesBinary(delimiter)
                    )));
                }
                Ok(Partition {
                    prefix,
                    start: start.freeze(),
                    lone_row: false,
                })
            }
        }
    }

    /// Returns the partition that a region boundary cuts in two, if it cuts one.
    #[must_use]
    pub fn partition_cut_by(&self, boundary: impl IntoBytes) -> Option<Partition> {
        let boundary = &boundary.into_bytes();
        let partition = self.partition_of(boundary);
        (!partition.lone_row && partition.start.len() < boundary.len()).then_some(partition)
    }

    /// Checks that a split key of a table does not cut a partition in two.
    ///
    /// # Errors
    ///
    /// Returns [`PartitionCut`](ErrorKind::PartitionCut), with the key to split at instead.
    pub fn check_boundary(&self, boundary: impl IntoBytes) -> Result<()> {
        let boundary = &boundary.into_bytes();
        let Some(partition) = self.partition_cut_by(boundary) else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::PartitionCut,
            format!(
                "split key {} cuts partition {partition} in two: a partition is {self}; split at {} instead",
                BytesBinary(boundary),
                BytesBinary(&partition.start)
            ),
        ))
    }
}

// The other fields rarely tell apart what this one does not, and each commit hashes its partition.
impl Hash for Partition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.start.hash(state);
    }
}

impl Partition {
    /// Returns the prefix, without the delimiter.
    #[must_use]
    pub fn prefix(&self) -> &Bytes {
        &self.prefix
    }

    /// Returns whether the partition is one row that the rule cannot cut.
    #[must_use]
    pub fn is_lone_row(&self) -> bool {
        self.lone_row
    }

    /// Returns the first key that a row of the partition can have, by which the partition is
    /// located.
    #[must_use]
    pub fn first_key(&self) -> &Bytes {
        &self.start
    }

    /// Returns whether a row key belongs to the partition. The row need not exist.
    #[must_use]
    pub fn contains(&self, row: impl AsRef<[u8]>) -> bool {
        let row = row.as_ref();
        if self.lone_row {
            self.start == row
        } else {
            // The rule cuts every row with this beginning at the same position.
            row.starts_with(&self.start)
        }
    }

    /// Returns the key of a row that the library keeps in the partition: the first key,
    /// `\xFF_txn\xFF`, and a suffix for its purpose. The row is in the region of the partition, its
    /// key follows from the prefix, and no key of printable text is equal to it. Returns `None` for
    /// a partition of one row, because every other key is in another partition, and if the key
    /// would be too long.
    #[must_use]
    pub fn reserved_row(&self, what: impl AsRef<[u8]>) -> Option<Bytes> {
        let what = what.as_ref();
        let fits = self.start.len() + RESERVED.len() + what.len() <= i16::MAX as usize;
        (!self.lone_row && fits).then(|| [&self.start[..], RESERVED, what].concat().into())
    }

    /// Returns whether a row of the partition belongs to the library.
    pub fn reserves(&self, row: &[u8]) -> bool {
        let behind = row.strip_prefix(&self.start[..]);
        !self.lone_row && behind.is_some_and(|behind| behind.starts_with(RESERVED))
    }

    /// Returns the first key after every row that the partition can have, or an empty key if there
    /// is none.
    #[must_use]
    pub fn key_behind(&self) -> Bytes {
        if self.lone_row {
            [&self.start[..], &[0]].concat().into()
        } else {
            key_after_prefix(&self.start)
        }
    }

    /// Returns whether this region contains every row that the partition can have.
    #[must_use]
    pub fn is_whole_in(&self, region: &RegionInfo) -> bool {
        // An end that is after the first key, and does not begin with it, is after all rows.
        region.contains(&self.start) && (self.lone_row || !region.end_key.starts_with(&self.start))
    }

    /// Adds the partition to the error of an operation, unless the error names one of its rows.
    pub(crate) fn in_context(&self, error: Error) -> Error {
        let prefix = BytesBinary(&self.prefix);
        if self.lone_row {
            error.at_row(&prefix)
        } else {
            error.at_partition(&prefix, &BytesBinary(&self.start))
        }
    }
}

impl fmt::Display for PartitionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrefixLength(NonZeroUsize::MIN) => f.write_str("the first byte"),
            Self::PrefixLength(length) => write!(f, "the first {length} bytes"),
            Self::Delimiter(delimiter) => write!(f, "the bytes before the first {}", BytesBinary(delimiter)),
        }
    }
}

impl fmt::Debug for PartitionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionRule({self})")
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", BytesBinary(&self.prefix))?;
        if self.lone_row {
            f.write_str(" (a row of its own)")
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({self})")
    }
}

fn find(row: &[u8], delimiter: &[u8]) -> Option<usize> {
    row.windows(delimiter.len())
        .position(|window| window == delimiter)
}

fn policy_name(class: &str) -> &str {
    class.strip_prefix(POLICY_PACKAGE).unwrap_or(class)
}

fn no_rule(what: String) -> Error {
    Error::new(ErrorKind::NoPartitionRule, what)
}

/// Returns the length in the first of these keys that is set; HBase reads them in this order.
fn length_attribute(table: &TableDescriptor, keys: &[&str]) -> Result<PartitionRule> {
    let Some((key, value)) = keys.iter().find_map(|key| Some((key, table.attribute(key)?))) else {
        return Err(no_rule(format!(
            "the rule is a prefix length, but {} is not set",
            keys[0]
        )));
    };
    value
        .parse()
        .ok()
        .and_then(|length| PartitionRule::prefix_length(length).ok())
        .ok_or_else(|| {
            no_rule(format!(
                "{key} is {value:?}, which is no prefix length from 1 to {}",
                i16::MAX
            ))
        })
}

fn delimiter_attribute(table: &TableDescriptor, key: &str) -> Result<PartitionRule> {
    match table.attributes.get(key.as_bytes()) {
        Some(delimiter) if delimiter.is_empty() => Err(no_rule(format!("{key} is empty"))),
        // HBase reads the delimiter as text, and so would use other bytes than these if they are
        // not UTF-8.
        Some(delimiter) => PartitionRule::delimiter(delimiter.clone())
            .map_err(|_| no_rule(format!("{key} is {}, which is not UTF-8", BytesBinary(delimiter)))),
        None => Err(no_rule(format!("the rule is a delimiter, but {key} is not set"))),
    }
}

#[cfg(test)]
mod tests;
