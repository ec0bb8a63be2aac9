use crate::{
    client::{Connection, dispatch::check_many::*},
    cluster::Cluster,
    error::Effect,
    model::Put,
    rpc::Recovery,
    wire::cell_block::Codec,
};

fn change() -> Item<MultiCall> {
    let connection = Connection::new(Cluster::without_servers(), None);
    let table = connection.table("t").unwrap();
    let put = Put::new("00002").cell("f", "q", "v");
    let condition = Condition::absent("00002", "f", "q");
    item(
        0,
        table.conditional_call(NAME, condition, vec![put.into()]).unwrap(),
    )
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

fn read(result: pb::RegionActionResult) -> Result<CheckAndMutateResult, CallError> {
    let mut block = CellBlockDecoder::new(Bytes::new(), Codec::KeyValue);
    let mut results = Checks::MANY.read(&[change()], false, result, &mut block)??;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

#[test]
fn result_says_whether_the_change_was_made() {
    for is_made in [true, false] {
        let result = read(processed(is_made)).unwrap();
        assert_eq!((result.success, &**result.row.key()), (is_made, &b"00002"[..]));
    }
    let moved = read(thrown("NotServingRegionException")).unwrap_err().classify();
    assert_eq!((moved.recovery, moved.effect), (Recovery::Relocate, Effect::None));
}

#[test]
fn answer_that_does_not_say_it_leaves_the_effect_unknown() {
    let silent = pb::RegionActionResult {
        processed: None,
        ..processed(true)
    };
    assert_eq!(read(silent).unwrap_err().classify().effect, Effect::Unknown);
}
