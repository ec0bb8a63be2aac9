//! A cut partition is repaired while many writers commit, also by a process that is killed.

use std::{process::Stdio, time::Duration};

use hbase_provision::{Repair, Severity, audit_table};
use hbase_txn::{
    PartitionedTable,
    admin::{Admin, ServerLoad},
    client::{Connection, RegionInfo, ServerName, TableDescriptor, TableName},
};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

use crate::{
    cluster::{PATIENCE, TestCluster, create_table_as, drop_table, until},
    history::Told,
    settings::{Settings, is_long},
    workload::{Load, Workload},
};

const DEADLINE: Duration = Duration::from_secs(60);
const RESTRICTION: &str = "hbase.regionserver.region.split_restriction.type";

/// Partitions by the older policy only, under which a split can cut them.
fn of_old(mut descriptor: TableDescriptor) -> TableDescriptor {
    descriptor.attributes.remove(RESTRICTION.as_bytes());
    descriptor
}

/// Cuts a partition between the groups of a writer.
async fn cut_at(admin: &Admin, name: &TableName, cut: &str) {
    until("a split", PATIENCE, async || {
        let regions = admin.regions(name).await.ok()?;
        let region = regions
            .iter()
            .find(|region| region.region.contains(cut.as_bytes()))?;
        let split = admin
            .split_region(&region.region, Some(cut.to_owned().into()))
            .await;
        split.ok()
    })
    .await;
}

