//! Tables, cells and requests that the servers refuse, for reasons that the client does not check.

use std::time::Duration;

use hbase_client::Error;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{
        Append, Condition, Connection, FamilyDescriptor, Get, Increment, Mutation, Put, Scan,
        TableDescriptor, TableName,
    },
};
use rstest::rstest;

use crate::support::{
    keys, put, says, standalone,
    table::{TestTable, plain, unique_name},
    value, within,
};

const LIMIT: usize = 10 << 10;
const DEADLINE: Duration = Duration::from_secs(20);

/// A table whose cells have at most 10 KiB.
fn of_small_cells(name: TableName) -> TableDescriptor {
    plain(name).with_attribute("hbase.server.keyvalue.maxsize", LIMIT.to_string())
}

/// Asserts that the server has refused something for good, and says why.
#[track_caller]
fn refused(error: &Error, words: &[&str]) {
    assert!(!error.is_outcome_unknown() && !error.is_retryable(), "{error:?}");
    assert!(error.to_string().len() < 900, "{error}");
    says(error, words);
}

async fn impatient() -> Connection {
    let config = standalone().config().with_operation_timeout(DEADLINE);
    Connection::builder(config).connect().await.unwrap()
}

#[tokio::test]
#[ignore = "needs servers that limit the size of cells"]
async fn cells_over_the_limit_of_a_table_are_refused() {
    let connection = impatient().await;
    let owned = TestTable::create("smallcells", of_small_cells, &[]).await;
    let table = owned.of(&connection);
    let name = owned.name.qualifier();
    table.put(put("fits", vec![b'x'; LIMIT - 200])).await.unwrap();
    let error = table.put(put("large", vec![b'x'; LIMIT + 1])).await.unwrap_err();
    refused(&error, &[name, "size"]);
    let append = Append::new("large").cell("f", "q", vec![b'x'; LIMIT + 1]);
    refused(&table.append(append).await.unwrap_err(), &[name, "size"]);
    // The suffix alone is small enough.
    let append = Append::new("fits").cell("f", "q", vec![b'x'; 400]);
    refused(&table.append(append).await.unwrap_err(), &[name, "size"]);
    let condition = Condition::absent("large", "f", "q");
    let large = put("large", vec![b'x'; LIMIT + 1]);
    let error = table
        .check_and_mutate(condition, [large.into()])
        .await
        .unwrap_err();
    refused(&error, &[name, "size"]);
    table
        .increment(Increment::new("fits").column("f", "n", 1))
        .await
        .unwrap();
    assert_eq!(keys(&table, Scan::new()).await, ["fits"]);
    assert_eq!(value(&table, "fits").await.unwrap().len(), LIMIT - 200);
}

#[tokio::test]
#[ignore = "needs servers that limit the size of cells"]
async fn a_cell_that_the_server_refuses_fails_its_own_mutation_alone() {
    let connection = impatient().await;
    let owned = TestTable::create("badcell", of_small_cells, &["m"]).await;
    let table = owned.of(&connection);
    let row = |number: usize| format!("{}{number:02}", if number < 20 { "row" } else { "zow" });
    let is_large = |number: usize| number % 10 == 7;
    let mutations = (0..40).map(|number| -> Mutation {
        let size = if is_large(number) { LIMIT + 1 } else { 10 };
        put(row(number), vec![b'x'; size]).into()
    });
    for (number, result) in table.mutate_many(mutations).await.iter().enumerate() {
        match result {
            Ok(()) => assert!(!is_large(number), "{number}"),
            Err(error) => {
                assert!(is_large(number), "{number}: {error}");
                refused(error, &["size"]);
            }
        }
    }
    let written: Vec<_> = (0..40).filter(|number| !is_large(*number)).map(row).collect();
    assert_eq!(keys(&table, Scan::new()).await, written);

    // All mutations of a conditional change are refused together.
    let both: [Mutation; 2] = [
        Put::new("row00").cell("f", "small", "v").into(),
        Put::new("row00").cell("f", "large", vec![b'x'; LIMIT + 1]).into(),
    ];
    let condition = Condition::present("row00", "f", "q");
    let error = table.check_and_mutate(condition, both).await.unwrap_err();
    refused(&error, &["size"]);
    let row = table.get(Get::new("row00")).await.unwrap().unwrap();
    assert_eq!(row.cells().len(), 1);
}

