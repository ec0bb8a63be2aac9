//! Latches on every release: they depend on conditions by the timestamps of several columns, and on
//! several actions in one call.

use std::time::Duration;

use hbase_txn::{
    ErrorKind, Level,
    admin::Admin,
    client::{Connection, Increment, TableDescriptor, TableName},
    latch::{LatchManager, LatchManagerOptions, LatchState, LatchTableOptions, WaitOutcome},
};

use crate::{
    on_each,
    support::{latch_rows::latch_row, table::TestTable},
};

const HOUR: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_secs(20);

fn with_state(name: TableName) -> TableDescriptor {
    LatchTableOptions::from(name).descriptor()
}

fn as_java_makes_it(name: TableName) -> TableDescriptor {
    LatchTableOptions::from(name).no_state_family().descriptor()
}

async fn manager(connection: &Connection, table: &TestTable, farm: &str) -> LatchManager {
    LatchManagerOptions::new("svc", farm)
        .open(connection, table.name.clone())
        .await
        .unwrap()
}

async fn flush(admin: &Admin, table: &TestTable) {
    admin.flush_table(&table.name).await.unwrap();
}

#[tokio::test]
async fn a_latch_is_made_counted_by_several_forgotten_and_made_again() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        for descriptor in [with_state, as_java_makes_it] {
            let table = TestTable::create_on(cluster, "latches", descriptor, &[]).await;
            let (here, there) = (
                manager(&connection, &table, "fra").await,
                manager(&connection, &table, "sgp").await,
            );
            for level in [Level::Dc, Level::Xdc] {
                let id = level.to_string();
                let ours = here.latch(level, &id).unwrap();
                let far = match level {
                    Level::Xdc => there.latch(level, &id).unwrap(),
                    _ => ours.clone(),
                };
                ours.init(20, HOUR).await.unwrap();
                assert_eq!(
                    ours.init(20, HOUR).await.unwrap_err().kind(),
                    ErrorKind::LatchExists
                );
                for left in (4..20).rev().step_by(2) {
                    assert_eq!(ours.count_down(1).await.unwrap().left, left);
                    assert_eq!(far.count_down(1).await.unwrap().left, left - 1);
                }
                // Cells of a Java client.
                for by in [1, -1] {
                    let increment = Increment::new(latch_row("svc", &id)).column("C", "count_fra", by);
                    table.of(&connection).increment(increment).await.unwrap();
                }
                if here.has_state_family() {
                    assert!(far.arrive("one").await.unwrap().counted);
                    assert!(!far.arrive("one").await.unwrap().counted);
                } else {
                    assert_eq!(far.count_down(1).await.unwrap().left, 3);
                }
                flush(&Admin::new(&connection), &table).await;
                assert!(ours.delete().await.unwrap());
                assert_eq!(far.show().await.unwrap().state, LatchState::Absent);

                ours.init(3, SHORT).await.unwrap();
                assert_eq!(far.count_down(1).await.unwrap().left, 2);
                assert_eq!(ours.count_down(1).await.unwrap().left, 1);
                flush(&Admin::new(&connection), &table).await;
                assert_eq!(far.wait(PATIENCE).await.unwrap(), WaitOutcome::Expired);
                let state = if here.has_state_family() {
                    LatchState::Expired
                } else {
                    LatchState::Absent
                };
                assert_eq!(ours.show().await.unwrap().state, state);
                ours.init(1, HOUR).await.unwrap();
                assert_eq!(far.count_down(1).await.unwrap().left, 0);
                assert_eq!(ours.wait(PATIENCE).await.unwrap(), WaitOutcome::Reached);
            }
        }
    })
    .await;
}
