//! The names, defaults and values of HBase's attributes.

use std::borrow::Cow;

use hbase_client::TableDescriptor;
use hbase_txn::TableDescriptorExt;

const SPLIT_POLICY: &str = "SPLIT_POLICY";

/// The attributes that state a partition rule, in all their forms, except `SPLIT_POLICY`.
pub(super) const RULE_ATTRIBUTES: [&str; 6] = [
    "hbase.regionserver.region.split_restriction.type",
    "hbase.regionserver.region.split_restriction.prefix_length",
    "hbase.regionserver.region.split_restriction.delimiter",
    "KeyPrefixRegionSplitPolicy.prefix_length",
    "prefix_split_key_policy.prefix_length",
    "DelimitedKeyPrefixRegionSplitPolicy.delimiter",
];

/// Whether an attribute is `SPLIT_POLICY`, or the argument of a policy that splits by prefix. Since 2.4.3
/// (HBASE-25766) the split restriction keeps partitions whole under any policy.
pub(super) fn is_of_split_policy(name: &str) -> bool {
    const RESTRICTION: &str = "hbase.regionserver.region.split_restriction.";
    name == SPLIT_POLICY || RULE_ATTRIBUTES.contains(&name) && !name.starts_with(RESTRICTION)
}

/// Whether a table has one of HBase's policies that split by prefix.
pub(super) fn has_prefix_split_policy(table: &TableDescriptor) -> bool {
    let policy = table.attribute(SPLIT_POLICY);
    policy.is_some_and(|policy| policy.ends_with("KeyPrefixRegionSplitPolicy"))
}

/// The table attributes that HBase interprets.
pub(super) const TABLE_ATTRIBUTES: [&str; 16] = [
    "SPLIT_POLICY",
    "SPLIT_ENABLED",
    "MERGE_ENABLED",
    "COMPACTION_ENABLED",
    "READONLY",
    "DURABILITY",
    "MAX_FILESIZE",
    "MEMSTORE_FLUSHSIZE",
    "FLUSH_POLICY",
    "NORMALIZATION_ENABLED",
    "NORMALIZER_TARGET_REGION_COUNT",
    "NORMALIZER_TARGET_REGION_SIZE_MB",
    "REGION_REPLICATION",
    "REGION_MEMSTORE_REPLICATION",
    "PRIORITY",
    "ERASURE_CODING_POLICY",
];

const TABLE_DEFAULTS: [(&str, &str); 11] = [
    ("SPLIT_ENABLED", "true"),
    ("MERGE_ENABLED", "true"),
    ("COMPACTION_ENABLED", "true"),
    ("READONLY", "false"),
    ("DURABILITY", "USE_DEFAULT"),
    ("NORMALIZATION_ENABLED", "false"),
    ("REGION_REPLICATION", "1"),
    ("REGION_MEMSTORE_REPLICATION", "true"),
    ("PRIORITY", "0"),
    ("IS_META", "false"),
    ("hbase.store.file-tracker.impl", "DEFAULT"),
];

const FAMILY_DEFAULTS: [(&str, &str); 16] = [
    ("VERSIONS", "1"),
    ("MIN_VERSIONS", "0"),
    ("TTL", "2147483647"),
    ("COMPRESSION", "NONE"),
    ("DATA_BLOCK_ENCODING", "NONE"),
    ("INDEX_BLOCK_ENCODING", "NONE"),
    ("BLOOMFILTER", "ROW"),
    ("BLOCKSIZE", "65536"),
    ("BLOCKCACHE", "true"),
    ("IN_MEMORY", "false"),
    ("KEEP_DELETED_CELLS", "FALSE"),
    ("REPLICATION_SCOPE", "0"),
    ("NEW_VERSION_BEHAVIOR", "false"),
    ("IS_MOB", "false"),
    ("MOB_THRESHOLD", "102400"),
    ("DFS_REPLICATION", "0"),
];

/// The range of a Java `int`.
const INT: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);
/// The range of a Java `long`.
const LONG: (i64, i64) = (i64::MIN, i64::MAX);

/// Attributes whose value HBase parses as a number, with the range that it accepts. With another value of some of
/// them the master never finishes the change.
const NUMBERS: [(&str, (i64, i64)); 13] = [
    ("MAX_FILESIZE", LONG),
    ("MEMSTORE_FLUSHSIZE", LONG),
    ("NORMALIZER_TARGET_REGION_COUNT", INT),
    ("NORMALIZER_TARGET_REGION_SIZE_MB", LONG),
    ("REGION_REPLICATION", (1, INT.1)),
    ("PRIORITY", INT),
    ("VERSIONS", (1, INT.1)),
    ("MIN_VERSIONS", (0, INT.1)),
    ("TTL", (1, INT.1)),
    ("BLOCKSIZE", (1, INT.1)),
    ("REPLICATION_SCOPE", (0, 1)),
    ("MOB_THRESHOLD", LONG),
    ("DFS_REPLICATION", (0, i16::MAX as i64)),
];

