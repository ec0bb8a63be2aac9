//! Tables and regions, as a test changes them.

use std::{fmt::Write, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::{FakeHBase, Partitions};
use crate::{cluster::World, exception::Result};

/// How long the cluster may take to settle.
const SETTLING: Duration = Duration::from_secs(600);

/// The methods that name a table panic if it does not exist, and those that name a row panic if its
/// region is not open.
impl FakeHBase {
    /// Creates a table with these families, and regions that begin at the split keys. It has the
    /// endpoint for mutations of several rows. A client's `create_table` creates any other table.
    ///
    /// # Panics
    ///
    /// Panics if the table exists.
    #[track_caller]
    pub fn create_table(&self, table: &str, families: &[&str], split_keys: &[&str]) {
        self.create_table_with(table, families, &[], split_keys);
    }

    /// Creates a table for transactions, with partitions by the length of a prefix or by a delimiter.
    /// Add the family `_txn` for transactions with an id, and `_lock` for locks in partitions.
    ///
    /// It is a table of [`create_table`](Self::create_table) with HBase's split restriction
    /// `KeyPrefix` or `DelimitedKeyPrefix`, and the split policy for servers without it.
    ///
    /// # Panics
    ///
    /// Panics if the table exists.
    ///
    /// # Example
    ///
    /// ```
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
    /// hbase.create_partitioned_table("accounts", &["f", "_txn"], "/");
    /// # Ok(()) });
    /// ```
    #[track_caller]
    pub fn create_partitioned_table(
        &self,
        table: &str,
        families: &[&str],
        partitions: impl Into<Partitions>,
    ) {
        let attributes = partitions.into().attributes();
        let attributes = attributes.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.create_table_with(table, families, &attributes, &[]);
    }

    #[track_caller]
    fn create_table_with(
        &self,
        table: &str,
        families: &[&str],
        attributes: &[(&str, &str)],
        split_keys: &[&str],
    ) {
        let split_keys: Vec<_> = split_keys
            .iter()
            .map(|key| Bytes::copy_from_slice(key.as_bytes()))
            .collect();
        let created = self
            .network
            .with_world(|world, _| world.create_table(table, families, attributes, &split_keys));
        created.unwrap_or_else(|error| panic!("can't create table {table}: {error}"));
    }

    /// Moves the region of a row to a region server. It is closed at once, and opens later.
    #[track_caller]
    pub fn move_region(&self, table: &str, row: impl AsRef<[u8]>, server: usize) {
        let to = self.server(server).index();
        self.change_region(table, row.as_ref(), |world, region, wall| {
            world.move_region(region, to, wall)
        });
    }

    /// Splits the region of a row, which begins the second half.
    #[track_caller]
    pub fn split(&self, table: &str, row: impl AsRef<[u8]>) {
        let row = Bytes::copy_from_slice(row.as_ref());
        self.change_region(table, &row, |world, region, wall| {
            world.split(region, &row, wall).map(drop)
        });
    }

    /// Merges the region of a row with the one before it.
    #[track_caller]
    pub fn merge(&self, table: &str, row: impl AsRef<[u8]>) {
        self.change_region(table, row.as_ref(), |world, region, wall| {
            let before = world.region_before(region)?;
            world.merge(&[before, region.clone()], wall).map(drop)
        });
    }

    /// Writes the memory of a row's region to its files. Expired and deleted cells go.
    #[track_caller]
    pub fn flush(&self, table: &str, row: impl AsRef<[u8]>) {
        self.change_region(table, row.as_ref(), World::flush);
    }

    /// Compacts the files of a row's region into one. Delete markers go.
    #[track_caller]
    pub fn compact(&self, table: &str, row: impl AsRef<[u8]>) {
        self.change_region(table, row.as_ref(), |world, region, wall| {
            world.compact(region, true, wall)
        });
    }

    /// Returns the stored cells of a table, a line for each, in order. Delete markers, older versions
    /// and expired cells are among them.
    #[must_use]
    pub fn dump(&self, table: &str) -> String {
        let cells = self.network.with_world(|world, _| world.dump(table));
        cells.iter().fold(String::new(), |mut lines, cell| {
            let _ = writeln!(lines, "{cell}");
            lines
        })
    }

    /// Waits until all regions of enabled tables are open, and servers that were started serve.
    ///
    /// # Panics
    ///
    /// Panics after ten minutes of tokio's clock.
    pub async fn settled(&self) {
        let deadline = Instant::now() + SETTLING;
        while !self.network.with_world(World::is_settled) {
            assert!(Instant::now() < deadline, "the cluster does not settle");
            sleep(Duration::from_millis(10)).await;
        }
    }

    #[track_caller]
    fn change_region(
        &self,
        table: &str,
        row: &[u8],
        change: impl FnOnce(&mut World, &Bytes, u64) -> Result<()>,
    ) {
        let changed = self.network.with_world(|world, wall| {
            let region = world.region_of(table, row)?;
            change(world, &region, wall)
        });
        changed.unwrap_or_else(|error| panic!("table {table}, row {}: {error}", row.escape_ascii()));
    }
}
