use crate::{
    client::dispatch::{get_many::kind::*, results},
    rpc::Recovery,
    wire::cell_block::{CellBlockDecoder, Codec},
};

/// Returns gets of the rows of these numbers.
fn gets(rows: std::ops::Range<usize>) -> Vec<Item<Bytes>> {
    let get = |place| Item {
        place,
        row: format!("{place:05}").into(),
        weight: 10,
        payload: Bytes::new(),
    };
    rows.map(get).collect()
}

fn result(index: u32, row: Option<&'static str>) -> pb::ResultOrException {
    let cell = row.map(|row| pb::Cell {
        row: Some(row.into()),
        ..pb::Cell::default()
    });
    pb::ResultOrException {
        index: Some(index),
        result: Some(pb::Result {
            cell: cell.into_iter().collect(),
            ..pb::Result::default()
        }),
        ..pb::ResultOrException::default()
    }
}

fn exception(class: &str) -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: format!("org.apache.hadoop.hbase.{class}"),
        value: Some("why".into()),
    }
}

fn thrown(index: u32, class: &str) -> pb::ResultOrException {
    pb::ResultOrException {
        index: Some(index),
        exception: Some(exception(class)),
        ..pb::ResultOrException::default()
    }
}

fn of_region(results: Vec<pb::ResultOrException>) -> pb::RegionActionResult {
    pb::RegionActionResult {
        result_or_exception: results,
        ..pb::RegionActionResult::default()
    }
}

fn read(
    gets: &[Item<Bytes>],
    result: pb::RegionActionResult,
) -> Result<ActionResult<Option<Row>>, CallError> {
    let mut block = CellBlockDecoder::new(Bytes::new(), Codec::KeyValue);
    Gets::SOON.read(gets, false, result, &mut block)
}

/// Returns the keys of the rows that were found, or how to recover from the failures.
fn keys(rows: Vec<Result<Option<Row>, CallError>>) -> Vec<Result<Option<Bytes>, Recovery>> {
    let key = |row: Option<Row>| row.map(|row| row.key().clone());
    rows.into_iter()
        .map(|row| row.map(key).map_err(|failure| failure.classify().recovery))
        .collect()
}

#[test]
fn existence_of_a_row_is_an_answer_without_cells() {
    let exists = |index, exists| pb::ResultOrException {
        result: Some(pb::Result {
            exists: Some(exists),
            ..pb::Result::default()
        }),
        ..result(index, None)
    };
    let answers = vec![exists(0, true), exists(1, false), result(2, None)];
    let rows = read(&gets(0..3), of_region(answers)).unwrap().unwrap();
    assert_eq!(keys(rows), [Ok(Some("00000".into())), Ok(None), Ok(None)]);
}

#[test]
fn rows_are_found_by_index_and_a_get_that_failed_fails_alone() {
    let answers = of_region(vec![
        result(2, Some("00002")),
        thrown(1, "NotServingRegionException"),
        thrown(3, "regionserver.NoSuchColumnFamilyException"),
        result(0, None),
    ]);
    let rows = read(&gets(0..4), answers).unwrap().unwrap();
    assert_eq!(
        keys(rows),
        [
            Ok(None),
            Err(Recovery::Relocate),
            Ok(Some("00002".into())),
            Err(Recovery::Fail)
        ]
    );
}

#[test]
fn exception_of_a_region_is_the_failure_of_its_gets() {
    let moved = pb::RegionActionResult {
        exception: Some(exception("NotServingRegionException")),
        ..pb::RegionActionResult::default()
    };
    let failure = read(&gets(0..2), moved).unwrap().unwrap_err();
    assert_eq!(failure.classify().recovery, Recovery::Relocate);
}

#[test]
fn answers_that_no_server_gives_are_refused() {
    let nothing = pb::ResultOrException {
        index: Some(1),
        ..pb::ResultOrException::default()
    };
    for (answers, wanted) in [
        (vec![result(0, None)], "an operation without an answer"),
        (vec![result(0, None), result(0, None)], "a second one of the same"),
        (
            vec![result(0, None), result(2, None)],
            "a result of no operation of the call",
        ),
        (vec![result(0, None), nothing], "no result to a get"),
        (
            vec![result(0, None), result(1, Some("other"))],
            "another row than the one that was asked for",
        ),
    ] {
        let error = read(&gets(0..2), of_region(answers)).unwrap_err();
        assert!(matches!(error, CallError::BadAnswer(_)), "{error:?}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    for answers in [0, 2] {
        let error = results::of_actions(vec![(); answers], 1).unwrap_err();
        let wanted = format!("{answers} answers to 1 region actions");
        assert!(error.to_string().contains(&wanted), "{error}");
    }
}

#[test]
fn large_region_has_several_actions() {
    let sizes = |gets| Gets::SOON.actions(gets).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(gets(0..3_000)), [1_250, 1_250, 500]);
    let mut large = gets(0..4);
    large[1].weight = MOST_BYTES_TOGETHER;
    assert_eq!(sizes(large), [1, 1, 2]);
}
