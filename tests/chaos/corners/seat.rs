//! The client of one case.

use std::sync::{Arc, Mutex};

use hbase_txn::{
    PartitionedTable,
    client::{Connection, Table},
    latch::{LatchManager, LatchManagerOptions, PartitionLatches},
    lock::{LockManager, LockManagerOptions, PartitionLocks},
};

use super::{
    DEADLINE,
    corner::{Corner, Luck, Story},
    site::{CLIENT, Clean, FARM, Site},
};
use crate::proxy::Proxy;

/// A client behind a proxy, and rows of one case only.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) connection: Connection,
    pub(super) proxy: Proxy,
    /// A client for the same tables without corners.
    pub(super) clean: Arc<Clean>,
    /// Its partition, and the id of its lock, latch and so on.
    pub(super) prefix: String,
    pub(super) asks_master: bool,
    corners: &'static [Corner],
    luck: Arc<Mutex<Luck>>,
    story: Arc<Mutex<Story>>,
}

impl Seat {
    pub(super) async fn take(
        site: &Site,
        corners: &'static [Corner],
        number: usize,
        asks_master: bool,
        mut luck: Luck,
    ) -> Self {
        let proxy = Proxy::new();
        let config = site
            .config
            .clone()
            .with_read_timeout(luck.time_of_attempt())
            .with_operation_timeout(DEADLINE);
        let connection = Connection::builder(config).connector(proxy.clone());
        Self {
            connection: connection.connect().await.unwrap(),
            proxy,
            clean: Arc::clone(&site.clean),
            prefix: format!("{number:03}"),
            asks_master,
            corners,
            luck: Arc::new(Mutex::new(luck)),
            story: Arc::default(),
        }
    }

    /// From now on the corners apply to requests.
    pub(super) fn arm(&self) {
        let mut script = self.luck.lock().unwrap().script(self.corners);
        script.story = Arc::clone(&self.story);
        let asks_master = self.asks_master;
        self.proxy
            .rule(move |request| script.action(asks_master, request));
    }

    /// From now on requests are forwarded, except on muted connections.
    pub(super) fn disarm(&self) {
        self.proxy.pass_all();
    }

    pub(super) fn has_lost_answers(&self) -> bool {
        !self.story.lock().unwrap().lost.is_empty()
    }

    /// Returns whether its region moves, which takes seconds on a busy machine.
    pub(super) fn moves(&self) -> bool {
        self.corners.contains(&Corner::Moved)
    }

    /// Returns whether a request to the master was not answered.
    pub(super) fn missed_master(&self) -> bool {
        self.story.lock().unwrap().master_was_silent
    }

    pub(super) fn story(&self) -> String {
        format!("{:?}", self.story.lock().unwrap())
    }

    /// Returns a row of its partition.
    pub(super) fn row(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// Returns the table, with a cached region and an open connection to its server.
    pub(super) async fn table(&self) -> Table {
        let table = self.connection.table(self.clean.data.name().clone()).unwrap();
        table
            .get(hbase_txn::client::Get::new(self.row("a")))
            .await
            .unwrap();
        table
    }

    pub(super) async fn data(&self) -> PartitionedTable {
        let name = self.clean.data.name().clone();
        PartitionedTable::open(&self.connection, name).await.unwrap()
    }

    pub(super) async fn partition_locks(&self) -> PartitionLocks {
        PartitionLocks::open(&self.data().await).await.unwrap()
    }

    pub(super) async fn partition_latches(&self) -> PartitionLatches {
        PartitionLatches::open(&self.data().await).await.unwrap()
    }

    pub(super) async fn locks(&self) -> LockManager {
        LockManagerOptions::new(CLIENT)
            .farm(FARM)
            .open(&self.connection, self.clean.locks.table().clone())
            .await
            .unwrap()
    }

    pub(super) async fn latches(&self) -> LatchManager {
        LatchManagerOptions::new(CLIENT, FARM)
            .open(&self.connection, self.clean.latches.table().clone())
            .await
            .unwrap()
    }
}
