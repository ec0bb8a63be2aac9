//! Tables that require features of newer releases.

use hbase_provision::{Plan, Repair, Severity, audit_table};
use hbase_txn::{
    Error, ErrorKind, Outcome, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Connection, TableDescriptor, TableName},
    latch::{LatchManagerOptions, LatchTableOptions},
    lock::{LockManagerOptions, LockTableOptions},
};

use crate::{
    provision::by_three as file,
    support::{
        connect, eventually, put, says,
        table::{TestTable, by_three},
    },
};

fn requiring(descriptor: TableDescriptor) -> TableDescriptor {
    descriptor.with_attribute(TableDescriptor::REQUIRES, "mirrored-rows, sealed-cells")
}

async fn table(describe: fn(TableName) -> TableDescriptor) -> (Connection, TestTable) {
    let descriptor = |name| requiring(describe(name));
    (
        connect().await,
        TestTable::create("requires", descriptor, &[]).await,
    )
}

fn refused(error: &Error, table: &TestTable) {
    assert_eq!(error.kind(), ErrorKind::FeatureUnknown, "{error}");
    let named = [
        "mirrored-rows, sealed-cells",
        table.name.qualifier(),
        "newer release",
    ];
    says(error, &named);
}

async fn finding_says_so(connection: &Connection, table: &TestTable) {
    let findings = audit_table(connection, &table.name).await.unwrap();
    let mut of_feature = findings
        .iter()
        .filter(|finding| finding.finding == "feature-unknown");
    let finding = of_feature.next().unwrap();
    assert_eq!((finding.severity, of_feature.next()), (Severity::Broken, None));
    says(&finding.what, &["mirrored-rows, sealed-cells"]);
}

#[tokio::test]
async fn a_table_for_transactions_is_neither_opened_nor_changed() {
    let (connection, table) = table(by_three).await;
    let name = || table.name.clone();
    let opened = PartitionedTable::open(&connection, name()).await;
    refused(&opened.unwrap_err(), &table);
    let planned = Plan::read(&connection, &file(&table.name, "")).await;
    refused(&planned.unwrap_err(), &table);
    let altered = Plan::read_for(&connection, &by_three(name())).await;
    refused(&altered.unwrap_err(), &table);
    let repair = Repair::new(&connection, name()).unwrap();
    refused(&repair.plan().await.unwrap_err(), &table);
    refused(&repair.run(|_| {}).await.unwrap_err(), &table);
    finding_says_so(&connection, &table).await;
}

#[tokio::test]
async fn a_lock_table_is_not_opened() {
    let (connection, table) = table(|name| LockTableOptions::from(name).descriptor()).await;
    let options = LockManagerOptions::new("client");
    let opened = options.open(&connection, table.name.clone()).await;
    refused(&opened.unwrap_err(), &table);
    finding_says_so(&connection, &table).await;
}

#[tokio::test]
async fn a_latch_table_is_not_opened() {
    let (connection, table) = table(|name| LatchTableOptions::from(name).descriptor()).await;
    let options = LatchManagerOptions::new("client", "fra");
    let opened = options.open(&connection, table.name.clone()).await;
    refused(&opened.unwrap_err(), &table);
    finding_says_so(&connection, &table).await;
}

#[tokio::test]
async fn open_table_is_not_used_once_it_requires_a_feature() {
    let connection = connect().await;
    let table = TestTable::create("requires", by_three, &[]).await;
    let opened = table.open(&connection).await;
    let descriptor = requiring(by_three(table.name.clone()));
    Admin::new(&connection).modify_table(&descriptor).await.unwrap();
    let outcome = eventually("the change is noticed", async || {
        let transaction = opened.transaction("xxx").put(put("xxx1", "v"));
        let outcome = transaction.commit().await;
        (!outcome.is_committed()).then_some(outcome)
    })
    .await;
    assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome}");
    refused(outcome.error().unwrap(), &table);
}

#[tokio::test]
async fn a_table_that_requires_nothing_is_opened() {
    let connection = connect().await;
    let nothing = |name| by_three(name).with_attribute(TableDescriptor::REQUIRES, " , ");
    let table = TestTable::create("requires", nothing, &[]).await;
    table.open(&connection).await;
    let findings = audit_table(&connection, &table.name).await.unwrap();
    assert!(
        findings
            .iter()
            .all(|finding| finding.severity != Severity::Broken),
        "{findings:?}"
    );
}
