//! Latches under faults: each participant counts once, and a count-down once, or nobody claims to
//! know.
//!
//! | file | what |
//! |---|---|
//! | `ledger` | what workers were told, and whether that can be true of what is found |
//! | `load` | workers that count down and arrive |
//! | `waiting` | who waits, while one server is silent |
//! | `faults` | networks that swallow, regions that move, servers that die |

mod faults;
mod ledger;
mod load;
mod waiting;

use std::time::Duration;

use hbase_txn::{
    Config, Connection, Scan, TableName,
    latch::{LatchManager, LatchManagerOptions, LatchTableOptions},
};

use crate::{
    cluster::{PATIENCE, TestCluster},
    proxy::Proxy,
    settings::Settings,
};

const CLIENT: &str = "chaos";
const FARMS: [&str; 2] = ["fra", "sgp"];

/// A latch table of a test's own.
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
        let options = match has_state {
            true => options,
            false => options.no_state_family(),
        };
        let admin = connection.admin().with_operation_timeout(PATIENCE);
        assert!(options.create(&admin).await.unwrap());
        Self {
            cluster,
            connection,
            name,
            has_state,
        }
    }

    /// The settings of a client behind a proxy. It soon gives up a call that is not answered.
    pub(crate) fn behind_config(&self) -> Config {
        self.cluster
            .config()
            .with_write_timeout(Duration::from_millis(400))
            .with_read_timeout(Duration::from_millis(400))
            .with_operation_timeout(Duration::from_secs(4))
    }

    /// A client behind a proxy.
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

    /// Whether every cell that is there is to end.
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
        let admin = self.connection.admin().with_operation_timeout(PATIENCE);
        admin.delete_table(&self.name).await.unwrap();
        self.connection.close().await;
    }
}
