use std::time::Duration;

use hbase_client::{Delete, Put, low_level::Limits};
use proptest::prelude::*;
use rstest::rstest;

use crate::txn::commit::plan::*;

fn terms() -> Terms {
    Terms {
        rule: PartitionRule::prefix_length(3).unwrap(),
        families: ["f", "g"].map(Bytes::from).into(),
        durability: Durability::UseDefault,
        partition_version: false,
        cross_partition: false,
        limits: Limits::default(),
        max_mutations: 100,
        max_bytes: 10_000,
        max_conditions: 100,
        replay_window: None,
        endpoint: true,
        concurrency: 1,
    }
}

fn put(row: &'static str) -> Put {
    Put::new(row).cell("f", "q", "v")
}

fn check(mutations: impl IntoIterator<Item = Mutation>) -> Result<Durability> {
    let mut groups = group(mutations, &terms().rule);
    assert_eq!(groups.len(), 1, "one partition");
    groups.remove(0).check(&terms())
}

#[rstest]
#[case::unknown_family(vec![put("xxx").cell("h", "q", "v").into()], "no family h; it has f, g")]
#[case::unknown_family_of_a_delete(vec![Delete::new("xxx").family("h").into()], "no family h")]
#[case::record_family(vec![put("xxx").cell("_txn", "q", "v").into()], "family _txn is reserved for the records of transactions")]
#[case::lock_family(vec![put("xxx").cell("_lock", "q", "v").into()], "family _lock is reserved for locks in partitions")]
#[case::version_family(vec![put("xxx").cell("_version", "q", "v").into()], "family _version is reserved for the versions of partitions")]
#[case::visibility(vec![put("xxx").attribute("VISIBILITY", "secret").into()], "visibility labels")]
#[case::empty_row_is_its_own_partition(vec![put("").into()], "empty row key")]
#[case::skip_wal_beside_default(
    vec![put("xxxa").into(), put("xxxb").durability(Durability::SkipWal).into()], "SKIP_WAL next to")]
#[case::skip_wal_beside_async(
    vec![put("xxxa").durability(Durability::AsyncWal).into(), put("xxxb").durability(Durability::SkipWal).into()],
    "SKIP_WAL next to")]
#[case::too_many(vec![put("xxx").into(); 101], "101 mutations")]
#[case::too_large(vec![put("xxx").cell("f", "big", vec![0; 10_001]).into()], "the limit is 10000")]
fn refuses_and_names_the_reason(#[case] mutations: Vec<Mutation>, #[case] why: &str) {
    let error = check(mutations).unwrap_err();
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn a_refusal_names_the_row_of_the_mutation() {
    let error = check([put("xxxgood").into(), Put::new("xxxbad").into()]).unwrap_err();
    assert!(error.to_string().contains("row xxxbad"), "{error}");
}

#[rstest]
#[case(&[Durability::UseDefault, Durability::UseDefault], Durability::UseDefault)]
#[case(&[Durability::UseDefault, Durability::SyncWal], Durability::UseDefault)]
#[case(&[Durability::SkipWal, Durability::SkipWal], Durability::SkipWal)]
#[case(&[Durability::AsyncWal, Durability::UseDefault], Durability::UseDefault)]
#[case(&[Durability::FsyncWal, Durability::UseDefault], Durability::FsyncWal)]
#[case(&[Durability::FsyncWal, Durability::AsyncWal], Durability::FsyncWal)]
fn one_durability_for_all_is_the_strongest_named(#[case] named: &[Durability], #[case] sent: Durability) {
    let rows = ["xxxa", "xxxb"];
    let mutations = rows
        .iter()
        .zip(named)
        .map(|(row, durability)| put(row).durability(*durability).into());
    assert_eq!(check(mutations).unwrap(), sent);
}

fn rows() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let row = proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), any::<u8>()], 1..6);
    proptest::collection::vec(row, 0..40)
}

proptest! {
    /// Grouping loses nothing, mixes nothing, and keeps the order within a partition.
    #[test]
    fn grouping_partitions_the_mutations_and_keeps_their_order(rows in rows()) {
        let rule = terms().rule;
        let mutations: Vec<Mutation> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| Put::new(row.clone()).cell("f", "q", at.to_string()).into())
            .collect();
        let groups = group(mutations.clone(), &rule);
        for (at, one) in groups.iter().enumerate() {
            prop_assert!(!one.mutations.is_empty());
            prop_assert!(groups[..at].iter().all(|other| other.partition != one.partition));
            let expected: Vec<Mutation> = mutations
                .iter()
                .filter(|mutation| rule.partition_of(mutation.row()) == one.partition)
                .cloned()
                .collect();
            prop_assert_eq!(&one.mutations, &expected);
        }
        prop_assert_eq!(groups.iter().map(|one| one.mutations.len()).sum::<usize>(), mutations.len());
    }
}

#[rstest]
#[case::of_the_table(Durability::AsyncWal, None)]
#[case::of_server(Durability::UseDefault, Some(Durability::UseDefault))]
#[case::enough(Durability::SyncWal, Some(Durability::SyncWal))]
#[case::stronger(Durability::FsyncWal, Some(Durability::FsyncWal))]
fn assertion_with_a_record_is_durable_like_all_records(
    #[case] of_table: Durability,
    #[case] expected: Option<Durability>,
) {
    let terms = Terms {
        durability: of_table,
        replay_window: Some(Duration::from_secs(3_600)),
        ..terms()
    };
    let mut group = Group::new(terms.rule.partition("xxx").unwrap());
    group.add(Condition::absent("xxx", "f", "q"), &terms).unwrap();
    group.record = Some(RecordRequest::own(&hbase_client::SystemEnvironment));
    let checked = group.check(&terms);
    assert_eq!(checked.as_ref().ok(), expected.as_ref(), "{checked:?}");
}