/// Those of them that are a number of bytes.
const SIZES: [&str; 4] = ["MAX_FILESIZE", "MEMSTORE_FLUSHSIZE", "BLOCKSIZE", "MOB_THRESHOLD"];

/// Attributes whose value HBase parses as a `boolean`, which takes every other word for `false`.
const FLAGS: [&str; 15] = [
    "SPLIT_ENABLED",
    "MERGE_ENABLED",
    "COMPACTION_ENABLED",
    "READONLY",
    "NORMALIZATION_ENABLED",
    "REGION_MEMSTORE_REPLICATION",
    "BLOCKCACHE",
    "IN_MEMORY",
    "NEW_VERSION_BEHAVIOR",
    "IS_MOB",
    "CACHE_DATA_ON_WRITE",
    "CACHE_INDEX_ON_WRITE",
    "CACHE_BLOOMS_ON_WRITE",
    "EVICT_BLOCKS_ON_CLOSE",
    "PREFETCH_BLOCKS_ON_OPEN",
];

/// The values of `DURABILITY`.
const DURABILITIES: [&str; 5] = ["USE_DEFAULT", "SKIP_WAL", "ASYNC_WAL", "SYNC_WAL", "FSYNC_WAL"];

/// Returns the value that HBase is sent for an attribute of a table or a family: `10737418240` for a
/// `MAX_FILESIZE` of `10G`.
///
/// # Errors
///
/// Returns the reason if HBase would refuse the value, or take it for another one.
pub(super) fn parsed<'v>(name: &str, value: &'v str) -> Result<Cow<'v, str>, String> {
    if FLAGS.contains(&name)
        && !["true", "false"]
            .iter()
            .any(|flag| flag.eq_ignore_ascii_case(value))
    {
        return Err(format!("{name} is {value:?}; it is true or false"));
    }
    if name == "DURABILITY" && !DURABILITIES.contains(&value) {
        return Err(format!(
            "{name} is {value:?}; it is one of {}",
            DURABILITIES.join(", ")
        ));
    }
    let number = NUMBERS.iter().find(|(number, _)| *number == name);
    let Some((_, (least, most))) = number else {
        return Ok(Cow::Borrowed(value));
    };
    let (parsed, form) = match name {
        "TTL" => (
            seconds(value).and_then(|seconds| seconds.try_into().ok()),
            "a number of seconds, or FOREVER",
        ),
        _ if SIZES.contains(&name) => (
            value.parse().ok().or_else(|| bytes(value)),
            "a number of bytes, or one with a unit of 1024: 512K, 128M, 10G, 1T",
        ),
        _ => (value.parse().ok(), "a whole number"),
    };
    match parsed {
        Some(number) if (*least..=*most).contains(&number) => Ok(Cow::Owned(number.to_string())),
        Some(_) => Err(format!("{name} is {value}; it is from {least} to {most}")),
        None => Err(format!("{name} is {value:?}; it is {form}")),
    }
}

/// Parses a size with a unit, such as `10G`.
fn bytes(size: &str) -> Option<i64> {
    let shift = match size.chars().last()?.to_ascii_uppercase() {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        _ => return None,
    };
    let number: u32 = size[..size.len() - 1].parse().ok()?;
    i64::from(number).checked_mul(1 << shift)
}

/// The owner of an attribute: a table or a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Table,
    Family,
}

impl Of {
    /// HBase's default.
    pub(super) fn default(self, name: &str) -> Option<&'static str> {
        let defaults: &[(&str, &str)] = match self {
            Self::Table => &TABLE_DEFAULTS,
            Self::Family => &FAMILY_DEFAULTS,
        };
        let default = defaults.iter().find(|(known, _)| *known == name);
        default.map(|(_, value)| *value)
    }

    /// Whether HBase treats two values of an attribute as equal; `None` is an absent attribute.
    pub(super) fn is_same(self, name: &str, one: Option<&str>, other: Option<&str>) -> bool {
        let default = self.default(name);
        match (one.or(default), other.or(default)) {
            (Some(one), Some(other)) => {
                one == other
                    || default.is_some() && one.eq_ignore_ascii_case(other)
                    || name == "TTL" && seconds(one).is_some() && seconds(one) == seconds(other)
            }
            (one, other) => one == other,
        }
    }
}

/// The number of seconds that HBase treats as an unlimited TTL.
pub(super) const FOREVER: u64 = i32::MAX as u64;

/// Parses a TTL in seconds; `FOREVER` is the greatest.
pub(super) fn seconds(ttl: &str) -> Option<u64> {
    if ttl.eq_ignore_ascii_case("forever") {
        Some(FOREVER)
    } else {
        ttl.trim().parse().ok()
    }
}

/// Writes a number of seconds in the largest unit that divides it, or as `forever`.
pub(super) fn duration_text(seconds: u64) -> String {
    if seconds >= FOREVER {
        return "forever".to_owned();
    }
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let unit = units
        .into_iter()
        .find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    let (unit, letter) = unit.unwrap_or((1, 's'));
    format!("{}{letter}", seconds / unit)
}