#[tokio::test]
#[ignore = "needs read-only tables"]
async fn a_read_only_table_takes_no_writes() {
    let connection = impatient().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("readonly", plain, &[]).await;
    let table = owned.of(&connection);
    table.put(put("r", "v")).await.unwrap();
    let descriptor = admin.descriptor(&owned.name).await.unwrap();
    admin
        .modify_table(&descriptor.clone().with_attribute("READONLY", "true"))
        .await
        .unwrap();
    let errors = within(DEADLINE, async {
        [
            table.put(put("r", "w")).await.unwrap_err(),
            table
                .increment(Increment::new("r").column("f", "n", 1))
                .await
                .unwrap_err(),
            table
                .check_and_mutate(Condition::present("r", "f", "q"), [put("r", "w").into()])
                .await
                .unwrap_err(),
        ]
    })
    .await;
    for error in errors {
        assert!(!error.is_outcome_unknown(), "{error:?}");
        says(&error, &[owned.name.qualifier(), "read only"]);
    }
    assert_eq!(value(&table, "r").await.as_deref(), Some("v"));
    admin
        .modify_table(&descriptor.with_attribute("READONLY", "false"))
        .await
        .unwrap();
    table.put(put("r", "w")).await.unwrap();
    assert_eq!(value(&table, "r").await.as_deref(), Some("w"));
}

fn with(key: &'static str, value: &'static str) -> impl Fn(TableName) -> TableDescriptor {
    move |name| plain(name).with_attribute(key, value)
}

fn family(
    name: &'static str,
    key: &'static str,
    value: &'static str,
) -> impl Fn(TableName) -> TableDescriptor {
    move |table| {
        let family = FamilyDescriptor::new(name).with_attribute(key, value);
        TableDescriptor::from(table).with_family(family)
    }
}

#[rstest]
#[ignore = "needs the master's checks of descriptors"]
#[case::no_replica(with("REGION_REPLICATION", "0"), "replica")]
#[case::split_policy(with("SPLIT_POLICY", "nowhere.Policy"), "nowhere.Policy")]
#[ignore = "needs the master's checks of descriptors"]
#[case::flush_size(with("MEMSTORE_FLUSHSIZE", "1"), "MEMSTORE_FLUSHSIZE")]
#[ignore = "needs the master's checks of descriptors"]
#[case::file_size(with("MAX_FILESIZE", "1"), "MAX_FILESIZE")]
#[ignore = "needs the master's checks of descriptors"]
#[case::fewer_than_the_least_versions(family("f", "MIN_VERSIONS", "7"), "Min versions")]
#[ignore = "needs the master's checks of descriptors"]
#[case::block_size(family("f", "BLOCKSIZE", "100"), "Block size")]
#[case::time_to_live(family("f", "TTL", "-5"), "TTL")]
#[ignore = "needs the master's checks of descriptors"]
#[case::scope(family("f", "REPLICATION_SCOPE", "-1"), "Replication scope")]
#[case::colon(family("a:b", "VERSIONS", "1"), "a:b")]
#[case::dot(family(".a", "VERSIONS", "1"), ".a")]
#[tokio::test]
async fn invalid_descriptors_are_refused(
    #[case] descriptor: impl Fn(TableName) -> TableDescriptor,
    #[case] word: &str,
) {
    let connection = impatient().await;
    let admin = Admin::new(&connection);
    let name = unique_name("invalid");
    let error = within(DEADLINE, admin.create_table(&descriptor(name.clone()), &[])).await;
    refused(&error.unwrap_err(), &[name.qualifier(), word]);
    assert!(!admin.exists(&name).await.unwrap());

    let owned = TestTable::create("invalid", plain, &[]).await;
    let before = admin.descriptor(&owned.name).await.unwrap();
    let error = within(DEADLINE, admin.modify_table(&descriptor(owned.name.clone()))).await;
    refused(&error.unwrap_err(), &[owned.name.qualifier(), word]);
    assert_eq!(admin.descriptor(&owned.name).await.unwrap(), before);
}

#[tokio::test]
#[ignore = "needs a master that protects the catalog"]
async fn the_catalog_and_its_namespaces_stay() {
    let connection = impatient().await;
    let admin = Admin::new(&connection);
    for error in within(DEADLINE, async {
        [
            admin.disable_table("hbase:meta").await.unwrap_err(),
            admin.delete_table("hbase:meta").await.unwrap_err(),
            admin.truncate_table("hbase:meta", true).await.unwrap_err(),
            admin.snapshot("suite_of_meta", "hbase:meta").await.unwrap_err(),
        ]
    })
    .await
    {
        refused(&error, &["hbase:meta"]);
    }
    // The master refuses a namespace once the changes of its tables have ended, those of other tests.
    let patient = Admin::new(&connection).with_operation_timeout(6 * DEADLINE);
    for name in ["default", "hbase"] {
        let error = within(6 * DEADLINE, patient.delete_namespace(name))
            .await
            .unwrap_err();
        refused(&error, &[name]);
        assert_ne!(error.kind(), ClientErrorKind::NamespaceNotFound);
        assert!(admin.namespace_exists(name).await.unwrap());
    }
}
