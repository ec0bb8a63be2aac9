//! The location of `hbase:meta`, and reads of the table from its primary or its replicas.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::{
    look_ups::{LookUps, Turn},
    meta::{MetaReader, MetaRegion},
    no_location::NoLocation,
    region_cache::RegionLocation,
    registry::Registry,
    staggered,
};
use crate::{
    config::{Config, MetaReplicaMode},
    error::Error,
    model::{ServerName, TableName},
    rpc::{CallError, RpcClient},
};

/// Reads `hbase:meta`. After a failure of its server the next read asks the registry again.
#[derive(Debug)]
pub(super) struct Catalog {
    registry: Arc<Registry>,
    rpc: Arc<RpcClient>,
    mode: MetaReplicaMode,
    /// How long a replica may be silent before another one is queried as well.
    patience: Duration,
    /// The time limit of each call.
    timeout: Duration,
    location: Mutex<Option<Arc<RegionLocation>>>,
    /// The queries of the registry.
    queries: Arc<LookUps<Result<Arc<RegionLocation>, NoLocation>>>,
}

/// The regions at and before a row, and the replica that named them.
#[derive(Debug)]
pub(super) struct RegionsBefore {
    /// Nearest first.
    pub(super) regions: Vec<MetaRegion>,
    pub(super) server: ServerName,
    pub(super) from: Source,
}

/// The replicas that a read may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The primary, which has the current locations.
    Primary,
    /// Any replica. Without the location of the row it does not count.
    Any,
}

impl Catalog {
    pub(super) fn new(config: &Config, registry: Arc<Registry>, rpc: Arc<RpcClient>) -> Self {
        Self {
            registry,
            rpc,
            mode: config.meta_replicas(),
            patience: config.meta_replica_timeout(),
            timeout: config.read_timeout(),
            location: Mutex::default(),
            queries: LookUps::new(),
        }
    }

