//! How the rows of a table are divided into partitions.

const POLICY_PACKAGE: &str = "org.apache.hadoop.hbase.regionserver.";

/// The partitions of a table for [`create_partitioned_table`](super::FakeHBase::create_partitioned_table).
/// A number is a [`PrefixLength`](Self::PrefixLength), a text a [`Delimiter`](Self::Delimiter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// The rows that have their first so many bytes in common.
    PrefixLength(usize),
    /// The rows that have all bytes before the first delimiter in common.
    Delimiter(String),
}

impl Partitions {
    /// Returns the attributes of the table: the split restriction, and the split policy for servers
    /// without it.
    pub(super) fn attributes(&self) -> [(&'static str, String); 4] {
        let (restriction, argument, policy, policy_argument, value) = match self {
            Self::PrefixLength(length) => (
                "KeyPrefix",
                "hbase.regionserver.region.split_restriction.prefix_length",
                "KeyPrefixRegionSplitPolicy",
                "KeyPrefixRegionSplitPolicy.prefix_length",
                length.to_string(),
            ),
            Self::Delimiter(delimiter) => (
                "DelimitedKeyPrefix",
                "hbase.regionserver.region.split_restriction.delimiter",
                "DelimitedKeyPrefixRegionSplitPolicy",
                "DelimitedKeyPrefixRegionSplitPolicy.delimiter",
                delimiter.clone(),
            ),
        };
        [
            (
                "hbase.regionserver.region.split_restriction.type",
                restriction.to_owned(),
            ),
            (argument, value.clone()),
            ("SPLIT_POLICY", format!("{POLICY_PACKAGE}{policy}")),
            (policy_argument, value),
        ]
    }
}

impl From<usize> for Partitions {
    fn from(prefix_length: usize) -> Self {
        Self::PrefixLength(prefix_length)
    }
}

impl From<&str> for Partitions {
    fn from(delimiter: &str) -> Self {
        Self::Delimiter(delimiter.to_owned())
    }
}
