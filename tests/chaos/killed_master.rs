//! The master is killed while it executes procedures, and decommissioned servers.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use hbase_client::Error;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Connection, FamilyDescriptor, Get, TableDescriptor, TableName},
};
use tokio::time::sleep;

use crate::{
    cluster::{FAMILY, PATIENCE, TestCluster, until},
    settings::Settings,
};

const TABLES: usize = 4;
/// The number of times in a row that late reports may make a change exceed its deadline.
const MAX_STUCK: u32 = 4;
/// The deadline of a change; most take 20 s with a restart.
const DEADLINE: Duration = Duration::from_secs(60);

/// A procedure is stored before its call is answered, and the next master continues it.
///
/// A region server of 2.6.4 that opens or closes a region while no master runs repeats its report
/// thousands of times a second; a master that is starting then lets it wait 200 s, as the pause grows with
/// the repetitions. That takes longer than the deadline here. The client must report just that, and the
/// end of that server ends the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn procedures_are_followed_across_a_restart_of_the_master() {
    let settings = Settings::of("killed_master");
    let cluster = TestCluster::take().await;
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    let mut rng = settings.rng(1);
    let (mut round, mut whole, mut stuck) = (0, 0, 0);
    while whole < settings.rounds {
        let names: Vec<TableName> = (0..TABLES)
            .map(|number| format!("killed_master_{}_{round}_{number}", settings.seed))
            .map(|name| name.parse().unwrap())
            .collect();
        round += 1;
        let restart = async {
            sleep(Duration::from_millis(rng.u64(100..2_500))).await;
            cluster.restart_master().await;
        };
        let followed = names.iter().map(|name| change(&connection, name));
        let (done, ()) = tokio::join!(join_all(followed), restart);
        let unfinished: Vec<_> = names
            .iter()
            .zip(done)
            .filter_map(|(name, done)| Some((name, done.err()?)))
            .collect();
        if unfinished.is_empty() {
            whole += 1;
            stuck = 0;
            for name in &names {
                let descriptor = admin.descriptor(name).await.unwrap();
                assert_eq!(descriptor.families.len(), 2);
                assert_eq!(admin.regions(name).await.unwrap().len(), 8);
            }
        } else {
            stuck += 1;
            assert!(stuck <= MAX_STUCK, "{unfinished:?}");
            for (_, error) in &unfinished {
                assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
                let text = error.to_string();
                assert!(text.contains("the master has not finished in time"), "{text}");
            }
            end_transitions(&cluster, &connection).await;
        }
        for name in names {
            while let Err(error) = drop_table(&connection, &name).await {
                stuck += 1;
                assert!(stuck <= MAX_STUCK, "{error}");
                assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
                end_transitions(&cluster, &connection).await;
            }
        }
    }
}

/// Deletes a table after its unfinished procedures, of which one may be its creation.
async fn drop_table(connection: &Connection, table: &TableName) -> Result<(), Error> {
    let admin = Admin::new(connection).with_operation_timeout(DEADLINE);
    admin.await_table_procedures(table).await?;
    match admin.delete_table(table).await {
        Err(error) if error.kind() == ClientErrorKind::TableNotFound => Ok(()),
        deleted => deleted,
    }
}

/// Restarts the servers of all regions in transition.
async fn end_transitions(cluster: &TestCluster, connection: &Connection) {
    let admin = Admin::new(connection).with_operation_timeout(PATIENCE);
    let meta = connection.table("hbase:meta").unwrap();
    let mut ports = BTreeSet::<u16>::new();
    for stuck in admin.cluster_info().await.unwrap().regions_in_transition {
        let row = meta.get(Get::new(stuck.region.name)).await.unwrap().unwrap();
        // Host, port and start.
        let server = String::from_utf8_lossy(row.value("info", "sn").unwrap()).into_owned();
        println!("a region is {} at {server}", stuck.state);
        ports.insert(server.split(',').nth(1).unwrap().parse().unwrap());
    }
    for server in (1..=3).filter(|server| ports.contains(&cluster.port(*server))) {
        cluster.kill(server).await;
        cluster.start(server).await;
    }
}

/// Changes a table by four procedures.
async fn change(connection: &Connection, table: &TableName) -> Result<(), Error> {
    let admin = Admin::new(connection).with_operation_timeout(DEADLINE);
    let descriptor = TableDescriptor::from(table.clone()).with_family(FamilyDescriptor::new(FAMILY));
    let split_keys: Vec<_> = (1..8).map(|key| format!("{key}").into()).collect();
    admin.create_table(&descriptor, &split_keys).await?;
    admin
        .add_column_family(table, &FamilyDescriptor::new("second"))
        .await?;
    admin.disable_table(table).await?;
    admin.enable_table(table).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decommissioned_server_loses_its_regions_until_it_is_recommissioned() {
    let settings = Settings::of("decommission");
    let cluster = TestCluster::take().await;
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    // Those of a run that failed.
    for server in admin.decommissioned_region_servers().await.unwrap() {
        admin.recommission_region_server(&server, &[]).await.unwrap();
    }
    let table: TableName = format!("decommission_{}", settings.seed).parse().unwrap();
    let descriptor = TableDescriptor::from(table.clone()).with_family(FamilyDescriptor::new(FAMILY));
    let split_keys: Vec<_> = (1..9).map(|key| format!("{key}").into()).collect();
    admin.create_table(&descriptor, &split_keys).await.unwrap();
    let server = admin.regions(&table).await.unwrap()[0].server.clone().unwrap();
    let own = async || {
        let regions = admin.regions(&table).await.unwrap().into_iter();
        let own = regions.filter(|found| found.server.as_ref() == Some(&server));
        own.map(|found| found.region).collect::<Vec<_>>()
    };
    let before = own().await;

    for _ in 0..2 {
        admin
            .decommission_region_servers(std::slice::from_ref(&server), true)
            .await
            .unwrap();
        let decommissioned = admin.decommissioned_region_servers().await.unwrap();
        assert_eq!(decommissioned, std::slice::from_ref(&server));
    }
    until("server without regions", PATIENCE, async || {
        own().await.is_empty().then_some(())
    })
    .await;
    for _ in 0..2 {
        admin.recommission_region_server(&server, &before).await.unwrap();
        assert_eq!(admin.decommissioned_region_servers().await.unwrap(), []);
    }
    until("return of the regions", PATIENCE, async || {
        (own().await.len() >= before.len()).then_some(())
    })
    .await;
    admin.delete_table(&table).await.unwrap();
}
