//! How a row's prefix decides which rows can change together.
//!
//! A *partition rule* is how HBase keeps rows of one prefix in one region; a *partition* is all rows of one
//! prefix. The rule here must cut rows exactly as the server's split restriction does, or a transaction would
//! be promised where a split may part its rows.

use std::{fmt, num::NonZeroUsize};

use bytes::{BufMut, Bytes, BytesMut};

use super::{BytesBinary, RegionInfo, TableDescriptor};
use crate::error::{Error, ErrorKind, Result};

/// How the prefix of a row is cut: the first bytes, or what stands before a delimiter.
///
/// # Example
///
/// ```
/// use hbase_txn::PartitionRule;
///
/// let by_length = PartitionRule::prefix_length(3).unwrap();
/// assert_eq!(by_length.partition_of(&"xxxabc".into()), by_length.partition_of(&"xxxzzz".into()));
///
/// let by_delimiter = PartitionRule::delimiter("/").unwrap();
/// assert_eq!(by_delimiter.partition_of(&"cust42/order/7".into()).prefix(), "cust42");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartitionRule {
    /// The first bytes of the row. A shorter row is a partition of its own.
    PrefixLength(NonZeroUsize),
    /// The bytes before the first delimiter. A row without it is a partition of its own. Never empty.
    Delimiter(Bytes),
}

/// All rows of one prefix: what can change together. The prefix is without the delimiter.
///
/// Rows that the rule can't cut (shorter than the length, or without the delimiter) are partitions of their own,
/// also where another partition has the same bytes for a prefix: the row `abc` is not part of the partition
/// `abc` of `abc/1`, because a region may begin between them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    prefix: Bytes,
    /// Begins every row of the partition; the prefix, and the delimiter where there is one.
    start: Bytes,
    lone_row: bool,
}

