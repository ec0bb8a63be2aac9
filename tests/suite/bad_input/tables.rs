//! Missing and disabled tables and namespaces.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind, PartitionedTable,
    admin::Admin,
    client::{Connection, Delete, Get, Scan, TableName},
};

use crate::support::{
    connect, put, says, standalone,
    table::{TestTable, by_three, plain, unique_name},
    within,
};

const DEADLINE: Duration = Duration::from_secs(5);

async fn impatient() -> Connection {
    Connection::builder(standalone().config().with_operation_timeout(DEADLINE))
        .connect()
        .await
        .unwrap()
}

/// Asserts that every way to use the table fails with this kind and names the table, stage and
/// server.
async fn errors(connection: &Connection, name: &TableName, kind: ClientErrorKind, what: &str) {
    let table = connection.table(name.clone()).unwrap();
    let errors = within(DEADLINE, async {
        [
            PartitionedTable::open(connection, name.clone())
                .await
                .unwrap_err(),
            table.get(Get::new("r")).await.unwrap_err().into(),
            table.put(put("r", "v")).await.unwrap_err().into(),
            table.delete(Delete::new("r")).await.unwrap_err().into(),
            table.scan(Scan::new()).unwrap().next().await.unwrap_err().into(),
        ]
    })
    .await;
    for (at, error) in errors.iter().enumerate() {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.is_outcome_unknown() && !error.is_retryable(), "{error:?}");
        says(&error, &[what, &name.to_string(), "stage: ", "server 127.0.0.1:"]);
        assert!(at == 0 || error.attempts() == Some(1), "{error}");
    }
}

#[tokio::test]
async fn a_missing_table_is_named_with_stage_host_and_attempt() {
    let connection = impatient().await;
    for name in [
        unique_name("missing"),
        TableName::new("nowhere", "missing").unwrap(),
    ] {
        errors(
            &connection,
            &name,
            ClientErrorKind::TableNotFound,
            "no such table",
        )
        .await;
    }
}

#[tokio::test]
async fn a_disabled_table_is_named_as_such_and_told_how_to_enable_it() {
    let connection = impatient().await;
    let table = TestTable::create("disabled", by_three, &[]).await;
    let opened = table.open(&connection).await;
    Admin::new(&connection).disable_table(&table.name).await.unwrap();
    errors(
        &connection,
        &table.name,
        ClientErrorKind::TableDisabled,
        "the table is disabled; enable it",
    )
    .await;
    let transaction = opened.transaction("xxx").put(put("xxx1", "v"));
    let outcome = within(DEADLINE, transaction.commit()).await;
    assert_eq!(outcome.name(), "aborted", "{outcome}");
    assert_eq!(outcome.error().unwrap().kind(), ClientErrorKind::TableDisabled);

    // Disabling twice is no error, and the client does not keep the disabled state in its cache.
    Admin::new(&connection).disable_table(&table.name).await.unwrap();
    Admin::new(&connection).enable_table(&table.name).await.unwrap();
    Admin::new(&connection).enable_table(&table.name).await.unwrap();
    opened.table().put(put("xxx1", "v")).await.unwrap();
}

#[tokio::test]
async fn table_deleted_under_an_open_client_is_missing() {
    let connection = impatient().await;
    let table = TestTable::create("deleted", plain, &[]).await;
    let rows = table.of(&connection);
    rows.put(put("r", "v")).await.unwrap();
    Admin::new(&connect().await)
        .delete_table(&table.name)
        .await
        .unwrap();
    let error = within(DEADLINE, rows.put(put("r", "w"))).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
}

#[tokio::test]
async fn a_table_can_not_be_created_in_a_missing_namespace_or_twice() {
    let connection = impatient().await;
    let admin = Admin::new(&connection);
    let nowhere = TableName::new("nowhere", "missing").unwrap();
    let error = within(DEADLINE, admin.create_table(&plain(nowhere), &[]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::NamespaceNotFound, "{error}");
    says(
        &error,
        &["creating the table", "nowhere:missing", "server 127.0.0.1:"],
    );

    let table = TestTable::create("twice", plain, &[]).await;
    let error = admin
        .create_table(&plain(table.name.clone()), &[])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableExists, "{error}");
}

#[tokio::test]
async fn an_unknown_family_is_the_servers_word_for_gets_and_scans() {
    let connection = impatient().await;
    let table = TestTable::create("family", plain, &[]).await;
    let rows = table.of(&connection);
    let get = rows.get(Get::new("r").family("g")).await.unwrap_err();
    let scan = rows
        .scan(Scan::new().family("g"))
        .unwrap()
        .next()
        .await
        .unwrap_err();
    for error in [get, scan] {
        assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
        says(
            &error,
            &[table.name.qualifier(), "server 127.0.0.1:", "attempt 1"],
        );
        assert!(
            error.to_string().len() < 800,
            "{}: {error}",
            error.to_string().len()
        );
        assert!(
            error
                .remote()
                .unwrap()
                .class
                .ends_with("NoSuchColumnFamilyException")
        );
    }
}

#[tokio::test]
async fn creating_a_namespace_twice_is_no_error() {
    let connection = impatient().await;
    let admin = Admin::new(&connection);
    for _ in 0..2 {
        admin.create_namespace("suite_namespace").await.unwrap();
    }
}