/// Writes a value of an attribute for people: a lifetime with its unit, all others as they are.
pub(super) fn shown<'v>(name: &str, value: &'v str) -> Cow<'v, str> {
    let is_duration = ["TTL", TableDescriptor::REPLAY_WINDOW].contains(&name);
    match seconds(value).filter(|_| is_duration) {
        Some(seconds) => Cow::Owned(duration_text(seconds)),
        None => Cow::Borrowed(value),
    }
}

/// Whether an attribute attaches the endpoint of transactions.
pub(super) fn names_endpoint(name: &str, value: &str) -> bool {
    // HBase matches the key without regard to case.
    name.to_ascii_lowercase().starts_with("coprocessor$") && value.contains(".MultiRowMutationEndpoint|")
}

#[cfg(test)]
mod tests {
    use hbase_txn::PartitionRule;
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_attributes_of_every_rule_are_known() {
        let rules = [PartitionRule::prefix_length(3), PartitionRule::delimiter("/")];
        for (key, _) in rules.iter().flatten().flat_map(PartitionRule::attributes) {
            assert!(key == "SPLIT_POLICY" || RULE_ATTRIBUTES.contains(&key), "{key}");
        }
    }

    #[rstest]
    #[case("MAX_FILESIZE", "10737418240", "10737418240")]
    #[case("MAX_FILESIZE", "10G", "10737418240")]
    #[case("MEMSTORE_FLUSHSIZE", "128m", "134217728")]
    #[case("MAX_FILESIZE", "-1", "-1")]
    #[case("BLOCKSIZE", "64K", "65536")]
    #[case("READONLY", "TRUE", "TRUE")]
    #[case("TTL", "forever", "2147483647")]
    #[case("DURABILITY", "FSYNC_WAL", "FSYNC_WAL")]
    #[case("owner", "10G", "10G")]
    fn values_are_in_the_form_of_hbase(#[case] name: &str, #[case] value: &str, #[case] sent: &str) {
        assert_eq!(parsed(name, value).unwrap(), sent);
    }

    #[rstest]
    #[case(
        "MAX_FILESIZE",
        "10 potatoes",
        "MAX_FILESIZE is \"10 potatoes\"; it is a number of bytes, or one with a unit"
    )]
    #[case("MAX_FILESIZE", "4294967295T", "it is a number of bytes")]
    #[case("MAX_FILESIZE", "1.5G", "it is a number of bytes")]
    #[case("MAX_FILESIZE", "ä", "it is a number of bytes")]
    #[case("MAX_FILESIZE", "", "it is a number of bytes")]
    #[case("PRIORITY", "high", "PRIORITY is \"high\"; it is a whole number")]
    #[case("REGION_REPLICATION", "3K", "it is a whole number")]
    #[case(
        "REGION_REPLICATION",
        "0",
        "REGION_REPLICATION is 0; it is from 1 to 2147483647"
    )]
    #[case("PRIORITY", "2147483648", "it is from -2147483648 to 2147483647")]
    #[case("BLOCKSIZE", "2G", "BLOCKSIZE is 2G; it is from 1 to 2147483647")]
    #[case("READONLY", "yes", "READONLY is \"yes\"; it is true or false")]
    #[case("DURABILITY", "sync_wal", "it is one of USE_DEFAULT, SKIP_WAL")]
    #[case("TTL", "soon", "it is a number of seconds, or FOREVER")]
    fn values_that_hbase_does_not_take_are_refused(
        #[case] name: &str,
        #[case] value: &str,
        #[case] why: &str,
    ) {
        let refusal = parsed(name, value).unwrap_err();
        assert!(refusal.contains(why), "{refusal}");
    }

    #[rstest]
    #[case(Of::Family, "VERSIONS", None, Some("1"), true)]
    #[case(Of::Family, "VERSIONS", Some("2"), None, false)]
    #[case(Of::Family, "TTL", Some("FOREVER"), None, true)]
    #[case(Of::Family, "TTL", Some("60"), Some("060"), true)]
    #[case(Of::Family, "COMPRESSION", Some("gz"), Some("GZ"), true)]
    #[case(Of::Table, "SPLIT_ENABLED", Some("TRUE"), None, true)]
    #[case(Of::Table, "SPLIT_ENABLED", Some("false"), None, false)]
    #[case(Of::Table, "owner", Some("a"), Some("A"), false)]
    #[case(Of::Table, "owner", None, Some("A"), false)]
    fn equivalent_attributes_are_equal(
        #[case] of: Of,
        #[case] name: &str,
        #[case] one: Option<&str>,
        #[case] other: Option<&str>,
        #[case] same: bool,
    ) {
        assert_eq!(of.is_same(name, one, other), same);
        assert_eq!(of.is_same(name, other, one), same);
    }
}
