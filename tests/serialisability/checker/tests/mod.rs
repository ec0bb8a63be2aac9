//! Histories with each anomaly, and without anomalies.

use std::{collections::BTreeMap, time::Duration};

use rstest::rstest;

use super::{Kind, Report, check};
use crate::serialisability::history::{Fate, History, List, Transaction};

mod against_all_orders;

fn list(elements: &str) -> List {
    elements.split_whitespace().map(str::to_owned).collect()
}

/// Parses `a=1 2, b=3`.
fn lists(text: &str) -> BTreeMap<String, List> {
    let keys = text.split(", ").filter(|part| !part.is_empty());
    keys.map(|part| part.split_once('=').unwrap())
        .map(|(key, elements)| (key.to_owned(), list(elements)))
        .collect()
}

/// Parses one transaction: `r a=1 2`, `s a..c: a=1, b=2`, `w a=3`, `d a`, `not applied`, `at 1..2`,
/// separated by semicolons.
fn transaction(name: usize, text: &str) -> Transaction {
    let mut transaction = Transaction::new(format!("T{name}"));
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once(' ').unwrap() {
            ("r", read) => {
                let (key, found) = read.split_once('=').unwrap();
                transaction.read(key, list(found));
            }
            ("s", span) => {
                let (range, found) = span.split_once(':').unwrap();
                let (start, stop) = range.split_once("..").unwrap();
                transaction.read_span(start, stop, lists(found.trim()));
            }
            ("w", write) => {
                let (key, element) = write.split_once('=').unwrap();
                transaction.append(key, element);
            }
            ("d", key) => drop(transaction.delete(key)),
            ("not", "applied") => transaction.fate = Fate::NotApplied,
            ("at", time) => {
                let (began, ended) = time.split_once("..").unwrap();
                transaction.began = Duration::from_secs(began.parse().unwrap());
                transaction.ended = Duration::from_secs(ended.parse().unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    transaction
}

fn report(transactions: &[&str], end: &str) -> Report {
    let transactions = transactions
        .iter()
        .enumerate()
        .map(|(name, text)| transaction(name + 1, text))
        .collect();
    let end = lists(end);
    check(&History { transactions, end })
}

#[rstest]
#[case::nothing(&[], "")]
#[case::each_saw_the_one_before(&["r x=; w x=1", "r x=1; w x=2", "r x=1 2; w x=3"], "x=1 2 3")]
#[case::written_unseen(&["w x=1", "w x=2"], "x=2 1")]
#[case::each_read_one_key_and_one_wrote(&["r x=; w y=1", "r y=1; r x="], "y=1")]
#[case::a_row_that_came_and_went(&["s k..l:; w k=1; at 1..2", "s k..l: k=1; d k; at 3..4", "s k..l:; at 5..6"], "")]
#[case::an_absence_of_either_time(
    &["w k=1", "s k..l: k=1; d k; w x=1", "s k..l:; r x=1", "s k..l:; r x="], "x=1")]
#[case::two_who_saw_nothing_of_each_other(&["s k..l:; w x=1", "s x..y:; w m=1"], "x=1, m=1")]
#[case::in_the_order_of_time(&["w x=1; at 1..2", "r x=1; at 3..4", "r x=; at 0..2"], "x=1")]
#[case::nothing_of_what_was_not_applied(&["w x=1; not applied", "r x="], "")]
#[case::what_was_not_applied_may_have_read_anything(&["w x=1", "r x=; r y=; not applied", "w y=1"], "x=1, y=1")]
fn nothing_is_found_where_nothing_is_wrong(#[case] transactions: &[&str], #[case] end: &str) {
    let report = report(transactions, end);
    assert!(report.anomalies.is_empty(), "{report}\n{:#?}", report.anomalies);
    assert_eq!(report.undecided, 0, "{report}");
}

#[rstest]
#[case::seen(&["w x=1; not applied", "r x=1"], "", Kind::DirtyRead, "T2 T1")]
#[case::there_at_the_end(&["w x=1; not applied"], "x=1", Kind::DirtyRead, "T1")]
#[case::half(&["w x=1; w x=2", "r x=1"], "x=1 2", Kind::IntermediateRead, "T2 T1")]
#[case::of_nobody(&["r x=7"], "x=7", Kind::Unwritten, "T1")]
#[case::two_times(&["w x=1", "r x=1 1"], "x=1", Kind::AppliedTwice, "T2")]
#[case::gone(&["w x=1"], "", Kind::LostUpdate, "T1")]
#[case::written_over(&["r x=; w x=1", "r x=; w x=2", "r x=1"], "x=2", Kind::LostUpdate, "T3")]
#[case::both_added_to_the_same(&["r x=; w x=1", "r x=; w x=2"], "x=1 2", Kind::LostUpdate, "T1 T2")]
#[case::deleted_by_two(
    &["w k=1", "s k..l: k=1; d k", "s k..l: k=1; d k"], "", Kind::LostUpdate, "T2 T3")]
