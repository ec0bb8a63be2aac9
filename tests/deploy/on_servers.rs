//! What settings, lines for the shell, and commands do on a cluster that has the settings.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_txn::{
    ErrorKind, FamilyDescriptor, PartitionRule, PartitionedTable, Put, TableDescriptor, TableName,
    provision::{Grade, audit_table},
};

use crate::{
    cluster::shared,
    guides::blocks,
    shell_lines::{attributes, lines},
};

/// A name that no guide has.
fn name(what: &str) -> TableName {
    format!("deploy_{what}_{}", std::process::id()).parse().unwrap()
}

fn plain(name: TableName) -> TableDescriptor {
    TableDescriptor::new(name).with_family(FamilyDescriptor::new("f"))
}

#[tokio::test]
async fn a_table_has_the_endpoint_without_an_attribute() {
    let cluster = shared();
    let connection = cluster.connect().await;
    let name = name("site_wide");
    let rule = PartitionRule::prefix_length(3).unwrap();
    let descriptor = plain(name.clone()).with_partition_rule(&rule);
    assert!(!descriptor.names_multi_row_mutation_endpoint());
    let admin = connection.admin();
    admin
        .create_table(&descriptor, &[Bytes::from("m")])
        .await
        .unwrap();

    assert_eq!(broken(&connection, &name).await, Vec::<&str>::new());
    let table = PartitionedTable::open(&connection, name.clone()).await.unwrap();
    let mut transaction = table.at("xxx").unwrap();
    for row in ["xxx1", "xxx2"] {
        transaction.put(Put::new(row).cell("f", "q", "v")).unwrap();
    }
    assert!(transaction.commit().await.is_committed());
    assert_eq!(table.snapshot("xxx").await.unwrap().len(), 2);
    drop_table(&connection, &name).await;
}

/// The rule for all tables, which is in the file in a comment: a net under tables that state none, and no more.
#[tokio::test]
async fn the_rule_of_the_site_keeps_a_split_off_a_prefix_and_no_client_sees_it() {
    let cluster = shared();
    let connection = cluster.connect().await;
    let admin = connection.admin();
    let name = name("site_rule");
    admin.create_table(&plain(name.clone()), &[]).await.unwrap();
    let error = PartitionedTable::open(&connection, name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPartitionRule, "{error}");

    let whole = admin.regions(&name).await.unwrap().remove(0).region;
    admin
        .split_region(&whole, Some(Bytes::from("xxxm")))
        .await
        .unwrap();
    let regions = admin.regions(&name).await.unwrap();
    let boundaries: Vec<_> = regions
        .iter()
        .map(|found| found.region.start_key.clone())
        .collect();
    assert_eq!(boundaries, ["", "xxx"]);
    drop_table(&connection, &name).await;
}

#[tokio::test]
async fn a_table_altered_by_the_lines_for_the_shell_is_fit_for_transactions() {
    let cluster = shared();
    let connection = cluster.connect().await;
    let admin = connection.admin();
    let name = name("altered");
    admin.create_table(&plain(name.clone()), &[]).await.unwrap();

    let mut wanted = admin.descriptor(&name).await.unwrap();
    let lines = lines();
    let alters: Vec<_> = lines
        .iter()
        .filter(|line| line.command == "alter" && line.table == "existing")
        .collect();
    for line in alters {
        for (key, value) in line.metadata() {
            wanted = wanted.with_attribute(key, value);
        }
        for family in line.families() {
            wanted = wanted.with_family(family);
        }
    }
    admin.modify_table(&wanted).await.unwrap();

    let by_library = TableDescriptor::new(name.clone())
        .with_partition_rule(&PartitionRule::prefix_length(3).unwrap())
        .with_multi_row_mutation_endpoint();
    let stored = admin.descriptor(&name).await.unwrap();
    assert!(states(&stored, &attributes(&by_library)), "{stored:?}");
    assert_eq!(broken(&connection, &name).await, Vec::<&str>::new());
    PartitionedTable::open(&connection, name.clone()).await.unwrap();
    drop_table(&connection, &name).await;
}

#[tokio::test]
async fn every_command_of_the_guides_runs() {
    let cluster = shared();
    let connection = cluster.connect().await;
    // The one that the guides find there.
    let existing: TableName = "existing".parse().unwrap();
    let admin = connection.admin();
    let before = admin.tables().await.unwrap();
    admin.create_table(&plain(existing.clone()), &[]).await.unwrap();

    for block in blocks("sh") {
        let output = cluster.run(&block.text);
        assert!(output.status.success(), "{}: {output:?}", block.place);
    }

    // The lines for the shell that stand beside the commands state the same.
    for line in lines().iter().filter(|line| line.command == "create") {
        let made = admin.descriptor(&line.table.parse().unwrap()).await.unwrap();
        assert!(states(&made, &line.metadata()), "{made:?}");
    }
    // The tables of tests that run beside this one are theirs.
    let made = admin.tables().await.unwrap().into_iter();
    for table in made.filter(|table| !before.contains(table) && !table.to_string().starts_with("deploy_")) {
        drop_table(&connection, &table).await;
    }
}

/// Whether a table has these attributes. The master adds others of its own.
fn states(stored: &TableDescriptor, wanted: &BTreeMap<String, String>) -> bool {
    let stored = attributes(stored);
    wanted.iter().all(|(key, value)| stored.get(key) == Some(value))
}

async fn broken(connection: &hbase_txn::Connection, name: &TableName) -> Vec<&'static str> {
    let findings = audit_table(connection, name).await.unwrap();
    let broken = findings.iter().filter(|finding| finding.grade == Grade::Broken);
    broken.map(|finding| finding.finding).collect()
}

async fn drop_table(connection: &hbase_txn::Connection, name: &TableName) {
    let admin = connection.admin();
    admin.disable_table(name).await.unwrap();
    admin.delete_table(name).await.unwrap();
}
