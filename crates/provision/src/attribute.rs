//! The names and defaults of HBase's attributes.

use hbase_client::TableDescriptor;

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

/// Parses a TTL in seconds; `FOREVER` is the greatest.
pub(super) fn seconds(ttl: &str) -> Option<u64> {
    match ttl.eq_ignore_ascii_case("forever") {
        true => Some(i32::MAX as u64),
        false => ttl.trim().parse().ok(),
    }
}

/// Whether an attribute attaches the endpoint of transactions.
pub(super) fn names_endpoint(name: &str, value: &str) -> bool {
    // HBase matches the key without regard to case.
    name.to_ascii_lowercase().starts_with("coprocessor$") && value.contains(".MultiRowMutationEndpoint|")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use hbase_client::PartitionRule;

    #[test]
    fn the_attributes_of_every_rule_are_known() {
        let rules = [PartitionRule::prefix_length(3), PartitionRule::delimiter("/")];
        for (key, _) in rules.iter().flatten().flat_map(PartitionRule::attributes) {
            assert!(key == "SPLIT_POLICY" || RULE_ATTRIBUTES.contains(&key), "{key}");
        }
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