#[case::deleted_with_more_than_was_seen(
    &["w k=1", "r k=1; d k", "w k=2", "r k=1 2"], "", Kind::LostUpdate, "T2 T3")]
#[case::deleted_and_there(&["w k=1", "r k=1; d k"], "k=1", Kind::LostUpdate, "T2")]
#[case::written_in_circles(&["w x=1; w y=1", "w x=2; w y=2"], "x=1 2, y=2 1", Kind::WriteCycle, "T1 T2")]
#[case::seen_in_circles(&["r y=1; w x=1", "r x=1; w y=1"], "x=1, y=1", Kind::CircularInformation, "T1 T2")]
#[case::seen_by_half(&["w x=1; w y=1", "r x=1; r y="], "x=1, y=1", Kind::ReadSkew, "T1 T2")]
#[case::of_two(&["r x=; r y=; w x=1", "r x=; r y=; w y=1"], "x=1, y=1", Kind::WriteSkew, "T1 T2")]
#[case::of_three(
    &["r x=; w y=1", "r y=; w z=1", "r z=; w x=1"], "x=1, y=1, z=1", Kind::WriteSkew, "T1 T2 T3")]
#[case::of_two_ranges(&["s k..l:; w k1=1", "s k..l:; w k2=1"], "k1=1, k2=1", Kind::Phantom, "T1 T2")]
#[case::of_a_range_and_a_cell(&["s k..l:; w x=1", "r x=; w k=1"], "x=1, k=1", Kind::Phantom, "T1 T2")]
#[case::a_range_that_has_seen_half(&["w k1=1; w k2=1", "s k..l: k1=1"], "k1=1, k2=1", Kind::Phantom, "T1 T2")]
#[case::what_was_not_seen_although_it_was_over(
    &["w x=1; at 1..2", "r x=; at 3..4"], "x=1", Kind::Stale, "T1 T2")]
#[case::not_seen_any_more(
    &["w x=1; at 1..2", "r x=1; at 3..4", "r x=; at 5..6"], "x=1", Kind::Stale, "T1 T2 T3")]
#[case::absent_before_it_was_deleted(
    &["w k=1; w x=1", "r k=1; d k; at 5..6", "r k=; r x=1; at 3..4"], "x=1", Kind::ReadSkew, "T1 T3")]
fn each_anomaly_is_found_and_called_by_its_name(
    #[case] transactions: &[&str],
    #[case] end: &str,
    #[case] kind: Kind,
    #[case] who: &str,
) {
    let report = report(transactions, end);
    let found = report.anomalies.iter().find(|anomaly| anomaly.kind == kind);
    let found = found.unwrap_or_else(|| panic!("{report}\n{:#?}", report.anomalies));
    let mut names = found.transactions.clone();
    // A cycle has no first transaction.
    if report.anomalies.len() == 1 && kind > Kind::LostUpdate {
        names.sort();
    }
    assert_eq!(names.join(" "), who, "{found}");
}

#[test]
fn a_cycle_with_a_phantom_is_no_excuse_for_one_without() {
    let both = report(
        &[
            "s k..l:; r x=; r y=; w k1=1; w x=1",
            "s k..l:; r x=; r y=; w k2=1; w y=1",
        ],
        "k1=1, k2=1, x=1, y=1",
    );
    assert_eq!(both.kinds().into_keys().collect::<Vec<_>>(), [Kind::WriteSkew]);
}

#[test]
fn cycles_that_share_nobody_are_all_found() {
    let transactions: Vec<String> = (0..10)
        .flat_map(|pair| {
            [
                format!("r x{pair}=; w y{pair}=1"),
                format!("r y{pair}=; w x{pair}=1"),
            ]
        })
        .collect();
    let end: Vec<String> = (0..10).map(|pair| format!("x{pair}=1, y{pair}=1")).collect();
    let texts: Vec<&str> = transactions.iter().map(String::as_str).collect();
    let report = report(&texts, &end.join(", "));
    assert_eq!(report.kinds(), BTreeMap::from([(Kind::WriteSkew, 10)]));
}

#[test]
fn ambiguous_absence_is_counted_and_proves_nothing() {
    let report = report(&["w k=1; w x=1", "s k..l: k=1; d k", "s k..l:; r x=1"], "x=1");
    assert!(report.anomalies.is_empty(), "{:#?}", report.anomalies);
    assert_eq!(report.undecided, 1);
}

#[test]
fn the_report_shows_the_cycle_and_its_transactions() {
    let report = report(&["r x=; r y=; w x=1", "r x=; r y=; w y=1"], "x=1, y=1");
    let text = report.anomalies[0].to_string();
    for line in [
        "T1 has not seen T2 y",
        "T2 has not seen T1 x",
        "T1 Committed some time: read(x = []) read(y = []) append(x, 1)",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
}
