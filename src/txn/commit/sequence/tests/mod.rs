use std::time::{Duration, Instant};

use hbase_client::{
    Append, Delete, Durability, Increment, Put,
    low_level::{DeleteScope, LATEST_TIMESTAMP, MutationParts},
};
use rstest::rstest;

use super::stamp::{GuardedCell, GuardedRow, Stamped};
use crate::txn::{commit::sequence::*, proof::servers::ServerTime};

mod model;
mod random;

fn put(value: &'static str) -> Mutation {
    Put::new("r").cell("f", "q", value).into()
}

fn put_at(timestamp: u64, value: &'static str) -> Mutation {
    Put::new("r").cell_at("f", "q", timestamp, value).into()
}

fn number(number: i64) -> Mutation {
    Put::new("r").cell("f", "q", number.to_be_bytes().to_vec()).into()
}

fn lasting(mutation: Mutation, seconds: u64) -> Mutation {
    let ttl = Duration::from_secs(seconds);
    match mutation {
        Mutation::Put(put) => put.ttl(ttl).into(),
        Mutation::Increment(increment) => increment.ttl(ttl).into(),
        Mutation::Append(append) => append.ttl(ttl).into(),
        Mutation::Delete(_) => panic!("a delete has no TTL"),
    }
}

fn increment(amount: i64) -> Mutation {
    Increment::new("r").column("f", "q", amount).into()
}

fn append(suffix: &'static str) -> Mutation {
    Append::new("r").cell("f", "q", suffix).into()
}

fn delete_column() -> Mutation {
    Delete::new("r").column("f", "q").into()
}

fn delete_family() -> Mutation {
    Delete::new("r").family("f").into()
}

fn delete_row() -> Mutation {
    Delete::new("r").into()
}

fn up_to(timestamp: u64, delete: Mutation) -> Mutation {
    match delete {
        Mutation::Delete(delete) => delete.timestamp(timestamp).into(),
        other => panic!("{other:?} is no delete"),
    }
}

fn delete_version(timestamp: u64) -> Mutation {
    Delete::new("r").version("f", "q", timestamp).into()
}

fn fold(mutations: &[Mutation]) -> Result<Sequence<'_>> {
    Sequence::fold(mutations, &Limits::default())
}

#[rstest]
#[case::puts([put("a"), put("b")], vec![put("b")])]
#[case::puts_of_one_mutation(
    [Put::new("r").cell("f", "q", "a").cell("f", "q", "b").into(), put("c")], vec![put("c")])]
#[case::the_last_puts_ttl([lasting(put("a"), 1), put("b")], vec![put("b")])]
#[case::the_last_puts_other_ttl([lasting(put("a"), 1), lasting(put("b"), 2)], vec![lasting(put("b"), 2)])]
#[case::increments([increment(3), increment(-5)], vec![increment(-2)])]
#[case::the_largest_increments([increment(i64::MAX), increment(i64::MIN)], vec![increment(-1)])]
#[case::increments_to_nothing([increment(3), increment(-3)], vec![increment(0)])]
#[case::the_later_increments_ttl([lasting(increment(3), 1), lasting(increment(4), 2)], vec![lasting(increment(7), 2)])]
#[case::an_increment_keeps_the_ttl([lasting(increment(3), 1), increment(4)], vec![lasting(increment(7), 1)])]
#[case::appends([append("a"), append("b")], vec![append("ab")])]
#[case::empty_appends([append(""), append("b")], vec![append("b")])]
#[case::put_and_increment([number(5), increment(3)], vec![number(8)])]
#[case::the_puts_ttl([lasting(number(5), 1), increment(3)], vec![lasting(number(8), 1)])]
#[case::the_increments_ttl([lasting(number(5), 1), lasting(increment(3), 2)], vec![lasting(number(8), 2)])]
#[case::put_and_append([put("a"), append("b")], vec![put("ab")])]
#[case::increment_and_put([increment(3), put("a")], vec![put("a")])]
#[case::append_and_put([append("x"), put("a")], vec![put("a")])]
#[case::put_and_delete([put("a"), delete_column()], vec![delete_column()])]
#[case::increment_and_delete_of_the_family([increment(1), delete_family()], vec![delete_family()])]
#[case::append_and_delete_of_the_row([append("a"), delete_row()], vec![delete_row()])]
#[case::a_delete_within_a_wider_one([delete_row(), delete_column()], vec![delete_row()])]
#[case::a_delete_within_a_later_one([delete_column(), delete_family()], vec![delete_family()])]
#[case::the_same_delete_twice([delete_row(), delete_row()], vec![delete_row()])]
#[case::two_versions(
    [put_at(5, "a"), put_at(7, "b")], vec![Put::new("r").cell_at("f", "q", 5, "a").cell_at("f", "q", 7, "b").into()])]
