use proptest::{collection::vec, prelude::*};

use crate::{
    client::{Connection, dispatch::*},
    cluster::Cluster,
    rpc::Recovery,
    wire::frame::RemoteFault,
};

fn table() -> Table {
    let connection = Connection::new(Cluster::without_servers(), None);
    connection.table("t").unwrap()
}

fn items(places: std::ops::Range<usize>) -> Vec<Item<()>> {
    let item = |place| Item {
        place,
        row: format!("{place:05}").into(),
        weight: 10,
        payload: (),
    };
    places.map(item).collect()
}

/// Returns a location of the region of this name.
pub(super) fn location(region: &str) -> Arc<RegionLocation> {
    let region = RegionInfo {
        name: region.to_owned().into(),
        ..RegionInfo::meta()
    };
    Arc::new(RegionLocation::new(region, ServerName::new("h", 1, 1).unwrap()))
}

/// Returns an action of a region with operations of these numbers.
fn action<'a>(table: &'a Table, region: &str, places: std::ops::Range<usize>) -> Placed<'a, ()> {
    let items = items(places);
    let (row, deadline) = (Cow::Owned(items[0].row.clone()), table.deadline());
    Placed {
        part: Part {
            attempts: RegionCall::of_row(table, "test", row, CallKind::Read, deadline),
            items,
        },
        location: location(region),
    }
}

fn places(call: &[Placed<'_, ()>]) -> Vec<usize> {
    let items = call.iter().flat_map(|placed| &placed.part.items);
    items.map(|item| item.place).collect()
}

fn thrown(class: &str) -> CallError {
    let exception = pb::NameBytesPair {
        name: format!("org.apache.hadoop.hbase.{class}"),
        value: Some("why".into()),
    };
    CallError::Action {
        fault: RemoteFault::of_action(&exception).into(),
        effect: Effect::None,
    }
}

#[test]
fn operations_that_failed_in_different_ways_are_parted() {
    let outputs = vec![
        Err(thrown("NotServingRegionException")),
        Err(thrown("regionserver.NoSuchColumnFamilyException")),
        Ok("output"),
        Err(thrown("NotServingRegionException")),
    ];
    let (done, failed) = parted(items(0..4), outputs);
    let done: Vec<_> = done.iter().map(|(item, output)| (item.place, *output)).collect();
    assert_eq!(done, [(2, "output")]);
    let way = |(failure, items): &Alike<()>| {
        let places: Vec<_> = items.iter().map(|item| item.place).collect();
        (places, failure.classify().recovery)
    };
    let mut ways: Vec<_> = failed.iter().map(way).collect();
    ways.sort_by_key(|(places, _)| places[0]);
    assert_eq!(
        ways,
        [(vec![0, 3], Recovery::Relocate), (vec![1], Recovery::Fail)]
    );
}

#[test]
fn rest_behind_a_region_is_a_part_of_its_own() {
    let table = table();
    let mut placed = action(&table, "all", 0..3);
    let region = RegionInfo {
        end_key: "00001".into(),
        ..RegionInfo::meta()
    };
    let rest = placed.part.split_behind(&region).unwrap();
    assert_eq!((placed.part.items.len(), rest.items.len()), (1, 2));
    assert_eq!(rest.items[0].place, 1);
}

#[tokio::test(start_paused = true)]
async fn regions_of_an_overdue_call_share_no_call_until_one_is_answered() {
    let table = table();
    let limits = FlowLimits {
        lanes: 1,
        operations: 100,
        bytes: 1_000,
    };
    let mut flow = Flow::new(limits);
    let region = |name: &str| RegionsOfCall::new(&Bytes::from(name.to_owned()), []);
    let number = flow.begin(region("b"), Instant::now());
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        flow.ready.push_back(action(&table, name, number..number + 1));
    }
    assert!(!flow.has_lane(Instant::now()));
    let overdue = flow.next_overdue().unwrap();
    assert!(flow.has_lane(overdue));
    assert_eq!(places(&flow.take()), [0]);
    assert_eq!(places(&flow.take()), [1]);
    assert_eq!(places(&flow.take()), [2]);
    let end = EndOfCall {
        is_answered: true,
        is_overloaded: false,
    };
    flow.end(number, end);
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        flow.ready.push_back(action(&table, name, number..number + 1));
    }
    assert_eq!(places(&flow.take()), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn patience_doubles_until_a_call_is_answered() {
    let limits = FlowLimits {
        lanes: 1,
        operations: 100,
        bytes: 1_000,
    };
    let mut flow: Flow<()> = Flow::new(limits);
    flow.ready.push_back(());
    let mut waits = Vec::new();
    let mut now = Instant::now();
    for _ in 0..4 {
        let number = flow.begin(RegionsOfCall::new(&Bytes::from("a"), []), now);
        let overdue = flow.next_overdue().unwrap();
        waits.push((overdue - now).as_millis());
        now = overdue;
        assert!(flow.has_lane(now));
        if waits.len() == 3 {
            let end = EndOfCall::of([None]);
            flow.end(number, end);
        }
    }
    assert_eq!(waits, [1_000, 2_000, 4_000, 1_000]);
}

proptest! {
    #[test]
    fn calls_have_actions_in_order_within_the_limits(
        sizes in vec(1..30_usize, 1..8),
        operations in 1..40_usize,
        bytes in 1..400_usize,
    ) {
        let table = table();
        let mut flow = Flow::new(FlowLimits { lanes: 1, operations, bytes });
        let mut from = 0;
        for size in &sizes {
            flow.ready.push_back(action(&table, "all", from..from + size));
            from += size;
        }
        let (mut all, mut last) = (Vec::new(), None);
        while !flow.ready.is_empty() {
            let call = flow.take();
            let taken = places(&call);
            let fits = |operations_of: usize| operations_of <= operations && operations_of * 10 <= bytes;
            prop_assert!(call.len() == 1 || fits(taken.len()));
            if let Some(last) = last {
                prop_assert!(!fits(last + call[0].part.items.len()), "the last call had room");
            }
            last = Some(taken.len());
            all.extend(taken);
        }
        prop_assert!(all.into_iter().eq(0..from));
    }
}
