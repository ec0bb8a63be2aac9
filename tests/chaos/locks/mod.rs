//! Locks under load and faults: two owners never hold one lock, and an owner that has lost it can't
//! change protected data.
//!
//! | file | what |
//! |---|---|
//! | `simulated::abandoned` | lost answers, late requests |
//! | `arena` | critical sections, and the owners in them at the same time |
//! | `command` | `lock run` on a network that becomes silent |
//! | `contest` | owners that acquire and release, and write as holders |
//! | `faults` | paused owners, lost requests, moving regions, killed servers |
//! | `fencing` | fencing numbers, regardless of events |
//! | `simulated::in_partitions` | locks in the partition of the data |
//! | `java` | an owner with the protocol of the Java library |
//! | `many` | hundreds of leases of one process, and a killed server |
//! | `simulated::muted` | connections that become silent while HBase is healthy |
//! | `skewed_server` | a region server whose clock is ahead of the others' |
//! | `wall_clock` | a process whose wall clock is a minute off |
//! | `simulated::spinning` | owners that acquire again as soon as they have released |

mod arena;
mod command;
mod contest;
pub(crate) mod faults;
mod fencing;
mod java;
mod many;
mod skewed_server;
mod wall_clock;

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    mod abandoned;
    mod in_partitions;
    mod muted;
    mod spinning;
}

use std::time::Duration;

use hbase_txn::{
    Level,
    admin::Admin,
    client::{Connection, TableName},
    lock::{LockManager, LockManagerOptions, LockRequest, LockTableOptions},
};

use crate::{
    cluster::{PATIENCE, TestCluster},
    proxy::Proxy,
    settings::Settings,
};

const FARM: &str = "fra";
const CLIENT: &str = "chaos";

/// The kinds of lock tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    OursAlone,
    WithCompanions,
    ProtectJava,
}

/// A lock table of one test.
pub(crate) struct Rig {
    pub(crate) cluster: TestCluster,
    pub(crate) connection: Connection,
    pub(crate) name: TableName,
}

impl Rig {
    pub(crate) async fn new(test: &str, settings: &Settings, sort: Sort) -> Self {
        let cluster = TestCluster::take().await;
        let connection = cluster.connect().await;
        let name: TableName = format!("{test}_{}_{:x}", settings.seed, fastrand::u32(..))
            .parse()
            .unwrap();
        let options = LockTableOptions::from(name.clone()).regions(6);
        let options = match sort {
            Sort::OursAlone => options.without_java_clients(),
            Sort::WithCompanions => options,
            Sort::ProtectJava => options.protect_java_clients(),
        };
        let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
        assert!(options.create(&admin).await.unwrap());
        Self {
            cluster,
            connection,
            name,
        }
    }

    /// Returns a manager for one owner, which does not queue up with others of this process.
    async fn locks(&self) -> LockManager {
        locks_of(&self.connection, &self.name).await
    }

    /// Returns a client behind a proxy, which soon gives up a call without an answer.
    async fn behind(&self, proxy: &Proxy) -> Connection {
        let config = self
            .cluster
            .config()
            .with_operation_timeout(Duration::from_secs(2));
        Connection::builder(config)
            .connector(proxy.clone())
            .connect()
            .await
            .unwrap()
    }

    pub(crate) async fn end(self) {
        let admin = Admin::new(&self.connection).with_operation_timeout(PATIENCE);
        admin.delete_table(&self.name).await.unwrap();
        self.connection.close().await;
    }
}

async fn locks_of(connection: &Connection, table: &TableName) -> LockManager {
    LockManagerOptions::new(CLIENT)
        .farm(FARM)
        .open(connection, table.clone())
        .await
        .unwrap()
}

fn request(locks: &LockManager, id: &str, lease: Duration) -> LockRequest {
    locks.lock(Level::Dc, id).unwrap().ttl(lease)
}
