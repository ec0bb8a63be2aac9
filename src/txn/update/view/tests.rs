use std::{sync::LazyLock, time::Duration};

use hbase_client::{Durability, low_level::Limits};
use rstest::rstest;

use crate::{
    error::ErrorKind,
    partition::PartitionRule,
    txn::{snapshot::tests::snapshot, update::view::*},
};

fn terms() -> Terms {
    Terms {
        rule: PartitionRule::prefix_length(3).unwrap(),
        families: [Bytes::from("f")].into(),
        durability: Durability::UseDefault,
        partition_version: true,
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

fn table() -> &'static TableName {
    static NAME: LazyLock<TableName> = LazyLock::new(|| "t".parse().unwrap());
    &NAME
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[tokio::test]
async fn impossible_cell_is_refused_even_under_the_version() {
    let (snapshot, terms) = (snapshot(&[("xxxa", "q", "v")], Some(b"1")), terms());
    let options = UpdateOptions::new().max_conditions(1);
    let mut view = UpdateView::new(&snapshot, table(), &terms, &options, true, soon());
    assert_eq!(view.value("xxxa", "f", "q").unwrap().unwrap(), "v");
    assert_eq!(view.value("xxxb", "f", "q").unwrap(), None);
    let kind = |read: Result<Option<&Bytes>>| read.unwrap_err().kind();
    assert_eq!(kind(view.value("yyya", "f", "q")), ErrorKind::OtherPartition);
    assert_eq!(
        kind(view.value("xxxa", "g", "q")),
        ClientErrorKind::FamilyNotFound
    );
    assert_eq!(view.group.conditions.len(), 1);
}

#[tokio::test]
async fn a_condition_on_what_was_read_says_something_of_what_was_read() {
    let (snapshot, terms) = (snapshot(&[("xxxa", "q", "v")], None), terms());
    let options = UpdateOptions::new();
    let mut view = UpdateView::new(&snapshot, table(), &terms, &options, false, soon());
    view.value("xxxa", "f", "q").unwrap();
    view.condition(Condition::equal("xxxa", "f", "q", "v")).unwrap();
    view.condition(Condition::present("xxxb", "f", "q")).unwrap();
    let change = view.finish().unwrap();
    assert_eq!(change.reads, BTreeSet::from([0]));
    assert_eq!(change.group.conditions.len(), 3);
}

#[rstest]
#[case("xxw", "", true)]
#[case("", "xxyb", true)]
#[case("", "xxw", true)]
#[case("xxya", "xxyb", true)]
#[case("xxx", "xxy", false)]
#[case("xxxc", "xxxb", false)]
#[tokio::test]
async fn range_that_is_not_within_the_partition_is_refused(
    #[case] start: &str,
    #[case] stop: &str,
    #[case] refused: bool,
) {
    let (snapshot, terms) = (snapshot(&CELLS, None), terms());
    let options = UpdateOptions::new();
    let mut view = UpdateView::new(&snapshot, table(), &terms, &options, false, soon());
    let kind = view.rows(start, stop).err().map(|error| error.kind());
    assert_eq!(kind, refused.then_some(ErrorKind::OtherPartition));
}

const CELLS: [(&str, &str, &str); 4] = [
    ("xxxa", "p", "1"),
    ("xxxa", "q", "2"),
    ("xxxb", "q", ""),
    ("xxxc", "q", "4"),
];

fn write(view: &mut UpdateView<'_>) -> Result<()> {
    view.put(Put::new("xxxz").cell("f", "q", "v")).map(|_| ())
}

/// Returns the labels of the conditions from a closure's reads, or `None` if nothing is sent.
fn conditions(
    options: &UpdateOptions,
    versioned: bool,
    closure: impl FnOnce(&mut UpdateView<'_>) -> Result<()>,
) -> Result<Option<Vec<String>>> {
    let (snapshot, terms) = (snapshot(&CELLS, None), terms());
    let mut view = UpdateView::new(&snapshot, table(), &terms, options, versioned, soon());
    closure(&mut view)?;
    let labels = |change: Change| {
        let conditions = change.group.conditions.iter();
        conditions
            .map(|condition| condition.label_text().into_owned())
            .collect()
    };
    if view.only_reads() {
        return Ok(None);
    }
    view.finish().map(labels).map(Some)
}

#[rstest]
#[case::a_value(
    |view: &mut UpdateView<'_>| { assert_eq!(view.value("xxxa", "f", "q")?.unwrap(), "2"); write(view) },
    &["xxxa f:q = 2"]
)]
#[case::no_value(
    |view: &mut UpdateView<'_>| { assert_eq!(view.value("xxxa", "f", "z")?, None); write(view) },
    &["xxxa f:z absent"]
)]
#[case::an_empty_value(
    |view: &mut UpdateView<'_>| { assert_eq!(view.value("xxxb", "f", "q")?, None); write(view) },
    &["xxxb f:q absent"]
)]
#[case::a_cell_twice(
    |view: &mut UpdateView<'_>| { view.cell("xxxa", "f", "q")?; view.value("xxxa", "f", "q")?; write(view) },
    &["xxxa f:q = 2"]
)]
#[case::a_row_twice_behind_a_cell(
    |view: &mut UpdateView<'_>| { view.value("xxxa", "f", "q")?; view.row("xxxa")?; view.row("xxxa")?; write(view) },
    &["xxxa f:q = 2", "xxxa f:p = 1"]
)]
#[case::a_range(
    |view: &mut UpdateView<'_>| { assert_eq!(view.rows("xxxb", "xxxd")?.len(), 2); write(view) },
    &["xxxb f:q absent", "xxxc f:q = 4"]
)]
#[case::a_prefix(
    |view: &mut UpdateView<'_>| { assert_eq!(view.rows_with_prefix("xxxa")?.len(), 1); write(view) },
    &["xxxa f:p = 1", "xxxa f:q = 2"]
)]
#[case::what_is_written_in_a_row_that_was_not_there(
    |view: &mut UpdateView<'_>| { assert_eq!(view.row("xxxz")?, None); write(view) },
    &["xxxz f:q absent"]
)]
#[case::what_is_written_in_a_range(
    |view: &mut UpdateView<'_>| { view.rows("xxxx", "")?; view.put(Put::new("xxxw").cell("f", "q", "v"))?; write(view) },
    &["xxxz f:q absent"]
)]
#[case::what_is_counted_and_appended_in_a_row(
    |view: &mut UpdateView<'_>| {
        view.row("xxxz")?;
        view.increment(Increment::new("xxxz").column("f", "n", 1))?;
        view.append(Append::new("xxxz").cell("f", "s", "v"))?;
        view.delete(Delete::new("xxxa")).map(|_| ())
    },
    &["xxxz f:n absent", "xxxz f:s absent"]
)]
fn reads_become_conditions(
    #[case] closure: impl FnOnce(&mut UpdateView<'_>) -> Result<()> + Copy,
    #[case] expected: &[&str],
) {
    let options = UpdateOptions::new();
    let by_cells = conditions(&options, false, closure).unwrap().unwrap();
    assert_eq!(by_cells, expected);
    let by_version = conditions(&options, true, closure).unwrap().unwrap();
    assert_eq!(by_version[..expected.len()], by_cells);
    assert_eq!(by_version[expected.len()..], ["partition xxx unchanged"]);
}

