//! The known regions and their servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    config::HostPort,
    model::{RegionInfo, ServerName, TableName},
    observe::client_metrics::CACHE_EVICTIONS,
};

/// A region, the server that serves it, and the sequence number of its opening, as far as the client
/// knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionLocation {
    pub(crate) region: RegionInfo,
    pub(crate) server: ServerName,
    /// The order of two locations of one region: the later opening has the larger number.
    pub(crate) open_sequence: i64,
    /// When it was opened, in milliseconds since 1970 by the clock of the cluster, if it is known.
    pub(crate) opened_at: Option<u64>,
    /// The servers of the replicas that are served, by the number of the replica.
    pub(crate) replicas: Vec<(u16, ServerName)>,
    /// When it was asked for: it held then, or later.
    pub(crate) asked_at: Instant,
}

impl RegionLocation {
    /// Creates a location that is known now, of a region without replicas, of whose opening nothing is known.
    pub(crate) fn new(region: RegionInfo, server: ServerName) -> Self {
        Self {
            region,
            server,
            open_sequence: 0,
            opened_at: None,
            replicas: Vec::new(),
            asked_at: Instant::now(),
        }
    }

    /// Returns the region.
    #[must_use]
    pub fn region(&self) -> &RegionInfo {
        &self.region
    }

    /// Returns the server. Its start code distinguishes it from the same server before a restart.
    #[must_use]
    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// Returns the sequence number of the opening (`openSeqNum` in `hbase:meta`). Grows each time the
    /// region is opened: after a move, a change of the table, or a crash.
    #[must_use]
    pub fn opening(&self) -> i64 {
        self.open_sequence
    }

    /// Returns when the region was opened, in milliseconds since 1970 by the clock of the master (2.4 and
    /// later write it as the timestamp of `info:seqnumDuringOpen`), or `None` if it is not known.
    #[must_use]
    pub fn opened_at(&self) -> Option<u64> {
        self.opened_at
    }

    /// Returns the locations of the replicas that are served.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = Arc<Self>> {
        self.replicas.iter().map(|(id, server)| {
            Arc::new(Self {
                region: self.region.replica(*id),
                server: server.clone(),
                open_sequence: self.open_sequence,
                opened_at: self.opened_at,
                replicas: Vec::new(),
                asked_at: self.asked_at,
            })
        })
    }

    /// Returns the location of a replica if it is served; replica 0 is the primary.
    pub(crate) fn replica(self: &Arc<Self>, id: u16) -> Option<Arc<Self>> {
        match id {
            0 => Some(Arc::clone(self)),
            _ => {
                let position = self.replicas.iter().position(|(other, _)| *other == id)?;
                self.replicas().nth(position)
            }
        }
    }

    /// Returns whether the server has the region or one of its replicas.
    pub(super) fn is_on(&self, server: &ServerName) -> bool {
        self.server == *server || self.replicas.iter().any(|(_, other)| other == server)
    }

    pub(crate) fn address(&self) -> HostPort {
        HostPort::of(&self.server)
    }
}

/// The locations of each table.
#[derive(Debug, Default)]
pub(super) struct RegionCache {
    tables: RwLock<BTreeMap<TableName, TableRegions>>,
}

/// The locations of a table.
#[derive(Debug, Default)]
struct TableRegions {
    by_start_key: BTreeMap<Bytes, Arc<RegionLocation>>,
    /// The start keys of each server's regions, so that a lost server costs only these.
    by_server: BTreeMap<ServerName, BTreeSet<Bytes>>,
}

impl TableRegions {
    fn insert(&mut self, location: Arc<RegionLocation>) {
        let start = location.region.start_key.clone();
        let regions = self.by_server.entry(location.server.clone()).or_default();
        regions.insert(start.clone());
        self.by_start_key.insert(start, location);
    }

    fn remove(&mut self, start: &[u8]) {
        if let Some(location) = self.by_start_key.remove(start)
            && let Some(regions) = self.by_server.get_mut(&location.server)
        {
            regions.remove(start);
            if regions.is_empty() {
                self.by_server.remove(&location.server);
            }
        }
    }

    fn remove_server(&mut self, server: &ServerName) -> Vec<Arc<RegionLocation>> {
        let starts = self.by_server.remove(server).unwrap_or_default();
        let removed = starts.iter().filter_map(|start| self.by_start_key.remove(start));
        removed.collect()
    }
}

