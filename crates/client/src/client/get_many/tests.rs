use proptest::{collection::vec, prelude::*};

use super::{
    call::{Limits, PartAnswer, read},
    *,
};
use crate::{
    client::Connection,
    cluster::Cluster,
    config::Config,
    environment::SystemEnvironment,
    model::RegionInfo,
    rpc::{Recovery, TcpConnector},
    wire::{
        cell_block::{CellBlockDecoder, Codec},
        pb,
    },
};

fn table() -> Table {
    let config = Config::from_uri("hbase+rpc://127.0.0.1:1").unwrap();
    let cluster = Cluster::new(config, Arc::new(TcpConnector), Arc::new(SystemEnvironment));
    Connection::new(cluster, None).table("t").unwrap()
}

fn location() -> Arc<RegionLocation> {
    Arc::new(RegionLocation {
        region: RegionInfo::meta(),
        server: ServerName {
            host: "h".into(),
            port: 1,
            start_code: 1,
        },
        open_sequence: 1,
        opened_at: None,
        replicas: Vec::new(),
        asked_at: Instant::now(),
    })
}

fn operation(table: &Table) -> ReadMany {
    ReadMany {
        name: "get_many",
        deadline: table.deadline(),
    }
}

/// Returns a part with the rows of these numbers, in this order.
fn placed(table: &Table, rows: std::ops::Range<usize>) -> Placed<'_> {
    let gets = rows.map(|place| {
        let row = Bytes::from(format!("{place:05}"));
        Wanted {
            place,
            message: convert::get_message(&Get::new(row.clone()))
                .encode_to_vec()
                .into(),
            row,
        }
    });
    Placed {
        part: table.part(gets.collect(), operation(table)).unwrap(),
        location: location(),
    }
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

