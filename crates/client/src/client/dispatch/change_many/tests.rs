use rstest::rstest;

use crate::{
    client::{dispatch::change_many::*, region_call::failed_attempt::is_refusal},
    error::Effect,
    model::{Append, Increment},
    wire::{cell_block::CellBlockDecoder, pb},
};

const CHANGES: Changes = Changes { nonce_group: None };

fn change(mutation: impl Into<Mutation>) -> Item<Change> {
    Item {
        place: 0,
        row: mutation.into().row().clone(),
        weight: 10,
        payload: Change {
            message: Bytes::new(),
            is_alone: false,
        },
    }
}

/// An increment of the row `a` and an append to the row `b`.
fn two() -> Vec<Item<Change>> {
    vec![
        change(Increment::new("a").column("f", "n", 1)),
        change(Append::new("b").cell("f", "q", "x")),
    ]
}

fn cell(row: &'static str, qualifier: &'static str) -> pb::Cell {
    pb::Cell {
        row: Some(row.into()),
        family: Some("f".into()),
        qualifier: Some(qualifier.into()),
        ..Default::default()
    }
}

fn answer(index: u32, cells: Vec<pb::Cell>) -> pb::ResultOrException {
    pb::ResultOrException {
        index: Some(index),
        result: Some(pb::Result {
            cell: cells,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn refusal(index: u32) -> pb::ResultOrException {
    pb::ResultOrException {
        index: Some(index),
        exception: Some(exception()),
        ..Default::default()
    }
}

fn exception() -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: "org.apache.hadoop.hbase.DoNotRetryIOException".into(),
        value: Some("org.apache.hadoop.hbase.DoNotRetryIOException: why".into()),
    }
}

fn read(
    changes: &[Item<Change>],
    is_repeated: bool,
    result_or_exception: Vec<pb::ResultOrException>,
) -> Result<ActionResult<Row>, CallError> {
    let result = pb::RegionActionResult {
        result_or_exception,
        ..Default::default()
    };
    let mut block = CellBlockDecoder::new(Bytes::new(), Codec::KeyValue);
    CHANGES.read(changes, is_repeated, result, &mut block)
}

/// The rows and their qualifiers, as text.
fn columns(rows: &[Result<Row, CallError>]) -> Vec<String> {
    let texts = rows.iter().map(|row| {
        let row = row.as_ref().unwrap();
        let mut text = BytesBinary(row.key()).to_string();
        for cell in row.cells() {
            text += &format!(" {}", BytesBinary(&cell.qualifier));
        }
        text
    });
    texts.collect()
}

#[test]
fn merged_cells_are_returned_by_row() {
    let merged = vec![cell("b", "q"), cell("a", "n")];
    let rows = read(&two(), false, vec![answer(0, merged), answer(1, Vec::new())]);
    assert_eq!(columns(&rows.unwrap().unwrap()), ["a n", "b q"]);
}

#[rstest]
#[case(false, 1)]
#[case(true, 0)]
fn values_of_a_repeated_change_are_not_returned(#[case] is_repeated: bool, #[case] expected: usize) {
    let change = [change(Increment::new("a").column("f", "n", 1))];
    let rows = read(&change, is_repeated, vec![answer(0, vec![cell("a", "n")])])
        .unwrap()
        .unwrap();
    assert_eq!(rows[0].as_ref().unwrap().cells().len(), expected);
}

#[test]
fn the_exception_of_a_lone_change_is_its_failure() {
    let lone = &two()[..1];
    let failure = read(lone, false, vec![refusal(0)]).unwrap().unwrap_err();
    assert!(is_refusal(&failure), "{failure:?}");
}

#[rstest]
#[case::none(vec![])]
#[case::one(vec![answer(0, vec![])])]
#[case::one_twice(vec![answer(0, vec![]), answer(0, vec![])])]
#[case::too_many(vec![answer(0, vec![]), answer(1, vec![]), answer(2, vec![])])]
#[case::another_row(vec![answer(0, vec![cell("c", "n")]), answer(1, vec![])])]
#[case::failed_in_part(vec![answer(0, vec![]), refusal(1)])]
fn an_answer_that_is_none_leaves_the_effect_unknown(#[case] answers: Vec<pb::ResultOrException>) {
    let error = read(&two(), false, answers).unwrap_err();
    assert!(matches!(error, CallError::BadAnswer(_)), "{error:?}");
    assert_eq!(error.classify().effect, Effect::Unknown);
}

/// The rows of the actions of these changes, which are sorted.
fn actions(changes: Vec<Item<Change>>) -> Vec<Vec<String>> {
    let row = |change: &Item<Change>| String::from_utf8_lossy(&change.row).into_owned();
    let rows = |action: &Vec<Item<Change>>| action.iter().map(row).collect();
    CHANGES.actions(changes).iter().map(rows).collect()
}

#[test]
fn an_action_has_a_row_once() {
    let of = |row: &'static str| change(Increment::new(row).column("f", "n", 1));
    let changes = ["a", "a", "a", "b", "c", "c"].map(of);
    assert_eq!(
        actions(changes.into()),
        [vec!["a", "b", "c"], vec!["a", "c"], vec!["a"]]
    );
}

#[test]
fn an_action_is_limited_in_changes_and_bytes() {
    let of = |number: usize| change(Increment::new(format!("{number:04}")).column("f", "n", 1));
    let sizes = |changes| actions(changes).iter().map(Vec::len).collect::<Vec<_>>();
    let mut changes: Vec<_> = (0..250).map(of).collect();
    assert_eq!(sizes(changes), [100, 100, 50]);
    changes = (0..10).map(of).collect();
    changes[2].weight = LIMITS.bytes;
    changes[5].payload.is_alone = true;
    assert_eq!(sizes(changes), [2, 1, 2, 1, 4]);
}
