//! Moves, splits and merges the regions of a table.

use std::{slice::from_ref, time::Duration};

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::{
    admin::Admin,
    client::{Connection, RegionInfo, ServerName, TableName, TableRegion},
};
use tokio::time::Instant;

use crate::cluster::{PATIENCE, until};

/// Moves, splits and merges the regions of a table.
pub(crate) struct Shuffler {
    admin: Admin,
    table: TableName,
    pub(crate) rng: Rng,
    pub(crate) done: Changes,
}

/// The numbers of changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) moved: usize,
    pub(crate) split: usize,
    pub(crate) merged: usize,
    /// Splits and merges that the master has put off, mostly because files of an earlier split are
    /// still shared.
    pub(crate) put_off: usize,
}

impl Shuffler {
    pub(crate) fn new(connection: &Connection, table: &TableName, rng: Rng) -> Self {
        Self {
            admin: Admin::new(connection).with_operation_timeout(PATIENCE),
            table: table.clone(),
            rng,
            done: Changes::default(),
        }
    }

    /// Returns the regions, in order and without a gap. Waits for the end of a change.
    pub(crate) async fn regions(&self) -> Vec<TableRegion> {
        until("region map without holes", PATIENCE, async || {
            let regions = self.admin.regions(&self.table).await.ok()?;
            let ends = regions.iter().map(|region| &region.region.end_key);
            let starts = regions.iter().skip(1).map(|region| &region.region.start_key);
            let covers = ends.zip(starts).all(|(end, start)| end == start)
                && regions.first()?.region.start_key.is_empty()
                && regions.last()?.region.end_key.is_empty();
            (covers && regions.iter().all(|region| region.server.is_some())).then_some(regions)
        })
        .await
    }

    /// Returns a random region.
    pub(crate) async fn choose_region(&mut self) -> TableRegion {
        let regions = self.regions().await;
        self.rng.choice(&regions).unwrap().clone()
    }

    /// Moves a random region to another server.
    pub(crate) async fn move_one(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.choose_region().await;
            if self.move_away(&found).await {
                return;
            }
            assert!(Instant::now() < deadline, "no region could be moved");
        }
    }

    /// Moves the region that has the row to another server.
    pub(crate) async fn move_region_of(&mut self, row: &[u8]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let regions = self.regions().await;
            let found = regions.iter().find(|found| found.region.contains(row));
            if self.move_away(found.unwrap()).await {
                return;
            }
            assert!(Instant::now() < deadline, "the region could not be moved");
        }
    }

    /// Moves a region to another server. Returns `false` if it can't be moved, as in transition.
    pub(crate) async fn move_away(&mut self, found: &TableRegion) -> bool {
        let servers = self.admin.cluster_info().await.unwrap().live_servers;
        let others: Vec<ServerName> = servers
            .into_iter()
            .filter(|server| Some(server) != found.server.as_ref())
            .collect();
        let to = self.rng.choice(&others).unwrap();
        let moved = self.admin.move_region(&found.region, to).await.is_ok();
        self.done.moved += usize::from(moved);
        moved
    }

    /// Splits the region that has the row, at the row. Returns `false` if there is a boundary
    /// already.
    pub(crate) async fn split_at(&mut self, row: &str, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let regions = self.regions().await;
            let found = regions
                .iter()
                .find(|found| found.region.contains(row.as_bytes()))
                .unwrap();
            if found.region.start_key == row {
                return false;
            }
            let row = bytes::Bytes::copy_from_slice(row.as_bytes());
            match self.admin.split_region(&found.region, Some(row)).await {
                Ok(()) => {
                    self.done.split += 1;
                    return true;
                }
                Err(error) => self.clean(from_ref(found), &error, deadline).await,
            }
        }
    }

    /// Merges this many random neighbours. Returns `false` if there are fewer regions.
    pub(crate) async fn merge_some(&mut self, count: usize, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let regions = self.regions().await;
            if regions.len() < count {
                return false;
            }
            let first = self.rng.usize(..=regions.len() - count);
            let chosen = &regions[first..first + count];
            let neighbours: Vec<RegionInfo> = chosen.iter().map(|found| found.region.clone()).collect();
            match self.admin.merge_regions(&neighbours).await {
                Ok(()) => {
                    self.done.merged += 1;
                    return true;
                }
                Err(error) => self.clean(chosen, &error, deadline).await,
            }
        }
    }

    /// Merges all regions of a table that was never split, this many into one, concurrently.
    pub(crate) async fn merge_all(&mut self, count: usize) {
        let neighbours: Vec<Vec<RegionInfo>> = self
            .regions()
            .await
            .chunks(count)
            .map(|chunk| chunk.iter().map(|found| found.region.clone()).collect())
            .collect();
        let merges = neighbours
            .iter()
            .map(|neighbours| self.admin.merge_regions(neighbours));
        for merged in join_all(merges).await {
            merged.unwrap();
            self.done.merged += 1;
        }
    }

    /// Daughters share files with their parent until they are compacted, and the old files are
    /// released when a region closes, or minutes later. So regions whose change was put off are
    /// moved, which releases them sooner.
    async fn clean(
        &mut self,
        regions: &[TableRegion],
        error: &(dyn std::error::Error + Sync),
        deadline: Instant,
    ) {
        self.done.put_off += 1;
        assert!(Instant::now() < deadline, "still put off: {error}");
        for found in regions {
            self.move_away(found).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
