//! The master is killed while it executes procedures, and decommissioned servers.

use std::time::Duration;

use futures::future::join_all;
use hbase_client::Error;
use hbase_txn::{ClientErrorKind, Connection, FamilyDescriptor, TableDescriptor, TableName};
use tokio::time::sleep;

use crate::{
    cluster::{FAMILY, PATIENCE, TestCluster, until},
    settings::Settings,
};

const TABLES: usize = 4;
/// The number of rounds that a master may spoil.
const STUCK_ROUNDS: u32 = 2;

/// A procedure is stored before its call is answered, and the next master continues it.
///
/// A master of 2.6.4 that is killed at a bad moment leaves, rarely, transitions of regions that its
/// successor does not finish in minutes. Then the client must report just that. The next restart
/// ends them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn procedures_are_followed_across_a_restart_of_the_master() {
    let settings = Settings::of("killed_master");
    let cluster = TestCluster::take().await;
    let connection = cluster.connect().await;
    let admin = connection.admin().with_operation_timeout(PATIENCE);
    let mut rng = settings.rng(1);
    let (mut round, mut stuck) = (0, 0);
    while round - stuck < settings.rounds {
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
            for name in &names {
                let descriptor = admin.descriptor(name).await.unwrap();
                assert_eq!(descriptor.families.len(), 2);
                assert_eq!(admin.regions(name).await.unwrap().len(), 8);
            }
        } else {
            stuck += 1;
            assert!(stuck <= STUCK_ROUNDS, "{unfinished:?}");
            for (_, error) in &unfinished {
                assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
                let text = error.to_string();
                assert!(text.contains("the master has not finished in time"), "{text}");
            }
            cluster.restart_master().await;
        }
        for name in names {
            admin.await_table_procedures(&name).await.unwrap();
            match admin.delete_table(name).await {
                // Its creation was among the unfinished procedures.
                Err(error) if error.kind() == ClientErrorKind::TableNotFound && stuck > 0 => {}
                deleted => deleted.unwrap(),
            }
        }
    }
}

/// Changes a table by four procedures.
async fn change(connection: &Connection, table: &TableName) -> Result<(), Error> {
    let admin = connection.admin().with_operation_timeout(PATIENCE);
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
    let admin = connection.admin().with_operation_timeout(PATIENCE);
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