#[rstest]
fn update_that_reads_and_changes_nothing_sends_nothing(#[values(false, true)] versioned: bool) {
    let options = UpdateOptions::new();
    assert_eq!(conditions(&options, versioned, write).unwrap(), Some(vec![]));
    let only_reads = |view: &mut UpdateView<'_>| view.rows("", "").map(|_| ());
    assert_eq!(conditions(&options, versioned, only_reads).unwrap(), None);
}

#[test]
fn too_many_cells_are_refused_unless_a_version_is_used() {
    let reads_all = |view: &mut UpdateView<'_>| {
        view.rows("", "")?;
        write(view)
    };
    let options = UpdateOptions::new().max_conditions(3);
    let error = conditions(&options, false, reads_all).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
    let sent = conditions(&options, true, reads_all).unwrap().unwrap();
    assert_eq!((sent.len(), &sent[3][..]), (4, "partition xxx unchanged"));
}

#[rstest]
#[case::cells(|view: &mut UpdateView<'_>, number: usize| view.value(format!("xxx{number}"), "f", "q").map(|_| ()))]
#[case::rows(|view: &mut UpdateView<'_>, number: usize| view.row(format!("xxx{number}")).map(|_| ()))]
#[case::ranges(|view: &mut UpdateView<'_>, number: usize| view.rows(format!("xxx{number}"), "").map(|_| ()))]
#[case::puts(|view: &mut UpdateView<'_>, number: usize| view.put(Put::new(format!("xxx{number}")).cell("f", "q", "v")).map(|_| ()))]
#[case::conditions(|view: &mut UpdateView<'_>, number: usize| view.condition(Condition::absent(format!("xxx{number}"), "f", "q")).map(|_| ()))]
fn a_closure_that_asks_for_ever_more_is_ended(
    #[case] step: impl Fn(&mut UpdateView<'_>, usize) -> Result<()>,
) {
    let (snapshot, options, terms) = (snapshot(&CELLS, None), UpdateOptions::new(), terms());
    let mut view = UpdateView::new(&snapshot, table(), &terms, &options, false, soon());
    let error = (0..).find_map(|number| step(&mut view, number).err()).unwrap();
    assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
}

#[test]
fn rows_that_the_version_stands_for_are_not_kept_without_bound() {
    let (snapshot, terms) = (snapshot(&CELLS, None), terms());
    let options = UpdateOptions::new().max_conditions(10);
    let mut view = UpdateView::new(&snapshot, table(), &terms, &options, true, soon());
    for number in 0..100 {
        view.row(format!("xxx{number}")).unwrap();
    }
    assert_eq!(view.whole_rows.len(), 10);
}

#[rstest]
fn once_the_time_is_over_every_call_fails(#[values(false, true)] versioned: bool) {
    let (snapshot, options, terms) = (snapshot(&CELLS, None), UpdateOptions::new(), terms());
    let mut view = UpdateView::new(&snapshot, table(), &terms, &options, versioned, Instant::now());
    let errors = [
        view.value("xxxa", "f", "q").unwrap_err(),
        view.row("xxxa").unwrap_err(),
        view.rows("", "").unwrap_err(),
        write(&mut view).unwrap_err(),
        view.condition(Condition::absent("xxxa", "f", "q")).unwrap_err(),
    ];
    assert!(
        errors
            .iter()
            .all(|error| error.kind() == ClientErrorKind::DeadlineExceeded),
        "{errors:?}"
    );
}
