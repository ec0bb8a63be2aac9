//! How the rows of a table are divided into partitions.

#[cfg(feature = "client")]
use hbase_client::PartitionRule;

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

#[cfg(feature = "client")]
impl From<PartitionRule> for Partitions {
    fn from(rule: PartitionRule) -> Self {
        match rule {
            PartitionRule::PrefixLength(length) => Self::PrefixLength(length.get()),
            PartitionRule::Delimiter(delimiter) => {
                Self::Delimiter(String::from_utf8_lossy(&delimiter).into_owned())
            }
        }
    }
}

#[cfg(all(test, feature = "client"))]
mod tests {
    use hbase_client::TableDescriptor;

    use super::*;

    #[test]
    fn attributes_are_those_that_the_client_reads() {
        let read = |partitions: Partitions| {
            let table = TableDescriptor::new("orders").unwrap();
            let table = partitions
                .attributes()
                .into_iter()
                .fold(table, |table, (name, value)| table.with_attribute(name, value));
            PartitionRule::from_descriptor(&table).unwrap()
        };
        let (by_length, by_delimiter) = (
            PartitionRule::prefix_length(3).unwrap(),
            PartitionRule::delimiter("/").unwrap(),
        );
        assert_eq!(read(3.into()), by_length);
        assert_eq!(read("/".into()), by_delimiter);
        assert_eq!(Partitions::from(by_length.clone()), 3.into());
        assert_eq!(read(by_delimiter.clone().into()), by_delimiter);
    }
}