fn read_all(
    call: &[Placed<'_>],
    region_action_result: Vec<pb::RegionActionResult>,
) -> Result<Vec<PartAnswer>, CallError> {
    let answer = pb::MultiResponse {
        region_action_result,
        ..pb::MultiResponse::default()
    };
    read(call, answer, CellBlockDecoder::new(Bytes::new(), Codec::KeyValue))
}

#[test]
fn existence_of_a_row_is_an_answer_without_cells() {
    let table = table();
    let call = [placed(&table, 0..3)];
    let exists = |index, exists| pb::ResultOrException {
        result: Some(pb::Result {
            exists: Some(exists),
            ..pb::Result::default()
        }),
        ..result(index, None)
    };
    let answers = vec![exists(0, true), exists(1, false), result(2, None)];
    let answer = read_all(&call, vec![of_region(answers)]).unwrap();
    let found: Vec<_> = answer[0]
        .found
        .iter()
        .map(|(_, row)| row.as_ref().map(Row::key))
        .collect();
    assert_eq!(found, [Some(&Bytes::from("00000")), None, None]);
}

#[test]
fn rows_are_found_by_index_and_a_region_that_failed_fails_alone() {
    let table = table();
    let call = [placed(&table, 0..3), placed(&table, 3..5)];
    let first = of_region(vec![
        result(2, Some("00002")),
        thrown(1, "NotServingRegionException"),
        result(0, None),
    ]);
    let second = pb::RegionActionResult {
        exception: Some(exception("NotServingRegionException")),
        ..pb::RegionActionResult::default()
    };
    let answers = read_all(&call, vec![first, second]).unwrap();
    let found = |at: usize| {
        let found = answers[at].found.iter();
        found
            .map(|(place, row)| (*place, row.as_ref().map(|row| row.key().clone())))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(0), [(2, Some("00002".into())), (0, None)]);
    assert!(answers[0].failures.keys().eq(&[1]));
    assert_eq!(found(1), []);
    assert!(answers[1].failures.keys().eq(&[0, 1]));

    let left: Vec<_> = call
        .into_iter()
        .zip(answers)
        .flat_map(|(placed, answer)| placed.without(answer.failures))
        .map(|failed| {
            assert_eq!(failed.failure.classify().recovery, Recovery::Relocate);
            let gets = failed.placed.part.gets.iter();
            gets.map(|get| get.place).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(left, [vec![1], vec![3, 4]]);
}

#[test]
fn gets_that_failed_in_different_ways_are_parted() {
    let table = table();
    let call = [placed(&table, 0..4)];
    let results = of_region(vec![
        thrown(0, "NotServingRegionException"),
        thrown(1, "regionserver.NoSuchColumnFamilyException"),
        result(2, None),
        thrown(3, "NotServingRegionException"),
    ]);
    let answer = read_all(&call, vec![results]).unwrap().pop().unwrap();
    let failed = call.into_iter().next().unwrap().without(answer.failures);
    let mut ways: Vec<_> = failed
        .iter()
        .map(|failed| {
            let gets = failed.placed.part.gets.iter().map(|get| get.place);
            (gets.collect::<Vec<_>>(), failed.failure.classify().recovery)
        })
        .collect();
    ways.sort_by_key(|(gets, _)| gets[0]);
    assert_eq!(
        ways,
        [(vec![0, 3], Recovery::Relocate), (vec![1], Recovery::Fail)]
    );
}

#[test]
fn a_part_that_was_answered_is_done() {
    let table = table();
    assert!(placed(&table, 0..2).without(BTreeMap::new()).is_empty());
}

#[test]
fn answers_that_no_server_gives_are_refused() {
    let table = table();
    let call = [placed(&table, 0..2)];
    let nothing = pb::ResultOrException {
        index: Some(1),
        ..pb::ResultOrException::default()
    };
    for (results, wanted) in [
        (vec![], "0 answers to 1 region actions"),
        (
            vec![of_region(vec![]), of_region(vec![])],
            "2 answers to 1 region actions",
        ),
        (vec![of_region(vec![result(0, None)])], "a get without an answer"),
        (
            vec![of_region(vec![result(0, None), result(0, None)])],
            "a second one of the same",
        ),
        (
            vec![of_region(vec![result(0, None), result(2, None)])],
            "a result of no get of the call",
        ),
        (
            vec![of_region(vec![result(0, None), nothing])],
            "no result to a get",
        ),
        (
            vec![of_region(vec![result(0, None), result(1, Some("other"))])],
            "another row than the one that was asked for",
        ),
    ] {
        let error = read_all(&call, results).err().unwrap();
        assert!(matches!(error, CallError::BadAnswer(_)), "{error:?}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

proptest! {
    #[test]
    fn gets_are_batched_in_order_within_the_call_limit(
        sizes in vec(1..30_usize, 1..8),
        gets in 1..20_usize,
        bytes in 1..200_usize,
    ) {
        let table = table();
        let mut from = 0;
        let parts = sizes.iter().map(|size| {
            from += size;
            placed(&table, from - size..from)
        });
        let limits = Limits {
            gets,
            bytes,
            lanes: 1,
        };
        let calls = table.calls(parts.collect(), limits, operation(&table));
        let mut places = Vec::new();
        for call in &calls {
            let wanted: Vec<_> = call.iter().flat_map(|placed| &placed.part.gets).collect();
            let len: usize = wanted.iter().map(|get| get.message.len()).sum();
            prop_assert!(wanted.len() == 1 || wanted.len() <= gets && len <= bytes);
            prop_assert!(call.iter().all(|placed| !placed.part.gets.is_empty()));
            places.extend(wanted.iter().map(|get| get.place));
        }
        prop_assert!(places.iter().copied().eq(0..sizes.iter().sum()));
        // All messages have the same length here.
        let one = convert::get_message(&Get::new("00000")).encoded_len();
        let most = gets.min(bytes / one).max(1);
        prop_assert_eq!(calls.len(), places.len().div_ceil(most));
    }
}