#[case::one_version_twice([put_at(5, "a"), put_at(5, "b")], vec![put_at(5, "b")])]
#[case::a_put_of_a_timestamp(
    [Put::new("r").timestamp(5).cell("f", "q", "a").into(), put_at(5, "b")], vec![put_at(5, "b")])]
#[case::a_put_over_an_older_delete(
    [up_to(5, delete_row()), put_at(6, "a")], vec![up_to(5, delete_row()), put_at(6, "a")])]
#[case::a_put_before_a_delete_that_does_not_reach_it(
    [put_at(6, "a"), up_to(5, delete_column())], vec![put_at(6, "a"), up_to(5, delete_column())])]
#[case::a_put_before_a_delete_that_does([put_at(5, "a"), up_to(5, delete_column())], vec![up_to(5, delete_column())])]
#[case::the_later_of_two_deletes([up_to(5, delete_row()), up_to(4, delete_row())], vec![up_to(5, delete_row())])]
#[case::a_put_before_the_delete_of_that_version([put_at(5, "a"), delete_version(5)], vec![delete_version(5)])]
#[case::another_version([delete_version(5), put_at(6, "a")], vec![delete_version(5), put_at(6, "a")])]
#[case::versions_and_a_delete([delete_version(5), delete_column()],
    vec![Delete::new("r").version("f", "q", 5).column("f", "q").into()])]
#[case::other_columns_become_one_put(
    [put("a"), Put::new("r").cell("g", "q", "b").into()],
    vec![Put::new("r").cell("f", "q", "a").cell("g", "q", "b").into()])]
#[case::another_ttl_is_another_put(
    [put("a"), lasting(Put::new("r").cell("g", "q", "b").into(), 1)],
    vec![put("a"), lasting(Put::new("r").cell("g", "q", "b").into(), 1)])]
#[case::a_delete_beside_a_put(
    [Delete::new("r").family("g").column("f", "other").into(), put("a")],
    vec![Delete::new("r").family("g").column("f", "other").into(), put("a")])]
fn folds(#[case] mutations: [Mutation; 2], #[case] folded: Vec<Mutation>) {
    let sequence = fold(&mutations).unwrap();
    assert_eq!(sequence.mutations().unwrap(), folded);
}

#[rstest]
#[case::put_over_a_column([delete_column(), put("a")], put("a"))]
#[case::put_over_a_family([delete_family(), put("a")], put("a"))]
#[case::put_over_a_row([delete_row(), lasting(put("a"), 1)], lasting(put("a"), 1))]
#[case::increment([delete_row(), increment(3)], number(3))]
#[case::append([delete_column(), append("b")], put("b"))]
fn put_over_a_delete_is_stamped_by_the_server(#[case] mutations: [Mutation; 2], #[case] kept: Mutation) {
    let sequence = fold(&mutations).unwrap();
    assert!(sequence.replaces() && sequence.mutations().is_none());
    for (newest, marker) in [(0, 1_000), (999, 1_000), (1_000, 1_000), (1_050, 1_050)] {
        let stamped = stamp(&sequence, 1_000, newest).unwrap();
        assert_eq!(stamped.mutations[0], up_to(marker, mutations[0].clone()));
        assert_eq!(stamped.mutations[1..], *std::slice::from_ref(&kept));
        assert_eq!((stamped.floor, stamped.ahead), (marker, false));
    }
    let ahead = stamp(&sequence, 1_000, 5_000).unwrap();
    assert_eq!(ahead.mutations[0], up_to(5_000, mutations[0].clone()));
    let Mutation::Put(mut expected) = kept else {
        panic!()
    };
    expected.parts_mut()[0].timestamp = Some(5_001);
    assert_eq!(ahead.mutations[1..], [expected.into()]);
    assert!(ahead.ahead);
}

