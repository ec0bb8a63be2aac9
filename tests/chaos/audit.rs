//! The findings of an audit on a cluster with failures.

use std::time::Duration;

use futures::future::join;
use hbase_provision::{Finding, Repair, Severity, audit_cluster, audit_table};
use hbase_txn::{
    ClientErrorKind,
    admin::{Admin, ServerLoad},
    client::{Connection, TableName},
};
use tokio::time::Instant;

use crate::{
    cluster::{PATIENCE, TestCluster, create_table, drop_table, until},
    settings::Settings,
};

fn named<'a>(findings: &'a [Finding], name: &str) -> Option<&'a Finding> {
    findings.iter().find(|finding| finding.finding == name)
}

async fn audited(connection: &Connection, table: &TableName) -> Vec<Finding> {
    audit_table(connection, table).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disabled_splits_and_merges_are_found_and_stop_a_repair() {
    const TEST: &str = "audit_switches";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection);
    let table = create_table(&connection, &settings, TEST, &[]).await.unwrap();
    let cut = TableName::new("default", &format!("{TEST}_cut_{:x}", fastrand::u32(..))).unwrap();
    let mut descriptor = admin.descriptor(table.name()).await.unwrap();
    descriptor.name = cut.clone();
    admin.create_table(&descriptor, &["xxxm".into()]).await.unwrap();
    let switch = async |name, on| match name {
        "splits-switched-off" => admin.split_switch(on).await.unwrap(),
        _ => admin.merge_switch(on).await.unwrap(),
    };
    for name in ["splits-switched-off", "merges-switched-off"] {
        assert!(switch(name, false).await);
        let found = audited(&connection, table.name()).await;
        let refusal = Repair::new(&connection, cut.clone())
            .unwrap()
            .run(|_| {})
            .await
            .unwrap_err();
        assert!(!switch(name, true).await);
        assert_eq!(
            named(&found, name).map(|finding| finding.severity),
            Some(Severity::Broken),
            "{found:#?}"
        );
        assert_eq!(refusal.kind(), ClientErrorKind::SwitchedOff, "{refusal}");
        assert!(named(&audited(&connection, table.name()).await, name).is_none());
    }
    admin.delete_table(&cut).await.unwrap();
    drop_table(&connection, &table).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_server_and_silent_regions_are_found_until_they_answer() {
    const TEST: &str = "audit_dead";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let config = cluster.config().with_operation_timeout(Duration::from_secs(5));
    let connection = Connection::builder(config).connect().await.unwrap();
    let boundaries: Vec<String> = ('b'..='m').map(|letter| letter.to_string().repeat(3)).collect();
    let table = create_table(&connection, &settings, TEST, &boundaries)
        .await
        .unwrap();
    assert!(
        audited(&connection, table.name())
            .await
            .iter()
            .all(|finding| finding.severity == Severity::Note)
    );
    cluster.kill(1).await;
    // Until the master notices, `hbase:meta` still names the dead server.
    let found = until("a region that does not answer", PATIENCE, async || {
        let found = audit_table(&connection, table.name()).await.ok()?;
        named(&found, "region-unavailable").is_some().then_some(found)
    })
    .await;
    let finding = named(&found, "region-unavailable").unwrap();
    assert!(
        finding.severity == Severity::Broken && finding.regions.len() == 1,
        "{finding}"
    );
    until("a dead server", PATIENCE, async || {
        let audit = audit_cluster(&connection, &[table.name().clone()]).await.ok()?;
        named(&audit.findings, "servers-dead").map(drop)
    })
    .await;
    cluster.start(1).await;
    until("a sound table", PATIENCE, async || {
        let found = audit_table(&connection, table.name()).await.ok()?;
        found
            .iter()
            .all(|finding| finding.severity == Severity::Note)
            .then_some(())
    })
    .await;
    let connection = cluster.connect().await;
    cluster.settle(&connection).await;
    drop_table(&connection, &table).await;
}

/// A hanging server keeps its connections, so calls to it end only with their time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_server_costs_an_audit_only_its_own_findings() {
    const TEST: &str = "audit_hung";
    /// More regions of one server than the audit queries at once.
    const REGIONS: u8 = 72;
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let boundaries: Vec<String> = (1..REGIONS).map(|number| format!("{number:03}")).collect();
    let table = create_table(&connection, &settings, TEST, &boundaries)
        .await
        .unwrap();
    let other = create_table(&connection, &settings, "audit_other", &[])
        .await
        .unwrap();
    // The findings while no server hangs.
    let before = audited(&connection, table.name()).await;
    let admin = Admin::new(&connection);
    let others = admin
        .regions(other.name())
        .await
        .unwrap()
        .remove(0)
        .server
        .unwrap();
    let loads = admin.server_loads().await.unwrap();
    let has_meta = |load: &&ServerLoad| {
        let mut regions = load.regions.iter();
        regions.any(|region| region.name.starts_with(b"hbase:meta,"))
    };
    let spared = [others.port, loads.iter().find(has_meta).unwrap().server.port];
    let regions = admin.regions(table.name()).await.unwrap();
    let server = (1..=3).find(|number| !spared.contains(&cluster.port(*number)));
    let server = server.unwrap();
    let port = cluster.port(server);
    let its: Vec<String> = regions
        .iter()
        .filter(|found| found.server.as_ref().unwrap().port == port)
        .map(|found| String::from_utf8(found.region.encoded_name().to_vec()).unwrap())
        .collect();
    assert!(its.len() > 16, "{} regions of {REGIONS}", its.len());

    // Shorter than a server's session, or its regions would be opened elsewhere meanwhile.
    let timeout = Duration::from_secs(10);
    let config = cluster.config().with_operation_timeout(timeout);
    let connection = Connection::builder(config).connect().await.unwrap();
    let hung = cluster.hang(server).await;
    let began = Instant::now();
    let names = [table.name().clone(), other.name().clone()];
    let (found, audit) = join(
        audited(&connection, table.name()),
        audit_cluster(&connection, &names),
    )
    .await;
    let audit = audit.unwrap();
    let took = began.elapsed();
    drop(hung);
    println!(
        "{TEST}: {} regions of a server that hangs, {took:.1?} for two audits",
        its.len()
    );
    assert!(took < timeout, "{took:?}");
    for found in [&found, &audit.findings] {
        let silent = found
            .iter()
            .filter(|finding| finding.finding == "region-unavailable");
        let silent: Vec<_> = silent.flat_map(|finding| finding.regions.clone()).collect();
        assert_eq!(silent, its);
        for finding in &before {
            assert!(
                found.iter().any(|found| found.finding == finding.finding),
                "{finding} is not in {found:?}"
            );
        }
    }
    assert_eq!(audit.tables, names);
    until("a sound table", PATIENCE, async || {
        let found = audit_table(&connection, table.name()).await.ok()?;
        found
            .iter()
            .all(|finding| finding.severity == Severity::Note)
            .then_some(())
    })
    .await;
    cluster.settle(&connection).await;
    drop_table(&connection, &other).await;
    drop_table(&connection, &table).await;
}
