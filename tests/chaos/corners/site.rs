//! Tables that cases share, and that move together.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::{
    PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Config, Connection, TableName},
    latch::{LatchManager, LatchManagerOptions, LatchTableOptions, PartitionLatches},
    lock::{LockManager, LockManagerOptions, LockTableOptions, PartitionLocks},
};
use tokio::time::sleep;

use crate::{
    cluster::{PATIENCE, TestCluster, create_table_as},
    regions::Shuffler,
    settings::Settings,
};

pub(super) const FARM: &str = "fra";
pub(super) const CLIENT: &str = "corners";

/// A table for rows, one for locks and one for latches, of one region each.
pub(super) struct Site {
    pub(super) config: Config,
    pub(super) clean: Arc<Clean>,
    connection: Connection,
}

/// The tables of a client without corners.
pub(super) struct Clean {
    pub(super) connection: Connection,
    pub(super) data: PartitionedTable,
    pub(super) locks: LockManager,
    pub(super) latches: LatchManager,
    pub(super) partition_locks: PartitionLocks,
    pub(super) partition_latches: PartitionLatches,
}

impl Site {
    pub(super) async fn create(cluster: &TestCluster, connection: &Connection, settings: &Settings) -> Self {
        let name = |what: &str| -> TableName {
            let name = format!("corners_{what}_{}_{:x}", settings.seed, fastrand::u32(..));
            name.parse().unwrap()
        };
        let admin = Admin::new(connection).with_operation_timeout(PATIENCE);
        let locks = LockTableOptions::from(name("locks")).regions(1);
        let latches = LatchTableOptions::from(name("latches")).regions(1);
        let data = create_table_as(connection, settings, "corners", &[], |descriptor| {
            descriptor.with_record_family().with_lock_family()
        });
        let (data, locked, latched) = tokio::join!(data, locks.create(&admin), latches.create(&admin));
        assert!(locked.unwrap() && latched.unwrap());
        let data = PartitionedTable::open(connection, data.unwrap()).await.unwrap();
        let options = LockManagerOptions::new(CLIENT).farm(FARM);
        let lock_table = locks.descriptor().name;
        let clean = Clean {
            connection: connection.clone(),
            locks: options.open(connection, lock_table).await.unwrap(),
            latches: LatchManagerOptions::new(CLIENT, FARM)
                .open(connection, latches.name().clone())
                .await
                .unwrap(),
            partition_locks: PartitionLocks::open(&data).await.unwrap(),
            partition_latches: PartitionLatches::open(&data).await.unwrap(),
            data,
        };
        Self {
            config: cluster.rpc_config(),
            clean: Arc::new(clean),
            connection: connection.clone(),
        }
    }

    pub(super) fn tables(&self) -> [&TableName; 3] {
        let clean = &self.clean;
        [clean.data.name(), clean.locks.table(), clean.latches.table()]
    }

    /// Moves all its regions to other servers, after a pause.
    pub(super) async fn move_regions(&self, pause: Duration, mut rng: Rng) {
        sleep(pause).await;
        let moves = self.tables().map(|table| {
            let mut shuffler = Shuffler::new(&self.connection, table, rng.fork());
            async move { shuffler.move_one().await }
        });
        join_all(moves).await;
    }

    pub(super) async fn remove(self) {
        let admin = Admin::new(&self.connection).with_operation_timeout(PATIENCE);
        // Cases create their own tables, whose names begin with this one.
        let data = format!("{}_", self.clean.data.name());
        let tables = admin.tables().await.unwrap().into_iter();
        let made: Vec<TableName> = tables
            .filter(|table| table.to_string().starts_with(&data))
            .collect();
        let all = self.tables().into_iter().chain(&made);
        for deleted in join_all(all.map(|table| admin.delete_table(table))).await {
            deleted.unwrap();
        }
    }
}
