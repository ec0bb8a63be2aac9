//! Lost answers, closed connections, silent servers: what the client then reports and does.
//!
//! | file | what |
//! |---|---|
//! | `commits` | one fault, one commit: its reported outcome, and the number of its requests |
//! | `deadlines` | silence, and many calls in flight at once |
//! | `increments` | increments and appends whose answers are lost |
//! | `mixed` | random faults under readers and writers |
//! | `shared` | cut connections under operations that share calls |
//! | `silent_connection` | a connection that becomes silent; a server that is only slow |

mod commits;
mod deadlines;
mod increments;
mod mixed;
mod shared;
mod silent_connection;

use hbase_txn::{
    Outcome, PartitionedTable,
    client::{Config, Connection, Put, Scan},
};

use crate::{
    cluster::{FAMILY, QUALIFIER, TestCluster, create_table, drop_table},
    history::GroupId,
    proxy::Proxy,
    settings::Settings,
};

/// The RPC method of transactions.
const COMMIT: &str = "ExecService";

/// A client behind the proxy, and a table that it has used already.
struct Rig {
    proxy: Proxy,
    connection: Connection,
    table: PartitionedTable,
    next_group: u32,
    cluster: TestCluster,
}

impl Rig {
    async fn new(test: &str, settings: &Settings, configure: impl FnOnce(Config) -> Config) -> Self {
        let cluster = TestCluster::take().await;
        let proxy = Proxy::new();
        let config = configure(cluster.config());
        let connection = Connection::builder(config)
            .connector(proxy.clone())
            .connect()
            .await
            .unwrap();
        let split_keys = ["h", "p"].map(str::to_owned);
        let table = create_table(&connection, settings, test, &split_keys)
            .await
            .unwrap();
        let mut rig = Self {
            proxy,
            connection,
            table,
            next_group: 0,
            cluster,
        };
        // One commit in each region, so that locations and connections are cached.
        for partition in ["aaa", "iii", "qqq"] {
            let mut attempts = 0;
            loop {
                let (outcome, _) = rig.commit(partition).await;
                if outcome.is_committed() {
                    break;
                }
                attempts += 1;
                assert!(attempts < 5, "{outcome}");
            }
        }
        rig
    }

    /// Commits a group of three rows.
    async fn commit(&mut self, partition: &str) -> (Outcome, GroupId) {
        let group = self.group(partition);
        (commit(&self.table, &group).await, group)
    }

    fn group(&mut self, partition: &str) -> GroupId {
        self.next_group += 1;
        GroupId {
            partition: partition.to_owned(),
            // Workloads do not use this number.
            writer: 99,
            number: self.next_group,
        }
    }

    /// Returns whether the group is in the table. Fails if only a part of it is.
    async fn is_there(&self, group: &GroupId) -> bool {
        let mut scanner = self.table.table().scan(Scan::prefix(group.to_string())).unwrap();
        let mut rows = 0;
        while scanner.next().await.unwrap().is_some() {
            rows += 1;
        }
        assert!(rows == 0 || rows == ROWS, "{rows} of {ROWS} rows of {group}");
        rows == ROWS
    }

    /// Asserts that the same client still works.
    async fn still_works(&mut self) {
        self.proxy.pass_all();
        for partition in ["aaa", "iii", "qqq"] {
            let (outcome, group) = self.commit(partition).await;
            assert!(outcome.is_committed(), "{outcome}");
            assert!(self.is_there(&group).await);
        }
    }

    async fn end(self) {
        drop_table(&self.connection, &self.table).await;
        self.connection.close().await;
        assert_eq!(self.proxy.open(), 0, "connections are left after close");
    }
}

const ROWS: u32 = 3;

async fn commit(table: &PartitionedTable, group: &GroupId) -> Outcome {
    let mut transaction = table.transaction(group.partition.clone());
    for index in 0..ROWS {
        let put = Put::new(group.row(index)).cell(FAMILY, QUALIFIER, group.value(ROWS));
        transaction = transaction.put(put);
    }
    transaction.commit().await
}
