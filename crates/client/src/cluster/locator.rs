//! The region of a row, from the cache or from `hbase:meta`.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    look_ups::{Leader, LookUps, Turn},
    meta::{MetaReader, MetaRegion, WALK_BATCH},
    region_cache::{RegionCache, RegionLocation},
    registry::Registry,
};
use crate::{
    config::{Config, HostPort},
    error::{Error, ErrorKind, Result},
    model::{RegionInfo, ServerName, TableName, TableState},
    observe::client_metrics::{CACHE_HITS, CACHE_MISSES, RETRIES},
    rpc::{CallError, RpcClient},
};

/// Finds regions and caches them.
#[derive(Debug)]
pub(super) struct Locator {
    registry: Arc<Registry>,
    rpc: Arc<RpcClient>,
    cache: RegionCache,
    meta: Mutex<Option<ServerName>>,
    regions: Arc<LookUps<Result<Arc<RegionLocation>, NoLocation>>>,
    states: Arc<LookUps<Result<Option<TableState>, NoLocation>>>,
}

/// The minimum number of regions that a look-up reads: the requested one and its neighbours, which
/// often move with it.
const PREFETCH: u32 = 10;

/// The state of a row without a usable region in `hbase:meta`.
#[derive(Clone, Debug)]
pub(super) enum NoLocation {
    /// The table does not exist, according to this server of `hbase:meta`.
    NoTable(ServerName),
    /// The row's region is in transition: a split, a merge or a move, according to this server of
    /// `hbase:meta`. Includes the region if it is known.
    InTransition(&'static str, ServerName, Option<Box<RegionInfo>>),
    /// The call for `hbase:meta` failed.
    Call(CallError, ServerName),
    /// The registry failed, and has never answered before.
    Registry(Error),
    /// The registry failed, and answered before.
    RegistryLost(Error),
}

impl Locator {
    pub(super) fn new(registry: Arc<Registry>, rpc: Arc<RpcClient>) -> Self {
        Self {
            registry,
            rpc,
            cache: RegionCache::default(),
            meta: Mutex::default(),
            regions: LookUps::new(),
            states: LookUps::new(),
        }
    }

    /// Locates `hbase:meta`, unless its server is known.
    pub(super) async fn reach(&self, deadline: Instant) -> Result<()> {
        let meta = TableName::meta();
        self.meta_server(deadline)
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
        if *table == TableName::meta() {
            let server = self.meta_server(deadline).await?;
            return Ok(Arc::new(RegionLocation {
                region: RegionInfo::meta(),
                server,
                open_sequence: 0,
                replicas: Vec::new(),
            }));
        }
        if let Some(location) = self.cache.find(table, row) {
            CACHE_HITS.count(|| []);
            return Ok(location);
        }
        CACHE_MISSES.count(|| []);
        let mut leader = match self.regions.wait(table, row).await {
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
        let read = self.ask_meta(deadline, async |meta| {
            meta.regions_before(table, row, limit).await
        });
        let (regions, meta) = match read.await {
            Ok(answer) => answer,
            Err(failure) => return Err(share(leader, failure, deadline)),
        };
        let regions: Vec<_> = regions
            .iter()
            .map(|found| (&found.region, found.location()))
            .collect();
        for location in regions
            .iter()
            .skip(1)
            .filter_map(|(_, location)| location.as_ref())
        {
            self.cache.insert(Arc::clone(location));
        }
        let first = regions
            .last()
            .map_or_else(Bytes::new, |(region, _)| region.start_key.clone());
        let answer = |row: &Bytes| self.answer(row, &regions, &meta);
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
                self.cache.found(row, Arc::clone(location));
                Ok(Arc::clone(location))
            }
        }
    }

