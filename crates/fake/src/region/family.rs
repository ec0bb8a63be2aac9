//! The settings of column families.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_protocol as pb;

use crate::exception::{Exception, Result};

/// The TTL of a family whose cells live forever, in seconds.
const FOREVER: u64 = i32::MAX as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) versions: u32,
    /// In milliseconds.
    pub(super) ttl: Option<u64>,
    /// `NEW_VERSION_BEHAVIOR`: markers mask only what was written before them.
    pub(super) by_sequence: bool,
}

/// Attributes without an effect on what a client sees, apart from their listed values.
const WITHOUT_EFFECT: [&str; 14] = [
    "BLOCKCACHE",
    "BLOCKSIZE",
    "BLOOMFILTER",
    "CACHE_BLOOMS_ON_WRITE",
    "CACHE_DATA_ON_WRITE",
    "CACHE_INDEX_ON_WRITE",
    "COMPRESSION",
    "DATA_BLOCK_ENCODING",
    "EVICT_BLOCKS_ON_CLOSE",
    "INDEX_BLOCK_ENCODING",
    "IN_MEMORY",
    "IN_MEMORY_COMPACTION",
    "PREFETCH_BLOCKS_ON_OPEN",
    "REPLICATION_SCOPE",
];

/// Attributes that are modelled with one value only.
const FIXED: [(&str, &str); 3] = [
    ("IS_MOB", "false"),
    ("KEEP_DELETED_CELLS", "FALSE"),
    ("MIN_VERSIONS", "0"),
];

/// Returns an attribute of a table.
pub(crate) fn attribute<'a>(schema: &'a pb::TableSchema, key: &str) -> Option<&'a [u8]> {
    let found = schema.attributes.iter().find(|pair| pair.first == key.as_bytes());
    found.map(|pair| &pair.second[..])
}

/// Reads the families of a table.
pub(super) fn families(schema: &pb::TableSchema) -> Result<BTreeMap<Bytes, Family>> {
    schema
        .column_families
        .iter()
        .map(|family| Ok((family.name.clone(), read(family)?)))
        .collect()
}

fn read(schema: &pb::ColumnFamilySchema) -> Result<Family> {
    let mut family = Family {
        versions: 1,
        ttl: None,
        by_sequence: false,
    };
    for attribute in &schema.attributes {
        let name = String::from_utf8_lossy(&attribute.first);
        let value = String::from_utf8_lossy(&attribute.second);
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| Exception::do_not_retry(format!("{name} is {value}, which is not a number")))
        };
        match &*name {
            "VERSIONS" => family.versions = u32::try_from(number()?).unwrap_or(u32::MAX),
            "TTL" => {
                family.ttl = Some(number()?)
                    .filter(|ttl| *ttl < FOREVER)
                    .map(|ttl| ttl * 1_000);
            }
            "NEW_VERSION_BEHAVIOR" => family.by_sequence = value.eq_ignore_ascii_case("true"),
            known if WITHOUT_EFFECT.contains(&known) => {}
            fixed => match FIXED.iter().find(|(name, _)| *name == fixed) {
                Some((_, only)) if value.eq_ignore_ascii_case(only) => {}
                Some(_) => return Err(Exception::not_modelled(format!("{name} = {value}"))),
                // Java programs keep attributes of their own.
                None => {}
            },
        }
    }
    Ok(family)
}

impl Family {
    /// Returns whether a cell has expired.
    pub(super) fn is_expired(&self, timestamp: u64, ttl: Option<u64>, now: u64) -> bool {
        [ttl, self.ttl]
            .into_iter()
            .flatten()
            .any(|ttl| timestamp.saturating_add(ttl) < now)
    }
}
