//! The master is killed while it executes procedures, and decommissioned servers.

use std::time::Duration;

use futures::future::join_all;
use hbase_txn::{FamilyDescriptor, TableDescriptor, TableName};
use tokio::time::sleep;

use crate::{
    cluster::{FAMILY, PATIENCE, TestCluster, until},
    settings::Settings,
};

const TABLES: usize = 4;

/// A procedure is stored before its call is answered, and the next master continues it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn procedures_are_followed_across_a_restart_of_the_master() {
    let settings = Settings::of("killed_master");
    let cluster = TestCluster::take().await;
    let connection = cluster.connect().await;
    let admin = connection.admin().with_operation_timeout(PATIENCE);
    let mut rng = settings.rng(1);
    for round in 0..settings.rounds {
        let name = |number: usize| -> TableName {
            let name = format!("killed_master_{}_{round}_{number}", settings.seed);
            name.parse().unwrap()
        };
        let work = async |number: usize| {
            let family = FamilyDescriptor::new(FAMILY);
            let descriptor = TableDescriptor::from(name(number)).with_family(family);
            let split_keys: Vec<_> = (1..8).map(|key| format!("{key}").into()).collect();
            admin.create_table(&descriptor, &split_keys).await?;
            admin
                .add_column_family(name(number), &FamilyDescriptor::new("second"))
                .await?;
            admin.disable_table(name(number)).await?;
            admin.enable_table(name(number)).await
        };
        let restart = async {
            sleep(Duration::from_millis(rng.u64(100..2_500))).await;
            cluster.restart_master().await;
        };
        let (done, ()) = tokio::join!(join_all((0..TABLES).map(work)), restart);
        for (number, done) in done.into_iter().enumerate() {
            done.unwrap_or_else(|error| panic!("table {number}: {error}"));
            let descriptor = admin.descriptor(name(number)).await.unwrap();
            assert_eq!(descriptor.families.len(), 2);
            assert_eq!(admin.regions(name(number)).await.unwrap().len(), 8);
            admin.delete_table(name(number)).await.unwrap();
        }
    }
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