impl RegionCache {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<TableName, TableRegions>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<TableName, TableRegions>> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the location of the region that contains the row.
    pub(super) fn find(&self, table: &TableName, row: &[u8]) -> Option<Arc<RegionLocation>> {
        let tables = self.read();
        let (_, location) = tables
            .get(table)?
            .by_start_key
            .range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(row)))
            .next_back()?;
        location.region.contains(row).then(|| Arc::clone(location))
    }

    /// Caches a location, unless a newer one of these rows is known. Removes older regions that
    /// overlap it, which have been split or merged.
    pub(super) fn insert(&self, location: Arc<RegionLocation>) {
        self.insert_unless(location, |_| true);
    }

    /// Caches the location that was just found for a row. Removes newer regions that overlap it
    /// too, unless one contains the row and so was found since: restoring a snapshot brings back
    /// the parent of a split.
    pub(super) fn found(&self, row: &[u8], location: Arc<RegionLocation>) {
        self.insert_unless(location, |newer| newer.contains(row));
    }

    /// Caches a location, and removes what overlaps it. Does nothing if a newer region overlaps it that
    /// stays.
    fn insert_unless(&self, location: Arc<RegionLocation>, stays: impl Fn(&RegionInfo) -> bool) {
        let mut tables = self.write();
        let regions = tables.entry(location.region.table.clone()).or_default();
        let known = &regions.by_start_key;
        let age = |location: &RegionLocation| (location.region.region_id, location.open_sequence);
        let overlapping: Vec<Bytes> = known
            .range(..location.region.start_key.clone())
            .next_back()
            .into_iter()
            .chain(
                known
                    .range(location.region.start_key.clone()..)
                    .take_while(|(start, _)| {
                        location.region.end_key.is_empty() || **start < location.region.end_key
                    }),
            )
            .filter(|(_, other)| other.region.overlaps(&location.region))
            .map(|(start, _)| start.clone())
            .collect();
        if overlapping
            .iter()
            .map(|start| &known[start])
            .any(|other| age(other) > age(&location) && stays(&other.region))
        {
            return;
        }
        for start in overlapping {
            regions.remove(&start);
        }
        regions.insert(location);
    }

    /// Forgets the location of this region, or of the primary of this replica, unless a newer one is known.
    pub(super) fn forget(&self, location: &RegionLocation) {
        let mut tables = self.write();
        if let Some(known) = tables.get_mut(&location.region.table) {
            let same = known
                .by_start_key
                .get(&location.region.start_key)
                .is_some_and(|current| {
                    current.is_on(&location.server) && current.open_sequence <= location.open_sequence
                });
            if same {
                CACHE_EVICTIONS.count(|| ["region"]);
                known.remove(&location.region.start_key);
            }
            if known.by_start_key.is_empty() {
                tables.remove(&location.region.table);
            }
        }
    }

    /// Forgets all regions of a table.
    pub(super) fn forget_table(&self, table: &TableName) {
        self.write().remove(table);
    }

    /// Forgets all regions of this start of a server, and returns their locations.
    pub(super) fn forget_server(&self, server: &ServerName) -> Vec<Arc<RegionLocation>> {
        let mut tables = self.write();
        let removed: Vec<_> = tables
            .values_mut()
            .flat_map(|known| known.remove_server(server))
            .collect();
        tables.retain(|_, known| !known.by_start_key.is_empty());
        CACHE_EVICTIONS.count_many(removed.len(), || ["server"]);
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(start: &str, end: &str, id: u64, sequence: i64, port: u16) -> RegionLocation {
        let region = RegionInfo {
            table: "t".parse().unwrap(),
            start_key: Bytes::copy_from_slice(start.as_bytes()),
            end_key: Bytes::copy_from_slice(end.as_bytes()),
            region_id: id,
            ..RegionInfo::meta()
        };
        let server = ServerName {
            host: "h".into(),
            port,
            start_code: 1,
        };
        RegionLocation {
            region,
            server,
            open_sequence: sequence,
            opened_at: None,
            replicas: Vec::new(),
            asked_at: Instant::now(),
        }
    }

    fn find(cache: &RegionCache, row: &str) -> Option<(u64, u16)> {
        cache
            .find(&"t".parse().unwrap(), row.as_bytes())
            .map(|location| (location.region.region_id, location.server.port))
    }

    #[test]
    fn a_row_is_found_only_in_a_region_that_has_it() {
        let cache = RegionCache::default();
        cache.insert(location("b", "d", 1, 1, 1).into());
        assert_eq!(find(&cache, "b"), Some((1, 1)));
        assert_eq!(
            (find(&cache, "a"), find(&cache, "d"), find(&cache, "")),
            (None, None, None)
        );
    }

    #[test]
    fn late_parent_does_not_replace_its_daughters() {
        let cache = RegionCache::default();
        let parent: Arc<_> = location("", "", 1, 9, 1).into();
        cache.insert(Arc::clone(&parent));
        cache.insert(location("m", "", 2, 1, 2).into());
        assert_eq!((find(&cache, "a"), find(&cache, "z")), (None, Some((2, 2))));
        cache.insert(parent);
        assert_eq!((find(&cache, "a"), find(&cache, "z")), (None, Some((2, 2))));
    }

    #[test]
    fn parent_of_an_undone_split_replaces_its_daughters() {
        let cache = RegionCache::default();
        cache.insert(location("m", "", 2, 1, 2).into());
        let parent: Arc<_> = location("", "", 1, 9, 1).into();
        // A snapshot was restored, and the daughter that contained the row is no longer known.
        cache.found(b"a", Arc::clone(&parent));
        assert_eq!(
            (find(&cache, "a"), find(&cache, "z")),
            (Some((1, 1)), Some((1, 1)))
        );
        // The region is split again meanwhile; the later location stays.
        cache.insert(location("", "m", 3, 1, 3).into());
        cache.found(b"a", parent);
        assert_eq!((find(&cache, "a"), find(&cache, "z")), (Some((3, 3)), None));
    }

    #[test]
    fn a_merged_region_pushes_out_all_that_it_covers() {
        let cache = RegionCache::default();
        for (start, end) in [("", "c"), ("c", "f"), ("f", "")] {
            cache.insert(location(start, end, 1, 1, 1).into());
        }
        cache.insert(location("", "f", 2, 1, 2).into());
        assert_eq!(find(&cache, "d"), Some((2, 2)));
        assert_eq!(find(&cache, "f"), Some((1, 1)));
    }

    #[test]
    fn a_late_failure_does_not_forget_a_fresher_location() {
        let cache = RegionCache::default();
        let (old, new) = (location("", "", 1, 1, 1), location("", "", 1, 2, 2));
        cache.insert(old.clone().into());
        cache.insert(new.clone().into());
        cache.forget(&old);
        assert_eq!(find(&cache, "x"), Some((1, 2)));
        cache.forget(&new);
        assert_eq!(find(&cache, "x"), None);
    }

    #[test]
    fn dead_server_loses_its_regions_but_not_its_successors() {
        let cache = RegionCache::default();
        let (mut before, after) = (location("", "m", 1, 1, 1), location("m", "", 1, 1, 1));
        before.server.start_code = 0;
        cache.insert(before.clone().into());
        cache.insert(after.into());
        cache.forget_server(&before.server);
        assert_eq!((find(&cache, "a"), find(&cache, "z")), (None, Some((1, 1))));
    }

    #[test]
    fn moved_region_survives_the_loss_of_its_old_server() {
        let cache = RegionCache::default();
        let (old, new) = (location("", "", 1, 1, 1), location("", "", 1, 2, 2));
        cache.insert(old.clone().into());
        cache.insert(new.clone().into());
        cache.forget_server(&old.server);
        assert_eq!(find(&cache, "x"), Some((1, 2)));
        cache.forget_server(&new.server);
        assert!(cache.read().is_empty());
    }

    #[test]
    fn table_without_known_regions_takes_no_memory() {
        let cache = RegionCache::default();
        let known: Arc<_> = location("", "", 1, 1, 1).into();
        let forget: [&dyn Fn(); 3] = [
            &|| cache.forget(&known),
            &|| drop(cache.forget_server(&known.server)),
            &|| cache.forget_table(&known.region.table),
        ];
        for forget in forget {
            cache.insert(Arc::clone(&known));
            assert_eq!(cache.read().len(), 1);
            forget();
            assert!(cache.read().is_empty());
        }
    }
}
