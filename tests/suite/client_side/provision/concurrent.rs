//! Several processes that change one table at the same time.

use std::time::Duration;

use futures::future::{join, join_all};
use hbase_provision::{Plan, Repair, TableAlteration};
use hbase_txn::{
    ClientErrorKind, TableDescriptorExt,
    admin::Admin,
    client::{Connection, TableDescriptor, TableName},
};

use crate::provision::{by_three, plan};
use crate::support::{
    connect, says, standalone, table,
    table::{TestTable, plain, unique_name},
};

const OPERATORS: usize = 4;
const ROUNDS: usize = 5;

/// HBase replaces the whole descriptor: without turns, most of these changes would be lost.
#[tokio::test]
async fn concurrent_alterations_are_all_kept() {
    let table = TestTable::create("operators", plain, &["ggg"]).await;
    let connections = join_all((0..OPERATORS).map(|_| connect())).await;
    for round in 0..ROUNDS {
        let altered = connections
            .iter()
            .enumerate()
            .map(async |(operator, connection)| {
                let mut alteration =
                    TableAlteration::new().attribute(format!("by-{operator}"), format!("{round}"));
                if operator == round {
                    alteration = alteration.record_family();
                }
                let plan = Plan::read_alteration(connection, &table.name, &alteration).await?;
                plan.apply(connection, &()).await
            });
        let of_file = async {
            let file = by_three(&table.name, &format!("attributes.file = '{round}'"));
            plan(&connections[0], &file)
                .await
                .apply(&connections[0], &())
                .await
        };
        let (altered, of_file) = join(join_all(altered), of_file).await;
        assert!(of_file.unwrap().exclusive);
        for applied in altered {
            assert!(applied.unwrap().exclusive);
        }
        let found = Admin::new(&connections[0]).descriptor(&table.name).await.unwrap();
        for operator in 0..OPERATORS {
            let attribute = found.attribute(&format!("by-{operator}"));
            assert_eq!(attribute, Some(round.to_string().as_str()), "operator {operator}");
        }
        assert_eq!(found.attribute("file"), Some(round.to_string().as_str()));
        assert!(
            found.family(TableDescriptor::RECORD_FAMILY).is_some()
                && found.names_multi_row_mutation_endpoint()
        );
    }
}

/// A master keeps the lock of a holder without heartbeats for its timeout, and of one that sends them
/// without limit.
#[tokio::test]
async fn lock_on_a_name_excludes_others_until_it_is_released() {
    let (one, other) = (connect().await, connect().await);
    let name = unique_name("locked");
    let lock = Admin::new(&one).table_lock(&name, "a test").await.unwrap();
    assert!(lock.heartbeat().await.unwrap());
    assert!(lock.timeout() > Duration::from_secs(1), "{:?}", lock.timeout());
    let short = Admin::new(&other).with_operation_timeout(Duration::from_millis(500));
    let error = short.table_lock(&name, "a test").await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
    says(&error, &[name.qualifier(), "another client holds the lock"]);
    let waiting = Admin::new(&other);
    let waits = waiting.table_lock(&name, "a test");
    let releases = async {
        assert!(lock.heartbeat().await.unwrap());
        lock.release().await
    };
    let (acquired, released) = join(waits, releases).await;
    released.unwrap();
    let acquired = acquired.unwrap();
    assert!(acquired.heartbeat().await.unwrap());
    acquired.release().await.unwrap();
}

/// Repairs, alterations and applications take turns.
#[tokio::test]
async fn repair_waits_for_the_lock_on_changes() {
    let connection = connect().await;
    let table = TestTable::create("turns", table::by_three, &[]).await;
    let name: TableName = format!("{}.hbase-txn.alteration", table.name).parse().unwrap();
    let lock = Admin::new(&connection).table_lock(&name, "a test").await.unwrap();
    let hasty = standalone()
        .config()
        .with_operation_timeout(Duration::from_secs(1));
    let hasty = Connection::builder(hasty).connect().await.unwrap();
    let alteration = TableAlteration::new().attribute("theirs", "1");
    let planned = Plan::read_alteration(&hasty, &table.name, &alteration)
        .await
        .unwrap();
    let applied = planned.apply(&hasty, &()).await.unwrap_err();
    let repaired = Repair::new(&hasty, &table.name)
        .unwrap()
        .run(|_| ())
        .await
        .unwrap_err();
    for error in [applied, repaired] {
        assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
        says(
            &error,
            &[
                "the lock on changes of the table was not acquired",
                "another process",
                table.name.qualifier(),
            ],
        );
    }
    lock.release().await.unwrap();
    let found = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    assert_eq!(found.attribute("theirs"), None);
}
