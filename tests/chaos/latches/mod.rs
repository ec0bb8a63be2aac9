//! Latches under faults: each participant counts once, and each count-down once, or its outcome is
//! reported as unknown.
//!
//! | file | what |
//! |---|---|
//! | `ledger` | the workers' results, and whether they agree with the latches |
//! | `load` | workers that count down and arrive |
//! | `waiting` | waiters, while one server is silent |
//! | `faults` | lost requests, moving regions, killed servers |

mod faults;
mod ledger;
mod load;
mod waiting;

use std::time::Duration;

use hbase_txn::{
    admin::Admin,
    client::{Config, Connection, Scan, TableName},
    latch::{LatchManager, LatchManagerOptions, LatchTableOptions},
};

use crate::{
    cluster::{PATIENCE, TestCluster},
    proxy::Proxy,
    settings::Settings,
};

const CLIENT: &str = "chaos";
const FARMS: [&str; 2] = ["fra", "sgp"];

/// A latch table of one test.
pub(crate) struct Rig {
    pub(crate) cluster: TestCluster,
    pub(crate) connection: Connection,
    pub(crate) name: TableName,
    has_state: bool,
}

impl Rig {
    pub(crate) async fn new(test: &str, settings: &Settings, has_state: bool) -> Self {
        let cluster = TestCluster::take().await;
        let connection = cluster.connect().await;
        let name: TableName = format!("{test}_{}_{:x}", settings.seed, fastrand::u32(..))
            .parse()
            .unwrap();
        let options = LatchTableOptions::from(name.clone()).regions(6);
        let options = if has_state {
            options
        } else {
            options.no_state_family()
        };
        let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
        assert!(options.create(&admin).await.unwrap());
        Self {
            cluster,
            connection,
            name,
            has_state,
        }
    }

    /// Returns the settings of a client behind a proxy, which soon gives up a call without an
    /// answer.
    pub(crate) fn behind_config(&self) -> Config {
        self.cluster
            .config()
            .with_write_timeout(Duration::from_millis(400))
            .with_read_timeout(Duration::from_millis(400))
            .with_operation_timeout(Duration::from_secs(4))
    }

    /// Returns a client behind a proxy.
    async fn behind(&self, proxy: &Proxy) -> Connection {
        Connection::builder(self.behind_config())
            .connector(proxy.clone())
            .connect()
            .await
            .unwrap()
    }

    async fn latches(&self, connection: &Connection, farm: &str) -> LatchManager {
        LatchManagerOptions::new(CLIENT, farm)
            .open(connection, self.name.clone())
            .await
            .unwrap()
    }

    /// Asserts that every cell has an expiry.
    async fn all_ends(&self) {
        let table = self.connection.table(self.name.clone()).unwrap().with_expiry();
        let mut scanner = table.scan(Scan::new()).unwrap();
        let mut cells = 0;
        while let Some(row) = scanner.next().await.unwrap() {
            for cell in row.cells() {
                assert!(cell.expires_at().is_some(), "for ever: {cell:?}");
                cells += 1;
            }
        }
        assert!(cells > 0);
    }

    pub(crate) async fn end(self) {
        let admin = Admin::new(&self.connection).with_operation_timeout(PATIENCE);
        admin.delete_table(&self.name).await.unwrap();
        self.connection.close().await;
    }
}
