//! Locks alongside the data of a partition, alone and as parts of transactions.
//!
//! | file | tests |
//! |---|---|
//! | `protocol` | what a real server makes of the cells that a transaction writes |
//! | `fencing` | writes of past and present holders |
//! | `acquiring` `releasing` | together with the data, atomically |
//! | `lost` | lost answers, dropped futures |
//! | `bad_input` | invalid input |

mod acquiring;
mod bad_input;
mod fencing;
mod lost;
mod protocol;
mod releasing;

use std::time::Duration;

use hbase_txn::{
    Outcome, PartitionedTable, TableDescriptorExt,
    client::{Connection, TableDescriptor, TableName},
    lock::{LockGuard, LockRequest, PartitionLocks},
};

use crate::support::table::{SharedTable, TestTable, by_three};

static SHARED: SharedTable = SharedTable::new("partition-locks", with_locks, &["mmm"]);

/// Longer than any of these tests takes.
const LEASE: Duration = Duration::from_secs(60);

fn with_locks(name: TableName) -> TableDescriptor {
    by_three(name).with_record_family().with_lock_family()
}

/// Opens the table and its locks.
async fn client(connection: &Connection, table: &TestTable) -> (PartitionedTable, PartitionLocks) {
    let table = table.open(connection).await;
    let locks = PartitionLocks::open_as(&table, "tester").await.unwrap();
    (table, locks)
}

async fn held(request: LockRequest) -> LockGuard {
    request.ttl(LEASE).acquire().await.unwrap()
}

/// Returns the conditions that did not hold.
fn refused_by(outcome: Outcome) -> Vec<String> {
    match outcome {
        Outcome::Rejected(rejection) => rejection.failed.into_iter().map(|failed| failed.label).collect(),
        other => panic!("not rejected, but {other}"),
    }
}

fn is_taken_now(outcome: Outcome, lock: &str) -> bool {
    refused_by(outcome) == [format!("lock {lock} is not free")]
}

async fn is_free(locks: &PartitionLocks, prefix: &'static str, id: &str) -> bool {
    locks.show(prefix, id).await.unwrap().holder.is_none()
}
