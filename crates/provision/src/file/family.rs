//! A column family of a table file.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_client::{BytesBinary, FamilyDescriptor, TableDescriptor};
use hbase_txn::TableDescriptorExt;

use super::{
    attributes,
    faults::Faults,
    section::{Placed, Section},
};

/// Family attributes that are set by keys of the file.
pub(super) const BY_KEY: [(&str, &str); 12] = [
    ("VERSIONS", "versions"),
    ("MIN_VERSIONS", "min_versions"),
    ("TTL", "ttl"),
    ("COMPRESSION", "compression"),
    ("DATA_BLOCK_ENCODING", "data_block_encoding"),
    ("BLOOMFILTER", "bloom_filter"),
    ("BLOCKSIZE", "block_size"),
    ("BLOCKCACHE", "block_cache"),
    ("IN_MEMORY", "in_memory"),
    ("KEEP_DELETED_CELLS", "keep_deleted_cells"),
    ("REPLICATION_SCOPE", "replication_scope"),
    ("NEW_VERSION_BEHAVIOR", "new_version_behavior"),
];

const COMPRESSIONS: [&str; 7] = ["NONE", "GZ", "SNAPPY", "LZ4", "ZSTD", "LZO", "BZIP2"];
const ENCODINGS: [&str; 5] = ["NONE", "PREFIX", "DIFF", "FAST_DIFF", "ROW_INDEX_V1"];
const BLOOM_FILTERS: [&str; 4] = ["NONE", "ROW", "ROWCOL", BY_PREFIX];
const BY_PREFIX: &str = "ROWPREFIX_FIXED_LENGTH";
/// The setting of a family with this Bloom filter.
const FILTER_LENGTH: &str = "RowPrefixBloomFilter.prefix_length";
const KEEP_DELETED: [&str; 3] = ["FALSE", "TRUE", "TTL"];
const MOST: u64 = i32::MAX as u64;

/// Reads a family. Returns `None` if the family has no valid name.
pub(super) fn read(mut section: Section<'_>, faults: &mut Faults<'_>) -> Option<Placed<FamilyDescriptor>> {
    let place = section.place();
    let name = name(&mut section, faults);
    let mut set: Vec<(&str, String)> = Vec::new();
    let versions = section.number("versions", 1, MOST, faults);
    let min_versions = section.number("min_versions", 0, MOST, faults);
    if let (Some(versions), Some(least)) = (&versions, &min_versions)
        && least.value > versions.value
    {
        let reason = format!(
            "min_versions is {}, more than versions, {}",
            least.value, versions.value
        );
        faults.add(least.place.clone(), reason);
    }
    let numbers = [
        ("VERSIONS", versions),
        ("MIN_VERSIONS", min_versions),
        ("TTL", section.seconds("ttl", faults)),
        ("BLOCKSIZE", section.number("block_size", 1, MOST, faults)),
        (
            "REPLICATION_SCOPE",
            section.number("replication_scope", 0, 1, faults),
        ),
    ];
    set.extend(given(numbers));
    let bloom_filter = section.word("bloom_filter", &BLOOM_FILTERS, faults);
    set.extend(given([
        ("COMPRESSION", section.word("compression", &COMPRESSIONS, faults)),
        (
            "DATA_BLOCK_ENCODING",
            section.word("data_block_encoding", &ENCODINGS, faults),
        ),
        ("BLOOMFILTER", bloom_filter.clone()),
        (
            "KEEP_DELETED_CELLS",
            section.word("keep_deleted_cells", &KEEP_DELETED, faults),
        ),
    ]));
    set.extend(given([
        ("BLOCKCACHE", section.flag("block_cache", faults)),
        ("IN_MEMORY", section.flag("in_memory", faults)),
        (
            "NEW_VERSION_BEHAVIOR",
            section.flag("new_version_behavior", faults),
        ),
    ]));
    let free = section.section("attributes", faults);
    let free = free.map(|free| attributes::of_family(free, &BY_KEY, faults));
    let configuration = section.section("configuration", faults);
    let configuration = configuration.map(|settings| attributes::of_family(settings, &BY_KEY, faults));
    let configuration: BTreeMap<_, _> = configuration.into_iter().flatten().collect();
    if let Some(filter) = &bloom_filter {
        refuse_filter_without_length(filter, &configuration, faults);
    }
    section.finish(faults);

    let family = FamilyDescriptor::new(name?);
    let family = set
        .into_iter()
        .fold(family, |family, (name, value)| family.with_attribute(name, value));
    let mut value = free
        .into_iter()
        .flatten()
        .fold(family, |family, (name, value)| family.with_attribute(name, value));
    value.configuration = configuration;
    Some(Placed { value, place })
}

/// HBase refuses this Bloom filter without its setting (`BloomFilterUtil.getBloomFilterParam`).
fn refuse_filter_without_length(
    filter: &Placed<&str>,
    configuration: &BTreeMap<String, String>,
    faults: &mut Faults<'_>,
) {
    let length = configuration.get(FILTER_LENGTH).map(|length| length.parse());
    if filter.value == BY_PREFIX && !matches!(length, Some(Ok(1..=i32::MAX))) {
        let reason = format!(
            "bloom_filter {BY_PREFIX} needs a number of bytes, 1 or more, in [family.configuration]: \
             \"{FILTER_LENGTH}\" = 8"
        );
        faults.add(filter.place.clone(), reason);
    }
}

fn given<T: ToString, const N: usize>(
    read: [(&'static str, Option<Placed<T>>); N],
) -> impl Iterator<Item = (&'static str, String)> {
    read.into_iter()
        .filter_map(|(name, value)| Some((name, value?.value.to_string())))
}

fn name(section: &mut Section<'_>, faults: &mut Faults<'_>) -> Option<Bytes> {
    let Some(name) = section.bytes("name", faults) else {
        if section.place_of("name").is_none() {
            faults.add(section.place(), "a family without a name");
        }
        return None;
    };
    let reserved = TableDescriptor::RESERVED_FAMILIES;
    if let Some((reserved, what)) = reserved.iter().find(|(reserved, _)| name.value == *reserved) {
        let key = match *reserved {
            TableDescriptor::RECORD_FAMILY => "record_family",
            TableDescriptor::VERSION_FAMILY => "partition_version",
            _ => "lock_family",
        };
        let reason = format!("family {reserved} is reserved for {what}; {key} = true adds it");
        faults.add(name.place, reason);
        return None;
    }
    if let Err(error) = FamilyDescriptor::new(name.value.clone()).check() {
        faults.add(name.place, error.to_string());
        return None;
    }
    Some(name.value)
}

/// Refuses families with the same name, in the order of the file.
pub(super) fn refuse_twins(families: &[Placed<FamilyDescriptor>], faults: &mut Faults<'_>) {
    for (at, family) in families.iter().enumerate() {
        let first = families[..at]
            .iter()
            .find(|first| first.value.name == family.value.name);
        if let Some(first) = first {
            let reason = format!(
                "family {} is given twice; the first is on line {}",
                BytesBinary(&family.value.name),
                faults.line(&first.place)
            );
            faults.add(family.place.clone(), reason);
        }
    }
}
