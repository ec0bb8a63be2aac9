//! Locks in the partition of the data, while its region moves and its server is killed.

use std::time::Duration;

use hbase_txn::{
    TableDescriptorExt,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Get},
};

use crate::locks::contest::{Contest, HIGHEST, Terms, partition};
use crate::{
    cluster::{FAMILY, PATIENCE, TestCluster, create_table_as},
    regions::Shuffler,
    settings::Settings,
};

const LOCKS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partition_lock_has_one_holder_and_no_stale_write_on_kills() {
    const TEST: &str = "lock_partitions";
    let settings = Settings::of(TEST);
    let cluster = TestCluster::take().await;
    let connection = cluster.connect().await;
    let boundaries: Vec<String> = (1..LOCKS).map(|lock| partition(lock).0).collect();
    let name = create_table_as(&connection, &settings, TEST, &boundaries, |descriptor| {
        // All writes stay readable as versions.
        descriptor
            .with_family(FamilyDescriptor::new(FAMILY).with_attribute("VERSIONS", "1000000"))
            .with_record_family()
            .with_lock_family()
    })
    .await
    .unwrap();
    let mut connections = Vec::new();
    for _ in 0..6 {
        let config = cluster.config().with_operation_timeout(Duration::from_secs(5));
        connections.push(Connection::builder(config).connect().await.unwrap());
    }
    let terms = Terms {
        locks: LOCKS,
        lease: Duration::from_millis(1_500),
    };
    let rng = |owner| settings.rng(owner);
    let mut contest = Contest::start_in_partitions(&connections, &name, terms, rng).await;
    let mut shuffler = Shuffler::new(&connection, &name, settings.rng(77));
    for _ in 0..settings.rounds {
        for _ in 0..6 {
            shuffler.move_one().await;
            contest.goes_on(5, PATIENCE).await;
        }
        let server = shuffler.rng.u16(1..=3);
        cluster.kill(server).await;
        contest.goes_on(10, PATIENCE).await;
        cluster.start(server).await;
        contest.goes_on(10, PATIENCE).await;
    }
    contest.loses(PATIENCE).await;
    assert!(shuffler.done.moved > 0);
    cluster.settle(&connection).await;
    contest.stop(TEST).await;
    let data = connection.table(name.clone()).unwrap();
    for lock in 0..LOCKS {
        let get = Get::new(partition(lock).1)
            .column(FAMILY, HIGHEST)
            .versions(u32::MAX);
        let row = data.get(get).await.unwrap();
        // The newest version comes first.
        let numbers: Vec<u64> = row
            .iter()
            .flat_map(|row| row.cells())
            .map(|cell| u64::from_be_bytes(cell.value[..].try_into().unwrap()))
            .collect();
        println!("{TEST}: lock {lock}: {} writes", numbers.len());
        assert!(
            numbers.windows(2).all(|pair| pair[0] >= pair[1]),
            "a stale write came behind a later holder's: {numbers:?}"
        );
    }
    for connection in connections {
        connection.close().await;
    }
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    admin.delete_table(&name).await.unwrap();
    connection.close().await;
}
