//! The region of a row, from the cache or from `hbase:meta`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    catalog::{Catalog, RegionsBefore, Source},
    look_ups::{LookUps, Turn},
    meta::{MetaReader, MetaRegion, WALK_BATCH},
    no_location::NoLocation,
    pause,
    region_cache::{RegionCache, RegionLocation},
    stale_regions::StaleRegions,
};
use crate::{
    config::Config,
    error::Result,
    model::{RegionInfo, ServerName, TableName, TableState},
    observe::client_metrics::{CACHE_HITS, CACHE_MISSES, RETRIES},
};

/// Finds regions and caches them.
#[derive(Debug)]
pub(super) struct Locator {
    catalog: Catalog,
    cache: RegionCache,
    stale: StaleRegions,
    /// Look-ups in the primary of `hbase:meta`.
    regions: Arc<LookUps<Result<Arc<RegionLocation>, NoLocation>>>,
    /// Look-ups that a replica may answer.
    replicated_regions: Arc<LookUps<Result<Arc<RegionLocation>, NoLocation>>>,
    states: Arc<LookUps<Result<Option<TableState>, NoLocation>>>,
}

/// The minimum number of regions that a look-up reads: the requested one and its neighbours, which
/// often move with it.
const PREFETCH: u32 = 10;

impl Locator {
    pub(super) fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            cache: RegionCache::default(),
            stale: StaleRegions::default(),
            regions: LookUps::new(),
            replicated_regions: LookUps::new(),
            states: LookUps::new(),
        }
    }

    /// Locates `hbase:meta`, unless its server is known.
    pub(super) async fn reach(&self, deadline: Instant) -> Result<()> {
        let meta = TableName::meta();
        self.catalog
            .location(deadline)
            .await
            .map(drop)
            .map_err(|failure| failure.into_error(&meta))
    }

    /// Returns the location of a row if it is cached.
    pub(super) fn known(&self, table: &TableName, row: &[u8]) -> Option<Arc<RegionLocation>> {
        self.cache.find(table, row)
    }

    /// Returns the region of the row, from the cache if it is known. Makes one attempt.
    pub(super) async fn locate(
        &self,
        table: &TableName,
        row: &Bytes,
        deadline: Instant,
    ) -> Result<Arc<RegionLocation>, NoLocation> {
        if table.is_meta() {
            return Box::pin(self.catalog.location(deadline)).await;
        }
        if let Some(location) = self.cache.find(table, row) {
            CACHE_HITS.count(|| []);
            return Ok(location);
        }
        CACHE_MISSES.count(|| []);
        // Boxed, as all that an operation seldom awaits: its future has room for the largest part, and
        // is moved.
        Box::pin(self.look_up(table, row, deadline)).await
    }

    /// Reads the region of the row in `hbase:meta`, and those before it that others wait for.
    async fn look_up(
        &self,
        table: &TableName,
        row: &Bytes,
        deadline: Instant,
    ) -> Result<Arc<RegionLocation>, NoLocation> {
        let source = if self.catalog.reads_replicas() && !self.stale.contains(table, row) {
            Source::Any
        } else {
            Source::Primary
        };
        let look_ups = match source {
            Source::Primary => &self.regions,
            Source::Any => &self.replicated_regions,
        };
        let mut leader = match look_ups.wait(table, row).await {
            Turn::Answered(answer) => return answer,
            Turn::Lead(leader) => leader,
        };
        // The look-up before may have read it for a call that arrived too late for the answer.
        if let Some(location) = self.cache.find(table, row) {
            return Ok(location);
        }
        // The calls that wait probably miss regions of their own, so one call reads as many.
        let limit = u32::try_from(leader.calls()).unwrap_or(WALK_BATCH);
        let limit = limit.clamp(PREFETCH, WALK_BATCH);
        let asked_at = Instant::now();
        let read = self.catalog.regions_before(table, row, limit, source, deadline);
        let RegionsBefore {
            regions,
            server: meta,
            from,
        } = match read.await {
            Ok(answer) => answer,
            Err(failure) => {
                leader.share(&Err(failure.clone()), deadline);
                return Err(failure);
            }
        };
        let regions: Vec<_> = regions
            .iter()
            .map(|found| (&found.region, found.location(asked_at)))
            .collect();
        for location in regions
            .iter()
            .skip(1)
            .filter_map(|(_, location)| location.as_ref())
            .filter(|location| self.is_credible(location, from))
        {
            self.cache.insert(Arc::clone(location));
        }
        let first = regions
            .last()
            .map_or_else(Bytes::new, |(region, _)| region.start_key.clone());
        if regions.is_empty() {
            // It was dropped.
            self.forget_table(table);
        }
        let answer = |row: &Bytes| self.answer(row, &regions, &meta, from);
        // A range that is inverted, by a wrong answer, would panic.
        leader.answer(first.min(row.clone())..=row.clone(), answer);
        answer(row)
    }

    /// Returns the location of a row from an answer of `hbase:meta`: regions in descending order, at
    /// least down to the row's.
    fn answer(
        &self,
        row: &Bytes,
        regions: &[(&RegionInfo, Option<Arc<RegionLocation>>)],
        meta: &ServerName,
        from: Source,
    ) -> Result<Arc<RegionLocation>, NoLocation> {
        let behind = regions.partition_point(|(region, _)| region.start_key > row);
        let in_transition = |what, region| Err(NoLocation::InTransition(what, meta.clone(), region));
        match regions.get(behind) {
            None => Err(NoLocation::NoTable(meta.clone())),
            Some((nearest, _)) if !nearest.contains(row) => {
                in_transition("hbase:meta has a hole where the row's region should be", None)
            }
            Some((nearest, None)) => in_transition(
                "the row's region is not assigned to a server",
                Some(Box::new((*nearest).clone())),
            ),
            Some((_, Some(location))) => {
                if self.is_credible(location, from) {
                    self.cache.found(row, Arc::clone(location));
                }
                Ok(Arc::clone(location))
            }
        }
    }

    /// Returns whether a location may be cached. A replica may still have one that was found to be
    /// stale since it was asked.
    fn is_credible(&self, location: &RegionLocation, from: Source) -> bool {
        from == Source::Primary || !self.stale.overlap(&location.region)
    }

    /// Returns the regions of a table that have rows from `start` to before `stop`, in order, with
    /// retries until the deadline. An empty row stands for the beginning or the end of the table.
    pub(super) async fn regions_of(
        &self,
        table: &TableName,
        start: &Bytes,
        stop: &Bytes,
        deadline: Instant,
        config: &Config,
    ) -> Result<Vec<MetaRegion>> {
        let (mut attempt, mut last_error) = (1, None);
        loop {
            let asked_at = Instant::now();
            let answer = if table.is_meta() {
                let attempt_deadline = deadline.min(asked_at + config.read_timeout());
                self.meta_region(attempt_deadline).await
            } else {
                self.read_regions(table, start, stop, deadline).await
            };
            let failure = match answer {
                Ok((regions, meta)) if regions.is_empty() => {
                    self.forget_table(table);
                    NoLocation::NoTable(meta)
                }
                Ok((mut regions, _)) => {
                    if !table.is_meta() {
                        for location in regions.iter().filter_map(|found| found.location(asked_at)) {
                            self.cache.insert(location);
                        }
                    }
                    regions.retain(|found| {
                        let end = &found.region.end_key;
                        end.is_empty() || end > start
                    });
                    return Ok(regions);
                }
                Err(failure) => failure,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let pause = pause::within(left, config.pause(), attempt);
            let may_pass = !failure.is_final();
            let Some(pause) = pause.filter(|_| may_pass) else {
                let before = last_error.filter(|_| may_pass);
                let error = pause::more_telling(failure.into_error(table), before, deadline);
                return Err(error
                    .with_retryable(may_pass)
                    .at_operation("reading the table's regions")
                    .at_table(table)
                    .at_attempt(attempt));
            };
            RETRIES.count(|| [failure.reason()]);
            last_error = Some(failure.into_error(table));
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// Reads at least the regions of these rows; none only if the table has none before `stop`. Makes
    /// one attempt.
    async fn read_regions(
        &self,
        table: &TableName,
        start: &Bytes,
        stop: &Bytes,
        deadline: Instant,
    ) -> Result<(Vec<MetaRegion>, ServerName), NoLocation> {
        // The first region begins before `start`, at a row that the cache has or another read finds.
        let known = self
            .cache
            .find(table, start)
            .map(|known| known.region.start_key.clone());
        let first = match known {
            _ if start.is_empty() => Bytes::new(),
            Some(first) => first,
            None => {
                let nearest = async |meta: MetaReader<'_>| meta.regions_before(table, start, 1).await;
                let (nearest, _) = self.catalog.read_primary(deadline, nearest).await?;
                let nearest = nearest.into_iter().next();
                nearest.map_or_else(Bytes::new, |found| found.region.start_key)
            }
        };
        let from = async |first: &Bytes| {
            let read = async |meta: MetaReader<'_>| meta.regions_from(table, first, stop).await;
            self.catalog.read_primary(deadline, read).await
        };
        let found = from(&first).await?;
        let is_covered = found.0.iter().any(|found| found.region.contains(start));
        if is_covered || first.is_empty() {
            return Ok(found);
        }
        // It was merged with the region before it, or there is a hole.
        from(&Bytes::new()).await
    }

    /// Returns the state of a table in `hbase:meta`. Makes one attempt.
    pub(super) async fn table_state(
        &self,
        table: &TableName,
        deadline: Instant,
    ) -> Result<Option<TableState>, NoLocation> {
        let mut leader = match self.states.wait(table, &Bytes::new()).await {
            Turn::Answered(answer) => return answer,
            Turn::Lead(leader) => leader,
        };
        let read = self
            .catalog
            .read_primary(deadline, async |meta| meta.table_state(table).await);
        let state = read.await.map(|(state, _)| state);
        if matches!(state, Ok(None)) {
            self.forget_table(table);
        }
        leader.share(&state, deadline);
        state
    }

    /// Forgets a location that turned out to be stale.
    pub(super) fn forget(&self, location: &RegionLocation) {
        if location.region.table.is_meta() {
            self.catalog.forget(&location.server);
        } else {
            self.cache.forget(location);
            self.read_primary_next([&location.region]);
        }
    }

    /// Forgets all regions of a table.
    pub(super) fn forget_table(&self, table: &TableName) {
        self.cache.forget_table(table);
        self.stale.forget_table(table);
    }

    /// Forgets all locations on the server of this one.
    pub(super) fn forget_server(&self, location: &RegionLocation) {
        let forgotten = self.cache.forget_server(&location.server);
        self.read_primary_next(forgotten.iter().map(|forgotten| &forgotten.region));
        self.forget(location);
        self.catalog.forget(&location.server);
    }

    /// Reads the next locations of these regions from the primary.
    fn read_primary_next<'a>(&self, regions: impl IntoIterator<Item = &'a RegionInfo>) {
        if self.catalog.reads_replicas() {
            for region in regions {
                self.stale.add(region);
            }
        }
    }

    /// Returns the region of `hbase:meta`, and its server. No table has it.
    async fn meta_region(&self, deadline: Instant) -> Result<(Vec<MetaRegion>, ServerName), NoLocation> {
        // It may have moved since it was read.
        let location = self.catalog.locate(deadline).await?;
        let region = MetaRegion {
            region: RegionInfo::meta(),
            server: Some(location.server.clone()),
            open_sequence: 0,
            opened_at: None,
            replicas: Vec::new(),
        };
        Ok((vec![region], location.server.clone()))
    }
}

/// The time limit for reading a table's state, which only improves an error message.
pub(super) const STATE_LOOK_UP: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