    /// Returns all regions of a table in order, with retries until the deadline.
    pub(super) async fn regions_of(
        &self,
        table: &TableName,
        deadline: Instant,
        config: &Config,
    ) -> Result<Vec<MetaRegion>> {
        let mut attempt = 1;
        loop {
            let attempt_deadline = deadline.min(Instant::now() + config.read_timeout());
            let read = async |meta: MetaReader<'_>| meta.regions_of(table).await;
            let answer = match *table == TableName::meta() {
                true => self.meta_region(attempt_deadline).await,
                false => self.ask_meta(attempt_deadline, read).await,
            };
            let failure = match answer {
                Ok((regions, meta)) if regions.is_empty() => NoLocation::NoTable(meta),
                Ok((regions, _)) => {
                    if *table != TableName::meta() {
                        for location in regions.iter().filter_map(MetaRegion::location) {
                            self.cache.insert(location);
                        }
                    }
                    return Ok(regions);
                }
                Err(failure) => failure,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let pause = super::pause::within(left, config.pause(), attempt);
            let Some(pause) = pause.filter(|_| !failure.is_final()) else {
                return Err(failure
                    .into_error(table)
                    .at_operation("reading the table's regions")
                    .at_table(table)
                    .at_attempt(attempt));
            };
            RETRIES.count(|| [failure.reason()]);
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
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
        let read = self.ask_meta(deadline, async |meta| meta.table_state(table).await);
        match read.await {
            Ok((state, _)) => {
                leader.answer(.., |_| Ok(state));
                Ok(state)
            }
            Err(failure) => Err(share(leader, failure, deadline)),
        }
    }

    pub(super) fn forget(&self, location: &RegionLocation) {
        if location.region.table == TableName::meta() {
            self.forget_meta(&location.server);
        } else {
            self.cache.forget(location);
        }
    }

    pub(super) fn forget_server(&self, server: &ServerName) {
        self.cache.forget_server(server);
        self.forget_meta(server);
    }

    fn forget_meta(&self, server: &ServerName) {
        let mut meta = self.meta.lock().unwrap_or_else(PoisonError::into_inner);
        if meta.as_ref() == Some(server) {
            *meta = None;
        }
    }

    async fn meta_server(&self, deadline: Instant) -> Result<ServerName, NoLocation> {
        let known = self.meta.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(server) = known {
            return Ok(server);
        }
        match self.registry.meta_server(deadline).await {
            Ok(server) => {
                *self.meta.lock().unwrap_or_else(PoisonError::into_inner) = Some(server.clone());
                Ok(server)
            }
            Err(error) if self.registry.was_reached() => Err(NoLocation::RegistryLost(error)),
            Err(error) => Err(NoLocation::Registry(error)),
        }
    }

    /// Returns the region of `hbase:meta`, and its server. No table has it.
    async fn meta_region(&self, deadline: Instant) -> Result<(Vec<MetaRegion>, ServerName), NoLocation> {
        // It may have moved since it was read.
        *self.meta.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let server = self.meta_server(deadline).await?;
        let region = MetaRegion {
            region: RegionInfo::meta(),
            server: Some(server.clone()),
            open_sequence: 0,
            replicas: Vec::new(),
        };
        Ok((vec![region], server))
    }

    /// Runs a read of `hbase:meta`, and returns the server that answered. After a failure the next
    /// read asks the registry again.
    async fn ask_meta<T>(
        &self,
        deadline: Instant,
        read: impl AsyncFnOnce(MetaReader<'_>) -> Result<T, CallError>,
    ) -> Result<(T, ServerName), NoLocation> {
        let server = self.meta_server(deadline).await?;
        let address = HostPort {
            host: server.host.clone(),
            port: server.port,
        };
        match read(MetaReader {
            rpc: &self.rpc,
            server: &address,
            deadline,
        })
        .await
        {
            Ok(found) => Ok((found, server)),
            Err(error) => {
                self.forget_meta(&server);
                Err(NoLocation::Call(error, server))
            }
        }
    }
}

/// Passes a failure on to all calls that wait, unless the time of this one was too short.
fn share<T>(mut leader: Leader<Result<T, NoLocation>>, failure: NoLocation, deadline: Instant) -> NoLocation {
    if Instant::now() < deadline {
        leader.answer(.., |_| Err(failure.clone()));
    }
    failure
}

impl NoLocation {
    /// Whether another attempt is useless.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::NoTable(_) | Self::Registry(_) => true,
            Self::InTransition(..) => false,
            Self::RegistryLost(error) => !error.is_retryable(),
            Self::Call(error, _) => error.classify().recovery == crate::rpc::Recovery::Fail,
        }
    }

    /// Returns the reason as a word for logs and metrics, one of a few.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoTable(_) => "no_table",
            Self::InTransition(..) => "region_in_transition",
            Self::Call(error, _) => error.reason(),
            Self::Registry(_) | Self::RegistryLost(_) => "registry",
        }
    }

    pub(super) fn into_error(self, table: &TableName) -> Error {
        match self {
            Self::NoTable(meta) => Error::new(ErrorKind::TableNotFound, "no such table")
                .at_table(table)
                .at_stage("finding the region")
                .at_server(&meta.address()),
            Self::InTransition(what, meta, _) => Error::new(ErrorKind::Server, what)
                .with_retryable(true)
                .at_stage("finding the region")
                .at_server(&meta.address()),
            Self::Call(error, server) => {
                let cause = error.into_error();
                Error::new(cause.kind(), "hbase:meta can't be read")
                    .with_retryable(cause.is_retryable())
                    .at_stage("finding the region")
                    .at_server(&server.address())
                    .with_source(cause)
            }
            Self::Registry(error) | Self::RegistryLost(error) => error,
        }
    }
}

/// The time limit for reading a table's state, which only improves an error message.
pub(super) const STATE_LOOK_UP: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_registry_is_retried_unless_it_reports_a_cause() {
        let silent = Error::new(ErrorKind::Unreachable, "no answer in time").with_retryable(true);
        assert!(!NoLocation::RegistryLost(silent).is_final());
        let closed = Error::new(ErrorKind::Closed, "the client is closed");
        assert!(NoLocation::RegistryLost(closed).is_final());
    }
}