    /// Whether replicas are read at all.
    pub(super) fn reads_replicas(&self) -> bool {
        self.mode != MetaReplicaMode::None
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<RegionLocation>>> {
        self.location.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the location of `hbase:meta` if the server has the region or a replica of it.
    pub(super) fn forget(&self, server: &ServerName) {
        self.known().take_if(|location| location.is_on(server));
    }

    /// Returns the location of `hbase:meta`, from the registry unless it is known.
    pub(super) async fn location(&self, deadline: Instant) -> Result<Arc<RegionLocation>, NoLocation> {
        let known = || self.known().clone();
        match known() {
            Some(location) => Ok(location),
            None => self.query_unless(known, deadline).await,
        }
    }

    /// Returns the location of `hbase:meta` from the registry, which is queried after this call began.
    pub(super) async fn locate(&self, deadline: Instant) -> Result<Arc<RegionLocation>, NoLocation> {
        self.query_unless(|| None, deadline).await
    }

    /// Queries the registry unless the location is known when the turn of this call comes. Of the calls that
    /// wait, one queries it for all.
    async fn query_unless(
        &self,
        known: impl Fn() -> Option<Arc<RegionLocation>>,
        deadline: Instant,
    ) -> Result<Arc<RegionLocation>, NoLocation> {
        let (meta, any_row) = (TableName::meta(), Bytes::new());
        let mut leader = match timeout_at(deadline, self.queries.wait(&meta, &any_row)).await {
            Ok(Turn::Answered(answer)) => return answer,
            Ok(Turn::Lead(leader)) => leader,
            Err(_) => return Err(self.lost(self.registry.no_answer())),
        };
        if let Some(location) = known() {
            return Ok(location);
        }
        let answer = self.query(deadline).await;
        leader.share(&answer, deadline);
        answer
    }

    async fn query(&self, deadline: Instant) -> Result<Arc<RegionLocation>, NoLocation> {
        match self.registry.meta_location(self.reads_replicas(), deadline).await {
            Ok(location) => {
                let location = Arc::new(location);
                *self.known() = Some(Arc::clone(&location));
                Ok(location)
            }
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, error: Error) -> NoLocation {
        if self.registry.was_reached() {
            NoLocation::RegistryLost(error)
        } else {
            NoLocation::Registry(error)
        }
    }

    /// Runs a read of the primary, and returns the server that answered.
    pub(super) async fn read_primary<T>(
        &self,
        deadline: Instant,
        read: impl AsyncFnOnce(MetaReader<'_>) -> Result<T, CallError>,
    ) -> Result<(T, ServerName), NoLocation> {
        let location = self.location(deadline.min(Instant::now() + self.timeout)).await?;
        let server = location.server.clone();
        match read(self.reader(&location, deadline)).await {
            Ok(found) => Ok((found, server)),
            Err(error) => {
                self.forget(&server);
                Err(NoLocation::Call(error, server))
            }
        }
    }

    /// Returns at most this many regions at and before the row. If the primary named them, the
    /// caller must check whether the first one contains the row and is served; otherwise they all
    /// are served, and have all rows down to the start of the last one.
    pub(super) async fn regions_before(
        &self,
        table: &TableName,
        row: &[u8],
        limit: u32,
        source: Source,
        deadline: Instant,
    ) -> Result<RegionsBefore, NoLocation> {
        let primary = self.location(deadline).await?;
        let query = async |location: Arc<RegionLocation>| {
            let reader = self.reader(&location, deadline);
            let server = location.server.clone();
            let (regions, from) = match reader.regions_before(table, row, limit).await {
                Ok(regions) if Arc::ptr_eq(&location, &primary) => (regions, Source::Primary),
                Ok(regions) => (served_down_from(row, regions), Source::Any),
                Err(error) => {
                    self.forget(&server);
                    return Err(Arc::ptr_eq(&location, &primary).then_some(error));
                }
            };
            if from == Source::Any && regions.is_empty() {
                Err(None)
            } else {
                Ok(RegionsBefore {
                    regions,
                    server,
                    from,
                })
            }
        };
        let locations = self.in_order(&primary, source);
        let answer = staggered::first_answer(locations, 1, self.patience, query).await;
        answer.map_err(|failures| {
            // The primary was queried, and has failed.
            let error = failures.into_iter().flatten().next();
            let error = error.unwrap_or_else(|| CallError::BadAnswer("no answer".into()));
            NoLocation::Call(error, primary.server.clone())
        })
    }

    fn reader<'a>(&'a self, location: &'a RegionLocation, deadline: Instant) -> MetaReader<'a> {
        MetaReader {
            rpc: &self.rpc,
            location,
            deadline,
            timeout: self.timeout,
        }
    }

    /// Returns the replicas to query, in this order until one answers.
    fn in_order(&self, primary: &Arc<RegionLocation>, source: Source) -> Vec<Arc<RegionLocation>> {
        let mut locations = vec![Arc::clone(primary)];
        if source == Source::Any && self.reads_replicas() {
            let mut replicas: Vec<_> = primary.replicas().collect();
            fastrand::shuffle(&mut replicas);
            locations.extend(replicas);
            if self.mode == MetaReplicaMode::LoadBalance && locations.len() > 1 {
                locations.swap(0, 1);
            }
        }
        locations
    }
}

/// Returns the regions from the row's down to the last one before a region that is not served, or
/// that is missing: only the primary knows whether these rows have no region.
fn served_down_from(row: &[u8], mut regions: Vec<MetaRegion>) -> Vec<MetaRegion> {
    let mut above: Option<&MetaRegion> = None;
    let mut served = 0;
    for found in &regions {
        let adjacent = match above {
            None => found.region.contains(row),
            Some(above) => found.region.end_key == above.region.start_key,
        };
        if !adjacent || found.server.is_none() {
            break;
        }
        served += 1;
        above = Some(found);
    }
    regions.truncate(served);
    regions
}