/// Stamps with what was found in all rows.
fn stamp(sequence: &Sequence<'_>, past: u64, newest: u64) -> Result<Stamped> {
    let extent = Extent::Row;
    let now = ServerTime {
        earliest: past + 1,
        latest: past + 1,
        is_assumed: false,
    };
    sequence.stamp(now, |_| {
        Some(Seen {
            extent: &extent,
            newest,
            is_ahead: is_ahead(newest, now),
        })
    })
}

#[rstest]
#[case::three_bytes([put("abc"), increment(1)], "put with 3 bytes and then incremented")]
#[case::a_suffix_over_a_delete([delete_row(), append("abc"), increment(1)], "put with 3 bytes")]
#[case::increments_above_the_largest([increment(i64::MAX), increment(1)], "more than a 64-bit number")]
#[case::increments_below_the_smallest([increment(i64::MIN), increment(-1)], "more than a 64-bit number")]
#[case::increment_over_the_largest([number(i64::MAX), increment(1)], "more than a 64-bit number")]
#[case::increment_of_nothing_over_the_largest([delete_row(), increment(i64::MAX), increment(1)], "more than a 64-bit number")]
#[case::increment_and_append([increment(1), append("a")], "incremented and appended to")]
#[case::append_and_increment([append("a"), increment(1)], "incremented and appended to")]
#[case::a_put_behind_a_delete_that_hides_it([up_to(5, delete_row()), put_at(5, "a")], "behind a delete")]
#[case::a_put_of_a_deleted_version([delete_version(5), put_at(5, "a")], "behind a delete")]
#[case::both_puts([put("a"), put_at(5, "b")], "with and without a timestamp")]
#[case::both_puts_the_other_way([put_at(5, "b"), put("a")], "with and without a timestamp")]
#[case::a_delete_of_a_version([put_at(5, "b"), delete_row()], "with and without a timestamp")]
#[case::a_version_over_a_delete([delete_family(), put_at(5, "b")], "with and without a timestamp")]
#[case::a_put_over_a_stamped_delete([up_to(5, delete_family()), put("b")], "with and without a timestamp")]
#[case::a_stamped_delete_over_an_increment([increment(1), up_to(5, delete_row())], "with and without a timestamp")]
#[case::an_increment_over_a_deleted_version([delete_version(5), increment(1)], "with and without a timestamp")]
#[case::a_deleted_version_of_a_put([put("a"), delete_version(5)], "with and without a timestamp")]
fn refuses_and_names_the_reason(#[case] mutations: impl IntoIterator<Item = Mutation>, #[case] why: &str) {
    let mutations: Vec<_> = mutations.into_iter().collect();
    let error = fold(&mutations).unwrap_err().to_string();
    for part in [why, "f:q", "row r"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_value_that_grows_over_the_limit_is_refused() {
    let half = || Put::new("r").cell("f", "q", vec![0; 6 << 20]);
    let more = Append::new("r").cell("f", "q", vec![0; 6 << 20]);
    let error = fold(&[half().into(), more.into()]).unwrap_err();
    assert!(error.to_string().contains("over the limit"), "{error}");
}

#[test]
fn rows_that_nothing_else_touches_stay_as_they_are_and_in_place() {
    let other = |row: &'static str| -> Mutation { Put::new(row).cell("f", "q", "v").into() };
    let mutations = [
        other("z"),
        put("a"),
        other("b"),
        Delete::new("c").family("f").column("f", "q").into(),
        put("b"),
    ];
    let sequence = fold(&mutations).unwrap();
    let expected = [
        mutations[0].clone(),
        put("b"),
        mutations[2].clone(),
        mutations[3].clone(),
    ];
    assert_eq!(sequence.mutations().unwrap(), expected);
    assert_eq!(sequence.folded(), 1);
    let simple = fold(&mutations[..4]).unwrap();
    assert!(std::ptr::eq(
        simple.mutations().unwrap(),
        &raw const mutations[..4]
    ));
}

#[test]
fn rows_to_read_are_the_rows_to_stamp() {
    let mutations = [
        Put::new("a")
            .cell("f", "q", "v")
            .cell_at("f", "old", 5, "v")
            .into(),
        Delete::new("b").family("f").column("g", "q").into(),
        Delete::new("c").into(),
        Increment::new("b").column("f", "n", 1).column("g", "n", 1).into(),
        Put::new("d").timestamp(5).cell("f", "q", "v").into(),
        Delete::new("e").version("f", "q", 5).into(),
    ];
    let sequence = fold(&mutations).unwrap();
    let key = |family: &'static str, qualifier: &'static str| (family.into(), qualifier.into());
    let parts = |families: &[&'static str], columns: &[(Bytes, Bytes)]| Extent::Parts {
        families: families.iter().copied().map(Bytes::from).collect(),
        columns: columns.iter().cloned().collect(),
    };
    let expected = [
        ("a", parts(&[], &[key("f", "q")])),
        ("b", parts(&["f"], &[key("g", "q"), key("g", "n")])),
        ("c", Extent::Row),
    ]
    .map(|(row, extent)| ToRead {
        row: row.into(),
        extent,
    });
    assert_eq!(sequence.to_read(|_, _, _| true), expected);
    let deleted = [("b", parts(&["f"], &[key("g", "q")])), ("c", Extent::Row)].map(|(row, extent)| ToRead {
        row: row.into(),
        extent,
    });
    assert_eq!(sequence.to_read(|_, _, _| false), deleted);
}

#[test]
fn deletes_reach_what_was_found_and_what_is_past() {
    let delete = Delete::new("r").family("g").column("f", "q").version("f", "v", 3);
    let mutations = [delete.into()];
    let sequence = fold(&mutations).unwrap();
    for (newest, marker) in [(0, 1_000), (5, 1_000), (1_000, 1_000), (1_009, 1_009)] {
        let stamped = stamp(&sequence, 1_000, newest).unwrap();
        let delete = Delete::new("r").family("g").column("f", "q").version("f", "v", 3);
        assert_eq!(stamped.mutations, [delete.timestamp(marker).into()]);
        let guard = GuardedCell {
            row: "r".into(),
            family: "f".into(),
            qualifier: "q".into(),
            from: marker + 1,
        };
        assert_eq!(stamped.guards, [guard]);
        let guard = GuardedRow {
            row: "r".into(),
            family: Some("g".into()),
            from: marker + 1,
        };
        assert_eq!(stamped.rows, [guard]);
    }
}

#[rstest]
#[case::put([put("a")])]
#[case::replacement([delete_row(), put("a")])]
#[case::increment([increment(1)])]
fn no_stamp_reaches_the_latest_timestamp(#[case] mutations: impl IntoIterator<Item = Mutation>) {
    let mutations: Vec<_> = mutations.into_iter().collect();
    let sequence = fold(&mutations).unwrap();
    assert!(stamp(&sequence, 1, LATEST_TIMESTAMP - 2).is_ok());
    for newest in [LATEST_TIMESTAMP - 1, u64::MAX] {
        let error = stamp(&sequence, 1, newest).unwrap_err().to_string();
        assert!(
            error.contains("no timestamp is left") && error.contains("row r"),
            "{error}"
        );
    }
}

#[test]
fn durability_stays_with_the_operations() {
    let durable = |put: Put, durability| -> Mutation { put.durability(durability).into() };
    let mutations = [
        durable(Put::new("r").cell("f", "a", "1"), Durability::FsyncWal),
        durable(Put::new("r").cell("f", "b", "1"), Durability::SyncWal),
    ];
    assert_eq!(fold(&mutations).unwrap().mutations().unwrap(), mutations);
}

#[test]
fn long_sequences_of_one_row_take_no_quadratic_time() {
    let column = |at: usize| Delete::new("r").column("f", at.to_string());
    let mutations: Vec<Mutation> = (0..20_000)
        .flat_map(|at| {
            let put = Put::new("r").cell("f", at.to_string(), "v");
            [put.into(), append("suffix"), column(at).into(), increment_of("n")]
        })
        .collect();
    let began = Instant::now();
    let sequence = fold(&mutations).unwrap();
    assert_eq!(sequence.folded(), 20_000 + 2 * 19_999);
    // Less than a second on an idle machine.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

fn increment_of(qualifier: &'static str) -> Mutation {
    Increment::new("r").column("f", qualifier, 1).into()
}