fn repair_command(cluster: &TestCluster, name: &TableName) -> Child {
    Command::new(env!("CARGO_BIN_EXE_hbase-txn"))
        .args([
            "table",
            "repair",
            &name.to_string(),
            "--within",
            "3m",
            "--yes",
            "--output",
            "json",
        ])
        .env("HBASE_TXN_CONNECT", cluster.uri())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// The moment at which a repair is killed with -9.
#[derive(Clone, Copy, Debug)]
enum Moment {
    After(Duration),
    /// When the partition is whole: its region is about to be split.
    Merged,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_repair_is_completed_and_no_transaction_is_harmed() {
    const TEST: &str = "repair_killed";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    // Two partitions in each region, of which the second is cut.
    let partitions: Vec<String> = (0..8).map(|number| format!("p{number:02}")).collect();
    let boundaries: Vec<String> = partitions[2..].iter().step_by(2).cloned().collect();
    let name = create_table_as(&connection, &settings, TEST, &boundaries, of_old)
        .await
        .unwrap();
    let table = PartitionedTable::open(&connection, name.clone()).await.unwrap();
    let load = Load {
        partitions: partitions.clone(),
        writers: 16,
        readers: 2,
        deadline: DEADLINE,
        may_run_out: true,
    };
    let mut workload = Workload::start(&table, &settings, load);
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    let repair = Repair::new(&connection, name.clone()).unwrap();
    let moments = [
        Moment::After(Duration::ZERO),
        Moment::After(Duration::from_millis(settings.rng(8).u64(50..500))),
        Moment::After(Duration::from_secs(2)),
        Moment::Merged,
    ];
    let mut cut = partitions[1..].iter().step_by(2).zip(moments).collect::<Vec<_>>();
    if !is_long() {
        settings.rng(9).shuffle(&mut cut);
        cut.truncate(2);
    }
    let (mut at_work, cuts) = (0, cut.len());
    for (partition, moment) in cut {
        workload.goes_on(50, PATIENCE).await;
        cut_at(&admin, &name, &format!("{partition}-07-0000003.1")).await;
        assert_eq!(repair.plan().await.unwrap().len(), 1, "{partition} is not cut");
        let mut killed = repair_command(&cluster, &name);
        match moment {
            Moment::After(delay) => sleep(delay).await,
            Moment::Merged => {
                until("a merge", PATIENCE, async || {
                    repair.plan().await.ok()?.is_empty().then_some(())
                })
                .await;
            }
        }
        at_work += usize::from(killed.try_wait().unwrap().is_none());
        killed.kill().await.unwrap();
        let output = repair_command(&cluster, &name).wait_with_output().await.unwrap();
        assert!(output.status.success(), "{moment:?}: {output:?}");
        // Steps, and no complaint.
        let steps = String::from_utf8_lossy(&output.stderr);
        let is_step = |line: &str| line.starts_with("merge regions ") || line.starts_with("split ");
        assert!(steps.lines().all(is_step), "{output:?}");
        println!(
            "{TEST}: {moment:?}: {}",
            String::from_utf8_lossy(&output.stdout).trim()
        );
        assert!(repair.plan().await.unwrap().is_empty(), "{moment:?}");
        let regions = admin.regions(&name).await.unwrap();
        let begins = |key: &String| regions.iter().any(|found| found.region.start_key == *key);
        assert!(boundaries.iter().all(begins), "{regions:?}");
        // Except if the first run has merged: then no trace of the boundary is left.
        let rejoined = String::from_utf8_lossy(&output.stdout).contains("\"rejoined\":1");
        assert!(begins(partition) || !rejoined, "{moment:?}: {regions:?}");
        let found = audit_table(&connection, &name).await.unwrap();
        assert!(
            found.iter().all(|finding| finding.severity == Severity::Note),
            "{moment:?}: {found:?}"
        );
        workload.touches_all_partitions(PATIENCE).await;
    }
    assert!(at_work >= cuts / 2, "hardly ever ended while at work");
    let done = workload.stop().await;
    done.history.check(TEST, table.table()).await;
    println!("{TEST}: {} committed", done.history.count(Told::Committed));
    drop_table(&connection, &table).await;
    connection.close().await;
}

/// A region moves away from a server that hangs, and stays in transition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn table_with_a_stuck_region_is_not_repaired() {
    const TEST: &str = "repair_stuck";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let boundaries = ["p01".to_owned(), "p02".to_owned()];
    let name = create_table_as(&connection, &settings, TEST, &boundaries, of_old)
        .await
        .unwrap();
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    cut_at(&admin, &name, "p01-07").await;
    let loads = admin.server_loads().await.unwrap();
    let has_meta = |load: &&ServerLoad| {
        let mut regions = load.regions.iter();
        regions.any(|region| region.name.starts_with(b"hbase:meta,"))
    };
    let spared = loads.iter().find(has_meta).unwrap().server.clone();
    let other = loads.into_iter().map(|load| load.server);
    let other = other.into_iter().find(|server| *server != spared).unwrap();
    let regions = admin.regions(&name).await.unwrap();
    let (stuck, cut) = regions.split_last().unwrap();
    for region in cut {
        place(&admin, &region.region, &spared).await;
    }
    place(&admin, &stuck.region, &other).await;
    // Shorter than a server's session, or the region would be opened elsewhere meanwhile.
    let config = cluster.config().with_operation_timeout(Duration::from_secs(5));
    let hasty = Connection::builder(config).connect().await.unwrap();
    let repair = Repair::new(&hasty, name.clone()).unwrap();
    assert_eq!(repair.plan().await.unwrap().len(), 1);
    let number = (1..=3).find(|number| cluster.port(*number) == other.port);
    let hung = cluster.hang(number.unwrap()).await;
    // The master answers when the region has moved.
    let moving = tokio::spawn({
        let (admin, region) = (admin.clone(), stuck.region.clone());
        async move { admin.move_region(&region, &spared).await }
    });
    until("a region in transition", PATIENCE, async || {
        let info = admin.cluster_info().await.ok()?;
        let mut found = info.regions_in_transition.iter();
        found
            .any(|found| found.region.name == stuck.region.name)
            .then_some(())
    })
    .await;
    let error = repair.run(|step| panic!("{step}")).await.unwrap_err();
    drop(hung);
    let text = error.to_string();
    assert!(
        text.contains("in transition") && text.contains(&stuck.region.encoded_text()),
        "{text}"
    );
    println!("{TEST}: {text}");
    moving.await.unwrap().unwrap();
    let repair = Repair::new(&connection, name.clone()).unwrap();
    assert_eq!(repair.run(|_| ()).await.unwrap().rejoined, 1);
    cluster.settle(&connection).await;
    let table = PartitionedTable::open(&connection, name).await.unwrap();
    drop_table(&connection, &table).await;
}

/// Moves a region to a server, unless it is there.
async fn place(admin: &Admin, region: &RegionInfo, server: &ServerName) {
    until("the region has moved", PATIENCE, async || {
        let regions = admin.regions(&region.table).await.ok()?;
        let found = regions
            .into_iter()
            .find(|found| found.region.name == region.name)?;
        if found.server.as_ref() == Some(server) {
            // The procedure that moves it goes on for a moment.
            let info = admin.cluster_info().await.ok()?;
            let mut moving = info.regions_in_transition.iter();
            return (!moving.any(|moving| moving.region.name == region.name)).then_some(());
        }
        // Refused while the region is in transition.
        let _ = admin.move_region(region, server).await;
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_transaction_is_lost_doubled_or_halved_by_a_repair() {
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
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    let repair = Repair::new(&connection, name.clone()).unwrap().patience(PATIENCE);
    let mut rng = settings.rng(7);
    for _ in 0..settings.rounds {
        workload.goes_on(100, PATIENCE).await;
        let cut = format!(
            "{}-{:02}-{:07}.1",
            rng.choice(&partitions).unwrap(),
            rng.u8(..32),
            3
        );
        cut_at(&admin, &name, &cut).await;
        assert_eq!(repair.plan().await.unwrap().len(), 1, "{cut} cuts nothing");
        // Other transactions continue; those of the cut partition are refused with the reason.
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
