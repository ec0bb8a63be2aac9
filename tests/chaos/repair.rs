//! A cut partition is repaired while 32 writers commit.

use std::time::Duration;

use hbase_txn::{PartitionedTable, TableDescriptor, provision::Repair};

use crate::{
    cluster::{PATIENCE, TestCluster, create_table_as, drop_table, until},
    history::Told,
    settings::Settings,
    workload::{Load, Workload},
};

const DEADLINE: Duration = Duration::from_secs(60);
const RESTRICTION: &str = "hbase.regionserver.region.split_restriction.type";

/// Partitions by the older policy alone, which lets a split cut them.
fn of_old(mut descriptor: TableDescriptor) -> TableDescriptor {
    descriptor.attributes.remove(RESTRICTION.as_bytes());
    descriptor
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_transaction_is_lost_doubled_or_halved_while_a_partition_is_rejoined() {
    const TEST: &str = "repair";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let partitions: Vec<String> = (0..6).map(|number| format!("p{number:02}")).collect();
    let boundaries: Vec<String> = partitions[1..].iter().step_by(2).cloned().collect();
    let name = create_table_as(&connection, &settings, TEST, &boundaries, of_old)
        .await
        .unwrap();
    let table = PartitionedTable::open(&connection, name.clone()).await.unwrap();
    let mut workload = Workload::start(
        &table,
        &settings,
        Load {
            partitions: partitions.clone(),
            writers: 32,
            readers: 2,
            deadline: DEADLINE,
            may_run_out: true,
        },
    );
    let admin = connection.admin().with_operation_timeout(PATIENCE);
    let repair = Repair::new(&connection, name.clone()).patience(PATIENCE);
    let mut rng = settings.rng(7);
    for _ in 0..settings.rounds {
        workload.goes_on(100, PATIENCE).await;
        // Among the rows of one writer, so that groups of his lie on both sides.
        let cut = format!(
            "{}-{:02}-{:07}.1",
            rng.choice(&partitions).unwrap(),
            rng.u8(..32),
            3
        );
        until("a split", PATIENCE, async || {
            let regions = admin.regions(&name).await.ok()?;
            let region = regions
                .iter()
                .find(|region| region.region.contains(cut.as_bytes()))?;
            let split = admin.split_region(&region.region, Some(cut.clone().into())).await;
            split.ok()
        })
        .await;
        assert_eq!(repair.plan().await.unwrap().len(), 1, "{cut} cuts nothing");
        // Others go on; those of the cut partition are told that it is.
        workload.goes_on(100, PATIENCE).await;
        let repaired = repair.run(|step| println!("{TEST}: {step}")).await.unwrap();
        assert_eq!(repaired.rejoined, 1);
        assert!(repair.plan().await.unwrap().is_empty());
        workload.touches_all_partitions(PATIENCE).await;
    }
    let done = workload.stop().await;
    done.history.check(TEST, table.table()).await;
    let unknown = done.history.count(Told::Unknown);
    println!(
        "{TEST}: {} committed, {} refused, {unknown} unknown",
        done.history.count(Told::Committed),
        done.history.count(Told::NotApplied),
    );
    drop_table(&connection, &table).await;
    connection.close().await;
}
