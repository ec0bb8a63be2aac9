//! The record of a transaction, case by case, with all faults that broke its prototypes.
//!
//! | case | where |
//! |---|---|
//! | a lost answer is sent again, or fenced off | `simulated::lost` |
//! | a request that arrives after the fence; reading instead of fencing | `simulated::lost` |
//! | a conditional transaction is replayed by a new process | `simulated::lost` |
//! | an earlier copy was answered with false, and a later one finds the conditions met | `simulated::lost` |
//! | fence and request at once; one id from two clients at once | `races` |
//! | other clients delete the record's row: before, after, between fence and late request, right before a fence | `deletes` |
//! | regions close, open, split; a server is killed; a table that skips the log | `servers` |
//! | a lost answer, then a move to a server that refuses every attempt | `servers` |
//!
//! Not here: a client whose clock is behind, which needs a second machine (`src/txn/proof/servers.rs` has
//! unit tests of the clock rules); an explicit flush or major compaction (a region that closes
//! flushes); folded transactions, which never have records.

mod deletes;
mod races;
mod servers;

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    mod lost;
}

use std::time::Duration;

use bytes::Bytes;
use hbase_txn::{
    Outcome, PartitionedTable, Settled, TableDescriptorExt, Transaction, TransactionId, Unsettled,
    client::{Connection, Durability, FamilyDescriptor, Get, Increment, TableDescriptor},
};

use crate::{
    cluster::{PATIENCE, TestCluster, create_table_as, drop_table, until},
    lost_answers::ledger::{MARKS, number},
    proxy::{Action, Proxy},
    settings::{Settings, is_long},
};

/// The RPC method of transactions.
const COMMIT: &str = "ExecService";
/// The time limit of one attempt.
const ATTEMPT: Duration = Duration::from_millis(500);
/// Time for one attempt only: a lost request is not sent again.
const BRIEF: Duration = Duration::from_millis(400);
/// Time for any number of attempts.
const LONG: Duration = Duration::from_secs(20);
/// One in each region.
const PARTITIONS: [&str; 3] = ["aaa", "iii", "qqq"];

/// A client behind the proxy, another one without it, and a table that both have used.
struct Rig {
    cluster: TestCluster,
    proxy: Proxy,
    table: PartitionedTable,
    other: PartitionedTable,
    connections: [Connection; 2],
    settings: Settings,
}

impl Rig {
    async fn new(test: &'static str) -> Self {
        Self::with_table(test, |descriptor| descriptor).await
    }

    async fn with_table(test: &'static str, add: impl FnOnce(TableDescriptor) -> TableDescriptor) -> Self {
        let cluster = TestCluster::take().await;
        let settings = Settings::of(test);
        let proxy = Proxy::new();
        let config = cluster
            .config()
            .with_read_timeout(ATTEMPT)
            .with_write_timeout(ATTEMPT);
        let ours = Connection::builder(config)
            .connector(proxy.clone())
            .connect()
            .await
            .unwrap();
        let other = cluster.connect().await;
        let boundaries = ["h", "p"].map(str::to_owned);
        let name = create_table_as(&other, &settings, test, &boundaries, |descriptor| {
            add(descriptor)
                .with_family(FamilyDescriptor::new(MARKS))
                .with_record_family()
        })
        .await
        .unwrap();
        let open = async |connection| {
            hbase_txn::OpenOptions::new()
                .allow_weak_durability()
                // They must meet at the server, not wait for each other in the client.
                .without_admission()
                .open(connection, name.clone())
                .await
                .unwrap()
        };
        let rig = Self {
            table: open(&ours).await,
            other: open(&other).await,
            connections: [ours, other],
            cluster,
            proxy,
            settings,
        };
        rig.warm_up().await;
        rig
    }

    /// Makes the client fetch all information about each server that it needs before the first
    /// transaction.
    async fn warm_up(&self) {
        for partition in PARTITIONS {
            for table in [&self.table, &self.other] {
                let outcome = transaction(table, LONG, partition, &TransactionId::unique())
                    .commit()
                    .await;
                assert!(outcome.is_committed(), "{outcome}");
            }
        }
    }

    /// Returns how often a transaction was applied.
    async fn applied(&self, partition: &'static str, id: &TransactionId) -> i64 {
        let row = self
            .other
            .table()
            .get(Get::new(marks_row(partition)).column(MARKS, id.as_bytes().to_vec()))
            .await
            .unwrap();
        row.and_then(|row| row.cells().first().map(|cell| number(&cell.value)))
            .unwrap_or(0)
    }

    /// Applies this fault to all transactions of the client behind the proxy, and loses the reads of
    /// their records.
    fn lose(&self, action: Action) {
        self.proxy.rule(move |request| match request.method.as_str() {
            COMMIT => action,
            "Get" => Action::DropRequest,
            _ => Action::Pass,
        });
    }

    /// Waits until no request is in flight.
    async fn all_arrived(&self) {
        until("end of all detours", PATIENCE, async || {
            (self.proxy.under_way() == 0).then_some(())
        })
        .await;
    }

    async fn end(self) {
        drop_table(&self.connections[1], &self.table).await;
        for connection in self.connections {
            connection.close().await;
        }
    }
}

fn id(text: impl Into<String>) -> TransactionId {
    TransactionId::new(text.into()).unwrap()
}

fn marks_row(partition: &str) -> String {
    format!("{partition}marks")
}

/// Returns the row of a record, in the documented form.
fn record_row(partition: &str, id: &TransactionId) -> Bytes {
    [partition.as_bytes(), b"\xff_txn\xffr", id.as_bytes()]
        .concat()
        .into()
}

/// A transaction that adds one to the mark of its id, with this deadline. It is logged, even if the
/// table skips the log.
fn bare(
    table: &PartitionedTable,
    time: Duration,
    partition: &'static str,
    id: &TransactionId,
) -> Transaction {
    let table = table.clone().with_operation_timeout(time);
    let mut transaction = table.transaction(partition);
    let mark = Increment::new(marks_row(partition)).column(MARKS, id.as_bytes().to_vec(), 1);
    transaction = transaction.increment(mark.durability(Durability::SyncWal));
    transaction
}

/// The same transaction with a record under its id.
fn transaction(
    table: &PartitionedTable,
    time: Duration,
    partition: &'static str,
    id: &TransactionId,
) -> Transaction {
    bare(table, time, partition, id).id(id.clone())
}

fn unknown(outcome: Outcome) -> Unsettled {
    match outcome {
        Outcome::Unknown(unsettled) => unsettled,
        outcome => panic!("the answer was lost, and yet it is {outcome}"),
    }
}

fn is_replayed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Committed(committed) if committed.replayed)
}

/// Settles an outcome. The time of one attempt is short, so it may take several.
async fn settled(unsettled: &Unsettled) -> Settled {
    until("settlement", LONG, async || unsettled.settle().await.ok()).await
}

/// Returns the number for the present form of the test.
fn times(short: usize, long: usize) -> usize {
    if is_long() { long } else { short }
}