/// Stands behind the first key of a partition in the keys of the toolkit's own rows.
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
    /// The rule by the first bytes.
    ///
    /// # Errors
    ///
    /// Length 0, and lengths that no row can have.
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

    /// The rule by a delimiter.
    ///
    /// # Errors
    ///
    /// The empty delimiter, and bytes that are not UTF-8: HBase keeps the delimiter as text.
    pub fn delimiter(delimiter: impl Into<Bytes>) -> Result<Self> {
        let delimiter = delimiter.into();
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

    /// The rule that a table's descriptor states: its split restriction, else one of the two older policies.
    ///
    /// HBase takes a misspelt or incomplete rule without a word and then splits anywhere; here it is an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoPartitionRule`], naming the attribute and what mends it.
    pub fn from_descriptor(table: &TableDescriptor) -> Result<Self> {
        let rule = match table.attribute(RESTRICTION_TYPE) {
            Some("KeyPrefix") => length_attribute(table, &[RESTRICTION_LENGTH]),
            Some("DelimitedKeyPrefix") => delimiter_attribute(table, RESTRICTION_DELIMITER),
            None | Some("None") => match table.attribute(SPLIT_POLICY).map(policy_name) {
                Some(LENGTH_POLICY) => {
                    length_attribute(table, &[LENGTH_POLICY_LENGTH, LENGTH_POLICY_OLD_LENGTH])
                }
                Some(DELIMITER_POLICY) => delimiter_attribute(table, DELIMITER_POLICY_DELIMITER),
                _ => Err(no_rule(
                    "the table has neither a split restriction nor a prefix split policy".into(),
                )),
            },
            Some(other) => Err(no_rule(format!(
                "{RESTRICTION_TYPE} is {other:?}, which HBase takes for None; it is KeyPrefix or DelimitedKeyPrefix"
            ))),
        };
        rule.map_err(|error| {
            error.at_table(&table.name).with_hint(format!(
                "make a table with a rule: hbase-txn table create; or, where rows keep to prefixes already, state it: \
                 hbase-txn table alter {} --prefix-length N or --delimiter D",
                table.name
            ))
        })
    }

    /// The attributes that state this rule: the restriction, and the older policy for servers without it.
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

    /// The partition that a row belongs to.
    #[must_use]
    pub fn partition_of(&self, row: &Bytes) -> Partition {
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

    /// The partition of a bare prefix, whether or not any row has it.
    ///
    /// # Errors
    ///
    /// A prefix that the rule would not cut so: empty, longer than the length, or holding the delimiter. A prefix
    /// shorter than the length names the row of just these bytes.
    pub fn partition(&self, prefix: impl Into<Bytes>) -> Result<Partition> {
        let prefix = prefix.into();
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

    /// The partition that a region boundary cuts in two, if it cuts one.
    #[must_use]
    pub fn partition_cut_by(&self, boundary: &Bytes) -> Option<Partition> {
        let partition = self.partition_of(boundary);
        (!partition.lone_row && partition.start.len() < boundary.len()).then_some(partition)
    }

    /// Refuses a key to split a table at that would cut a partition in two.
    ///
    /// # Errors
    ///
    /// [`PartitionCut`](ErrorKind::PartitionCut), which says where to split instead.
    pub fn check_boundary(&self, boundary: &Bytes) -> Result<()> {
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

impl Partition {
    /// The prefix, without the delimiter.
    #[must_use]
    pub fn prefix(&self) -> &Bytes {
        &self.prefix
    }

    /// Whether this is one row that the rule can't cut.
    #[must_use]
    pub fn is_lone_row(&self) -> bool {
        self.lone_row
    }

    /// The first key that a row of the partition can have: where the partition is located.
    #[must_use]
    pub fn first_key(&self) -> &Bytes {
        &self.start
    }

    /// Whether a row is in the partition, whether or not it exists.
    #[must_use]
    pub fn contains(&self, row: &[u8]) -> bool {
        match self.lone_row {
            true => self.start == row,
            // The rule cuts every row that begins so where it cut this one.
            false => row.starts_with(&self.start),
        }
    }

    /// The key of a row that the toolkit keeps in the partition for itself: behind the first key `\xFF_txn\xFF`, and
    /// then what it is for. So it lies in the partition's region, is known from the prefix alone, and no key of printable
    /// text is like it. None for a row of its own: every other key is in another partition; and where no row key is long
    /// enough.
    #[must_use]
    pub fn reserved_row(&self, what: &[u8]) -> Option<Bytes> {
        let fits = self.start.len() + RESERVED.len() + what.len() <= i16::MAX as usize;
        (!self.lone_row && fits).then(|| [&self.start[..], RESERVED, what].concat().into())
    }

    /// Whether a row of the partition is one that the toolkit keeps for itself.
    pub(crate) fn reserves(&self, row: &[u8]) -> bool {
        let behind = row.strip_prefix(&self.start[..]);
        !self.lone_row && behind.is_some_and(|behind| behind.starts_with(RESERVED))
    }

    /// The first key that is behind every row that the partition can have; empty where there is none.
    #[must_use]
    pub fn key_behind(&self) -> Bytes {
        match self.lone_row {
            true => [&self.start[..], &[0]].concat().into(),
            false => key_after_prefix(&self.start),
        }
    }

    /// Whether every row that the partition has or may ever get lies in this region.
    #[must_use]
    pub fn is_whole_in(&self, region: &RegionInfo) -> bool {
        if self.lone_row {
            return region.contains(&self.start);
        }
        let after = key_after_prefix(&self.start);
        region.contains(&self.start)
            && (region.end_key.is_empty() || (!after.is_empty() && after <= region.end_key))
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

/// The first key behind all keys that begin with the prefix; empty when there is none.
pub(crate) fn key_after_prefix(prefix: &[u8]) -> Bytes {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut key = prefix[..=last].to_vec();
            key[last] += 1;
            key.into()
        }
        None => Bytes::new(),
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

/// The length under the first of these keys that is set; HBase reads them in this order.
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
        // HBase reads it as text, and so takes other bytes than these for the delimiter when they are none.
        Some(delimiter) => PartitionRule::delimiter(delimiter.clone())
            .map_err(|_| no_rule(format!("{key} is {}, which is not UTF-8", BytesBinary(delimiter)))),
        None => Err(no_rule(format!("the rule is a delimiter, but {key} is not set"))),
    }
}

#[cfg(test)]
mod tests;
