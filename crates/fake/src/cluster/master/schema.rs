//! Descriptors of tables as the master keeps them.

use bytes::Bytes;
use hbase_protocol as pb;

use crate::{
    cluster::world::World,
    exception::{Exception, Result},
    region::{Region, Release, RowOrder, attribute},
};

const POLICY: &str = "org.apache.hadoop.hbase.regionserver.";
/// The split policies that a server can load, by their names in [`POLICY`].
const POLICIES: [&str; 8] = [
    "BusyRegionSplitPolicy",
    "ConstantSizeRegionSplitPolicy",
    "DelimitedKeyPrefixRegionSplitPolicy",
    "DisabledRegionSplitPolicy",
    "IncreasingToUpperBoundRegionSplitPolicy",
    "KeyPrefixRegionSplitPolicy",
    "SteppingAllStoresSizeSplitPolicy",
    "SteppingSplitPolicy",
];

/// What the master adds to a column family that does not set it.
const FAMILY_DEFAULTS: [(&str, &str); 11] = [
    ("BLOCKCACHE", "true"),
    ("BLOCKSIZE", "65536"),
    ("BLOOMFILTER", "ROW"),
    ("COMPRESSION", "NONE"),
    ("DATA_BLOCK_ENCODING", "NONE"),
    ("IN_MEMORY", "false"),
    ("KEEP_DELETED_CELLS", "FALSE"),
    ("MIN_VERSIONS", "0"),
    ("REPLICATION_SCOPE", "0"),
    ("TTL", "2147483647"),
    ("VERSIONS", "1"),
];

impl World {
    /// Returns a descriptor with what the master adds to it, unless a region could not be opened with
    /// it.
    pub(super) fn checked_schema(&self, mut schema: pb::TableSchema) -> Result<pb::TableSchema> {
        let release = self.settings.release;
        if schema.column_families.is_empty() {
            return Err(Exception::do_not_retry(
                "Table should have at least one column family.",
            ));
        }
        // Settings of a table are kept as attributes.
        for setting in std::mem::take(&mut schema.configuration) {
            set(&mut schema.attributes, &setting.name, &setting.value);
        }
        set(&mut schema.attributes, "IS_META", "false");
        if release >= Release::V2_6 {
            set(&mut schema.attributes, "hbase.store.file-tracker.impl", "DEFAULT");
        }
        for family in &mut schema.column_families {
            for (name, value) in FAMILY_DEFAULTS {
                set(&mut family.attributes, name, value);
            }
            if release >= Release::V2_6 {
                set(&mut family.attributes, "INDEX_BLOCK_ENCODING", "NONE");
            }
        }
        check_split_policy(&schema)?;
        check_bloom_filters(&schema)?;
        Region::new(&schema, Bytes::new(), Bytes::new(), RowOrder::Bytes, release)?;
        Ok(schema)
    }
}

/// Sets an attribute unless it is set.
fn set(attributes: &mut Vec<pb::BytesBytesPair>, name: &str, value: &str) {
    if attributes
        .iter()
        .all(|attribute| attribute.first != name.as_bytes())
    {
        attributes.push(pb::BytesBytesPair {
            first: Bytes::copy_from_slice(name.as_bytes()),
            second: Bytes::copy_from_slice(value.as_bytes()),
        });
    }
}

/// `TableDescriptorChecker.checkBloomFilterType`.
fn check_bloom_filters(schema: &pb::TableSchema) -> Result<()> {
    for family in &schema.column_families {
        let mut attributes = family.attributes.iter();
        let by_prefix =
            attributes.any(|pair| pair.first == "BLOOMFILTER" && pair.second == "ROWPREFIX_FIXED_LENGTH");
        let mut settings = family.configuration.iter();
        let length = settings.find(|setting| setting.name == "RowPrefixBloomFilter.prefix_length");
        let length = length.and_then(|length| length.value.parse::<i32>().ok());
        if by_prefix && length.is_none_or(|length| length < 1) {
            return Err(Exception::do_not_retry("Failed to get bloom filter param"));
        }
    }
    Ok(())
}

fn check_split_policy(schema: &pb::TableSchema) -> Result<()> {
    let Some(policy) = attribute(schema, "SPLIT_POLICY").map(String::from_utf8_lossy) else {
        return Ok(());
    };
    if policy
        .strip_prefix(POLICY)
        .is_some_and(|policy| POLICIES.contains(&policy))
    {
        Ok(())
    } else {
        Err(Exception::do_not_retry(format!(
            "Unable to load configured region split policy '{policy}'"
        )))
    }
}
