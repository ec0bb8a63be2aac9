use proptest::prelude::*;
use rstest::rstest;

use crate::partition::*;

fn table(attributes: &[(&'static str, &'static str)]) -> TableDescriptor {
    attributes
        .iter()
        .fold(TableDescriptor::new("t").unwrap(), |table, (key, value)| {
            table.with_attribute(*key, *value)
        })
}

fn region(start: impl Into<Bytes>, end: impl Into<Bytes>) -> RegionInfo {
    RegionInfo {
        start_key: start.into(),
        end_key: end.into(),
        ..RegionInfo::meta()
    }
}

const POLICY: &str = "org.apache.hadoop.hbase.regionserver.KeyPrefixRegionSplitPolicy";
const DELIMITED: &str = "org.apache.hadoop.hbase.regionserver.DelimitedKeyPrefixRegionSplitPolicy";

#[rstest]
#[case(&[(RESTRICTION_TYPE, "KeyPrefix"), (RESTRICTION_LENGTH, "3")], "the first 3 bytes")]
#[case(&[(RESTRICTION_TYPE, "DelimitedKeyPrefix"), (RESTRICTION_DELIMITER, "::")], "the bytes before the first ::")]
#[case(&[(SPLIT_POLICY, POLICY), (LENGTH_POLICY_LENGTH, "4")], "the first 4 bytes")]
#[case(&[(SPLIT_POLICY, POLICY), (LENGTH_POLICY_OLD_LENGTH, "5")], "the first 5 bytes")]
#[case(&[(SPLIT_POLICY, DELIMITED), (DELIMITER_POLICY_DELIMITER, "/")], "the bytes before the first /")]
#[case(&[(RESTRICTION_TYPE, "KeyPrefix"), (RESTRICTION_LENGTH, "3"), (SPLIT_POLICY, POLICY), (LENGTH_POLICY_LENGTH, "9")], "the first 3 bytes")]
#[case(&[(RESTRICTION_TYPE, "None"), (SPLIT_POLICY, POLICY), (LENGTH_POLICY_LENGTH, "4")], "the first 4 bytes")]
fn reads_the_restriction_first_then_the_older_policies(
    #[case] attributes: &[(&'static str, &'static str)],
    #[case] rule: &str,
) {
    assert_eq!(
        PartitionRule::from_descriptor(&table(attributes))
            .unwrap()
            .to_string(),
        rule
    );
}

#[rstest]
#[case(&[], "no partition rule")]
#[case(&[(RESTRICTION_TYPE, "None")], "no partition rule")]
#[case(&[(RESTRICTION_TYPE, "KeyPrefx"), (RESTRICTION_LENGTH, "3")], "\"KeyPrefx\"")]
#[case(&[(RESTRICTION_TYPE, "keyprefix"), (RESTRICTION_LENGTH, "3")], "\"keyprefix\"")]
#[case(&[(RESTRICTION_TYPE, "KeyPrefix")], "is not set")]
#[case(&[(RESTRICTION_TYPE, "KeyPrefix"), (RESTRICTION_LENGTH, "0")], "\"0\"")]
#[case(&[(RESTRICTION_TYPE, "KeyPrefix"), (RESTRICTION_LENGTH, "three")], "\"three\"")]
#[case(&[(RESTRICTION_TYPE, "KeyPrefix"), ("prefix_length", "3")], "is not set")]
#[case(&[(RESTRICTION_TYPE, "DelimitedKeyPrefix")], "is not set")]
#[case(&[(RESTRICTION_TYPE, "DelimitedKeyPrefix"), (RESTRICTION_DELIMITER, "")], "is empty")]
#[case(&[(SPLIT_POLICY, POLICY)], "is not set")]
#[case(&[(RESTRICTION_TYPE, "Misspelt"), (SPLIT_POLICY, POLICY), (LENGTH_POLICY_LENGTH, "4")], "Misspelt")]
fn missing_or_broken_rule_is_named_with_its_fix(
    #[case] attributes: &[(&'static str, &'static str)],
    #[case] why: &str,
) {
    let error = PartitionRule::from_descriptor(&table(attributes)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPartitionRule);
    assert!(error.to_string().contains(why), "{error}");
    assert!(error.hint().unwrap().contains("with a rule"), "{error}");
}

