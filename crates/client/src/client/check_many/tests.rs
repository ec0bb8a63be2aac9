use bytes::Bytes;

use super::*;
use crate::{
    client::Connection,
    cluster::Cluster,
    config::Config,
    environment::SystemEnvironment,
    error::Effect,
    model::{Put, RegionInfo, ServerName},
    rpc::{Recovery, TcpConnector},
    wire::cell_block::Codec,
};

fn table() -> Table {
    let config = Config::from_uri("hbase+rpc://127.0.0.1:1").unwrap();
    let cluster = Cluster::new(config, Arc::new(TcpConnector), Arc::new(SystemEnvironment));
    Connection::new(cluster, None).table("t").unwrap()
}

fn placed(table: &Table, place: usize, bytes: usize) -> Placed<'_> {
    let row = format!("{place:05}");
    let put = Put::new(row.clone()).cell("f", "q", vec![0; bytes]);
    let condition = Condition::absent(row, "f", "q");
    let call = table.conditional_call(NAME, condition, vec![put.into()]).unwrap();
    Placed {
        change: Change {
            place,
            attempts: RegionCall::of_row(
                table,
                NAME,
                Cow::Owned(call.row.clone()),
                CallKind::Write,
                table.deadline(),
            ),
            call,
        },
        location: Arc::new(RegionLocation {
            region: RegionInfo::meta(),
            server: ServerName::new("h", 1, 1).unwrap(),
            open_sequence: 1,
            opened_at: None,
            replicas: Vec::new(),
            asked_at: Instant::now(),
        }),
    }
}

/// Returns the numbers of changes in the calls for changes of these sizes.
fn sizes(bytes: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let table = table();
    let placed = bytes
        .into_iter()
        .enumerate()
        .map(|(place, bytes)| placed(&table, place, bytes));
    let calls = calls(placed.collect());
    let places = calls.iter().flatten().map(|placed| placed.change.place);
    assert!(places.eq(0..calls.iter().map(Vec::len).sum()));
    calls.iter().map(Vec::len).collect()
}

#[test]
fn calls_are_limited_by_changes_and_bytes() {
    assert_eq!(sizes([]), [0; 0]);
    assert_eq!(sizes([1; 2_500]), [1_000, 1_000, 500]);
    assert_eq!(sizes([400_000; 5]), [2, 2, 1]);
    assert_eq!(sizes([1, 2_000_000, 1, 1]), [1, 1, 2]);
}

fn processed(processed: bool) -> pb::RegionActionResult {
    pb::RegionActionResult {
        result_or_exception: vec![pb::ResultOrException {
            index: Some(0),
            ..pb::ResultOrException::default()
        }],
        processed: Some(processed),
        ..pb::RegionActionResult::default()
    }
}

fn thrown(class: &str) -> pb::RegionActionResult {
    pb::RegionActionResult {
        exception: Some(pb::NameBytesPair {
            name: format!("org.apache.hadoop.hbase.{class}"),
            value: Some("why".into()),
        }),
        ..pb::RegionActionResult::default()
    }
}

fn read_all(
    call: &[Placed<'_>],
    region_action_result: Vec<pb::RegionActionResult>,
) -> Result<Vec<Result<CheckAndMutateResult, CallError>>, CallError> {
    let answer = pb::MultiResponse {
        region_action_result,
        ..pb::MultiResponse::default()
    };
    read(call, answer, CellBlockDecoder::new(Bytes::new(), Codec::KeyValue))
}

#[test]
fn a_change_that_failed_fails_alone() {
    let table = table();
    let call: Vec<_> = (0..4).map(|place| placed(&table, place, 1)).collect();
    let silent = pb::RegionActionResult {
        processed: None,
        ..processed(true)
    };
    let moved = thrown("NotServingRegionException");
    let results = read_all(&call, vec![processed(true), moved, processed(false), silent]).unwrap();
    let success = |at: usize| results[at].as_ref().unwrap().success;
    assert_eq!((success(0), success(2)), (true, false));
    assert_eq!(results[2].as_ref().unwrap().row.key(), "00002");
    let moved = results[1].as_ref().unwrap_err().classify();
    assert_eq!((moved.recovery, moved.effect), (Recovery::Relocate, Effect::None));
    let silent = results[3].as_ref().unwrap_err().classify();
    assert_eq!(silent.effect, Effect::Unknown);
}

#[test]
fn answers_to_other_changes_are_refused() {
    let table = table();
    let call: Vec<_> = (0..2).map(|place| placed(&table, place, 1)).collect();
    for answers in [0, 1, 3] {
        let failure = read_all(&call, vec![processed(true); answers]).unwrap_err();
        assert_eq!(failure.classify().effect, Effect::Unknown, "{failure:?}");
    }
}
