//! Temporary tables of the tests.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU32, Ordering},
};

use bytes::Bytes;
use hbase_txn::{
    OpenOptions, PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Config, Connection, FamilyDescriptor, RegionInfo, Table, TableDescriptor, TableName},
};
use tokio::sync::Mutex;

use super::{Cluster, eventually, standalone};

const POLICY_PACKAGE: &str = "org.apache.hadoop.hbase.regionserver.";

/// Returns a name that no other test and no other run uses.
pub fn unique_name(what: &str) -> TableName {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let run = fastrand::u32(..);
    format!("suite_{what}_{run:08x}_{number}").parse().unwrap()
}

/// A descriptor with the family `f`.
pub fn plain(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name).with_family(FamilyDescriptor::new("f"))
}

/// A descriptor with the family `f` and the endpoint.
pub fn with_endpoint(name: TableName) -> TableDescriptor {
    plain(name).with_multi_row_mutation_endpoint()
}

/// A descriptor with everything that this rule needs.
pub fn ruled(name: TableName, rule: &PartitionRule) -> TableDescriptor {
    rule.attributes()
        .into_iter()
        .fold(with_endpoint(name), |descriptor, (key, value)| {
            descriptor.with_attribute(key, value)
        })
}

/// Partitions by the first three bytes.
pub fn by_three(name: TableName) -> TableDescriptor {
    ruled(name, &PartitionRule::prefix_length(3).unwrap())
}

/// Partitions by the first three bytes, and no endpoint.
pub fn by_three_without_endpoint(name: TableName) -> TableDescriptor {
    plain(name).with_partition_rule(&PartitionRule::prefix_length(3).unwrap())
}

/// Partitions by the first three bytes, with the family for records.
pub fn recorded(name: TableName) -> TableDescriptor {
    by_three(name).with_record_family()
}

/// Partitions by the first three bytes as on old tables: the policy, and no restriction. A manual
/// split at a key inside a partition cuts it there.
pub fn by_three_of_old(name: TableName) -> TableDescriptor {
    with_endpoint(name)
        .with_attribute(
            "SPLIT_POLICY",
            format!("{POLICY_PACKAGE}KeyPrefixRegionSplitPolicy"),
        )
        .with_attribute("KeyPrefixRegionSplitPolicy.prefix_length", "3")
}

/// Where cells are when they are read.
#[derive(Clone, Copy, Debug)]
pub enum Storage {
    Memstore,
    StoreFiles,
    /// One store file, without the cells that no read returns any more.
    MajorCompacted,
}

/// A table that is deleted when this is dropped, also after a failed test.
#[derive(Debug)]
pub struct TestTable {
    pub name: TableName,
    config: Config,
}

impl TestTable {
    pub async fn create(
        what: &str,
        descriptor: impl FnOnce(TableName) -> TableDescriptor,
        split_keys: &[&'static str],
    ) -> Self {
        Self::create_on(&standalone(), what, descriptor, split_keys).await
    }

    pub async fn create_on(
        cluster: &Cluster,
        what: &str,
        descriptor: impl FnOnce(TableName) -> TableDescriptor,
        split_keys: &[&'static str],
    ) -> Self {
        // Constructed before the table is created, so that a half-created table is deleted too.
        let table = Self {
            name: unique_name(what),
            config: cluster.config(),
        };
        let split_keys: Vec<Bytes> = split_keys.iter().copied().map(Bytes::from).collect();
        Admin::new(&cluster.connect().await)
            .create_table(&descriptor(table.name.clone()), &split_keys)
            .await
            .unwrap();
        table
    }

    /// A table that the tested code creates.
    pub fn unmade(what: &str) -> Self {
        Self {
            name: unique_name(what),
            config: standalone().config(),
        }
    }

    pub fn of(&self, connection: &Connection) -> Table {
        connection.table(self.name.clone()).unwrap()
    }

    pub async fn open(&self, connection: &Connection) -> PartitionedTable {
        PartitionedTable::open(connection, self.name.clone())
            .await
            .unwrap()
    }

    pub async fn open_with(&self, connection: &Connection, options: OpenOptions) -> PartitionedTable {
        options.open(connection, self.name.clone()).await.unwrap()
    }

    pub async fn regions(&self, connection: &Connection) -> Vec<RegionInfo> {
        let regions = Admin::new(connection).regions(&self.name).await.unwrap();
        regions.into_iter().map(|found| found.region).collect()
    }

    /// Moves all written cells there.
    pub async fn store_in(&self, connection: &Connection, storage: Storage) {
        let admin = Admin::new(connection);
        if !matches!(storage, Storage::Memstore) {
            admin.flush_table(&self.name).await.unwrap();
        }
        if matches!(storage, Storage::MajorCompacted) {
            admin.major_compact_table(&self.name).await.unwrap();
        }
    }

    /// Splits the region of a row at that row, and waits until both halves are served. A half of an
    /// earlier split has references to the files of the whole for minutes, and can't be split again
    /// until then.
    pub async fn split_at(&self, connection: &Connection, row: &'static str) {
        let regions = self.regions(connection).await;
        let region = regions.iter().find(|region| region.contains(row.as_bytes()));
        Admin::new(connection)
            .split_region(region.unwrap(), Some(row.into()))
            .await
            .unwrap();
        eventually("the halves are served", async || {
            let regions = Admin::new(connection).regions(&self.name).await.ok()?;
            let split = regions.iter().any(|found| found.region.start_key == row);
            (split && regions.iter().all(|found| found.server.is_some())).then_some(())
        })
        .await;
    }

    /// Merges the table's two regions, and waits until that is done.
    pub async fn merge_both(&self, connection: &Connection) {
        let regions = self.regions(connection).await;
        Admin::new(connection).merge_regions(&regions).await.unwrap();
        eventually("the merged region is served", async || {
            let regions = Admin::new(connection).regions(&self.name).await.ok()?;
            (regions.len() == 1 && regions[0].server.is_some()).then_some(())
        })
        .await;
    }
}

impl Drop for TestTable {
    fn drop(&mut self) {
        // The test's runtime can't be blocked on here, and is about to stop.
        let (name, config) = (self.name.clone(), self.config.clone());
        let deletion = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let connection = Connection::builder(config).connect().await?;
                Admin::new(&connection).delete_table(&name).await
            })
        });
        if let Ok(Err(error)) = deletion.join() {
            eprintln!("table {} was not deleted: {error}", self.name);
        }
    }
}

/// A table that the tests of one file share, each with its own rows. It is created for the first of
/// them and deleted after the last. A runtime stops with its test, so connections are not shared.
pub struct SharedTable {
    what: &'static str,
    descriptor: fn(TableName) -> TableDescriptor,
    split_keys: &'static [&'static str],
    current: Mutex<Weak<TestTable>>,
}

impl SharedTable {
    pub const fn new(
        what: &'static str,
        descriptor: fn(TableName) -> TableDescriptor,
        split_keys: &'static [&'static str],
    ) -> Self {
        Self {
            what,
            descriptor,
            split_keys,
            current: Mutex::const_new(Weak::new()),
        }
    }

    pub async fn get(&self) -> Arc<TestTable> {
        let mut current = self.current.lock().await;
        if let Some(table) = current.upgrade() {
            return table;
        }
        let table = Arc::new(TestTable::create(self.what, self.descriptor, self.split_keys).await);
        *current = Arc::downgrade(&table);
        table
    }
}