#[rstest]
#[case(PartitionRule::prefix_length(3).unwrap())]
#[case(PartitionRule::delimiter("::").unwrap())]
fn the_attributes_of_a_rule_state_that_rule(#[case] rule: PartitionRule) {
    let table = rule
        .attributes()
        .into_iter()
        .fold(TableDescriptor::new("t").unwrap(), |table, (key, value)| {
            table.with_attribute(key, value)
        });
    assert_eq!(PartitionRule::from_descriptor(&table).unwrap(), rule);
}

#[test]
fn a_delimiter_that_hbase_would_read_as_another_one_is_no_rule() {
    let table = table(&[(RESTRICTION_TYPE, "DelimitedKeyPrefix")])
        .with_attribute(RESTRICTION_DELIMITER, Bytes::from_static(b"\xff"));
    let error = PartitionRule::from_descriptor(&table).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPartitionRule);
    assert!(
        error.to_string().contains(r"is \xFF, which is not UTF-8"),
        "{error}"
    );
}

#[rstest]
#[case("xxxabc", "xxx", false)]
#[case("xxx", "xxx", false)]
#[case("xx", "xx", true)]
fn cuts_by_length(#[case] row: &'static str, #[case] prefix: &str, #[case] lone: bool) {
    let partition = PartitionRule::prefix_length(3).unwrap().partition_of(row);
    assert_eq!(
        (partition.prefix(), partition.is_lone_row()),
        (&Bytes::copy_from_slice(prefix.as_bytes()), lone)
    );
}

#[rstest]
#[case("a::b::c", "a", "a::", false)]
#[case("::b", "", "::", false)]
#[case("a:b", "a:b", "a:b", true)]
fn cuts_before_the_first_delimiter(
    #[case] row: &'static str,
    #[case] prefix: &str,
    #[case] start: &str,
    #[case] lone: bool,
) {
    let partition = PartitionRule::delimiter("::").unwrap().partition_of(row);
    assert_eq!(partition.prefix(), prefix);
    assert_eq!(partition.first_key(), start);
    assert_eq!(partition.is_lone_row(), lone);
}

#[test]
fn row_without_delimiter_is_outside_the_partition() {
    let rule = PartitionRule::delimiter("/").unwrap();
    assert_ne!(rule.partition_of("abc"), rule.partition_of("abc/1"));
    assert_eq!(rule.partition("abc").unwrap(), rule.partition_of("abc/1"));
}

#[rstest]
#[case(PartitionRule::prefix_length(3).unwrap(), "")]
#[case(PartitionRule::prefix_length(3).unwrap(), "xxxx")]
#[case(PartitionRule::delimiter("/").unwrap(), "a/b")]
#[case(PartitionRule::delimiter("/").unwrap(), "")]
#[case(PartitionRule::delimiter("::").unwrap(), "a:")]
fn a_prefix_that_the_rule_would_not_cut_so_is_refused(
    #[case] rule: PartitionRule,
    #[case] prefix: &'static str,
) {
    rule.partition(prefix).unwrap_err();
}

#[rstest]
#[case(PartitionRule::prefix_length(3).unwrap(), "xxxm", Some("xxx"))]
#[case(PartitionRule::prefix_length(3).unwrap(), "xxx", None)]
#[case(PartitionRule::prefix_length(3).unwrap(), "x", None)]
#[case(PartitionRule::delimiter("/").unwrap(), "abc/m", Some("abc"))]
#[case(PartitionRule::delimiter("/").unwrap(), "abc/", None)]
#[case(PartitionRule::delimiter("/").unwrap(), "abc!", None)]
fn a_boundary_inside_a_partition_is_seen(
    #[case] rule: PartitionRule,
    #[case] boundary: &'static str,
    #[case] cut: Option<&str>,
) {
    let partition = rule.partition_cut_by(boundary);
    assert_eq!(
        partition
            .as_ref()
            .map(|partition| partition.to_string())
            .as_deref(),
        cut
    );
}

#[rstest]
#[case(PartitionRule::prefix_length(3).unwrap(), "xxxabc", Some(&b"xxx\xff_txn\xffversion"[..]))]
#[case(PartitionRule::prefix_length(3).unwrap(), "xx", None)]
#[case(PartitionRule::delimiter("::").unwrap(), "a::b", Some(&b"a::\xff_txn\xffversion"[..]))]
#[case(PartitionRule::delimiter("::").unwrap(), "a:b", None)]
// With a delimiter that is in the reserved bytes too: the first one still is the prefix's.
#[case(PartitionRule::delimiter("_").unwrap(), "a_b", Some(&b"a_\xff_txn\xffversion"[..]))]
fn a_reserved_row_is_in_the_partition_that_it_is_kept_for(
    #[case] rule: PartitionRule,
    #[case] row: &'static str,
    #[case] expected: Option<&[u8]>,
) {
    let partition = rule.partition_of(row);
    let reserved = partition.reserved_row(b"version");
    assert_eq!(reserved.as_deref(), expected);
    if let Some(row) = reserved {
        assert_eq!(rule.partition_of(&row), partition);
    }
}

proptest! {
    #[test]
    fn a_partition_contains_the_rows_that_the_rule_puts_there(
        rule in prop_oneof![
            (1..4_usize).prop_map(|length| PartitionRule::prefix_length(length).unwrap()),
            "[a:]{1,2}".prop_map(|delimiter| PartitionRule::delimiter(delimiter).unwrap()),
        ],
        one in "[a:b]{0,5}",
        other in "[a:b]{0,5}",
    ) {
        let partition = rule.partition_of(one);
        let other = Bytes::from(other);
        prop_assert_eq!(partition.contains(&other), rule.partition_of(&other) == partition);
    }
}

#[test]
fn a_partition_is_whole_only_where_all_rows_it_may_get_are() {
    let xxx = PartitionRule::prefix_length(3).unwrap().partition("xxx").unwrap();
    assert!(xxx.is_whole_in(&region("", "")) && xxx.is_whole_in(&region("xxx", "xxy")));
    assert!(!xxx.is_whole_in(&region("", "xxxm")) && !xxx.is_whole_in(&region("xxxm", "")));
    let last = PartitionRule::prefix_length(1)
        .unwrap()
        .partition(vec![0xff])
        .unwrap();
    assert!(last.is_whole_in(&region("", "")) && !last.is_whole_in(&region("", vec![0xff, 0xff])));
}

fn rules() -> impl Strategy<Value = PartitionRule> {
    prop_oneof![
        (1usize..5).prop_map(|length| PartitionRule::prefix_length(length).unwrap()),
        prop_oneof![Just("/"), Just("ab"), Just("aa")]
            .prop_map(|text| PartitionRule::delimiter(text).unwrap()),
    ]
}

fn rows() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'/'), any::<u8>()], 1..8)
        .prop_map(Bytes::from)
}

proptest! {
    /// The law that makes transactions possible: rows of one partition are in one region, whatever
    /// regions the server's split restriction can produce.
    #[test]
    fn allowed_boundaries_never_separate_rows_of_a_partition(rule in rules(), a in rows(), b in rows(), split in rows()) {
        let boundary = rule.partition_of(&split).prefix().clone();
        prop_assert!(rule.partition_cut_by(&boundary).is_none());
        if rule.partition_of(&a) == rule.partition_of(&b) {
            prop_assert_eq!(a < boundary, b < boundary);
        }
    }

    #[test]
    fn a_boundary_that_parts_a_partition_is_always_found(rule in rules(), a in rows(), b in rows(), boundary in rows()) {
        if rule.partition_of(&a) == rule.partition_of(&b) && (a < boundary) != (b < boundary) {
            prop_assert_eq!(rule.partition_cut_by(&boundary), Some(rule.partition_of(&a)));
        }
    }

    #[test]
    fn a_partition_is_whole_where_the_region_ends_behind_it(
        rule in rules(),
        row in rows(),
        start in prop_oneof![Just(Bytes::new()), rows()],
        end in prop_oneof![Just(Bytes::new()), rows()],
    ) {
        let (partition, region) = (rule.partition_of(&row), region(start, end));
        let (first, behind) = (partition.first_key(), partition.key_behind());
        let ends_behind = region.end_key.is_empty() || (!behind.is_empty() && behind <= region.end_key);
        prop_assert_eq!(partition.is_whole_in(&region), region.start_key <= first && ends_behind);
    }

    #[test]
    fn every_row_lies_in_the_range_of_its_partition(rule in rules(), row in rows()) {
        let partition = rule.partition_of(&row);
        prop_assert!(row.starts_with(partition.first_key()));
        prop_assert!(partition.is_whole_in(&region("", "")));
    }
}
