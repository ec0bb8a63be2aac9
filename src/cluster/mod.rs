//! Where rows live, and how calls survive when they move.
//!
//! | file | what |
//! |---|---|
//! | `registry` | where `hbase:meta` and the active master are: asked of ZooKeeper, or of any server |
//! | `meta` | reads `hbase:meta` |
//! | `region_cache` | the regions that are known |
//! | `locator` | the region of a row: from the cache, else from `hbase:meta`, one look-up at a time |
//! | `pause` | how long to wait between attempts |
//! | `attempts` | one call's attempts within its deadline |
//! | `master` | calls of the active master |
//!
//! What must stay true: a location is dropped only by a failure of that very location, so that a late failure
//! can't drop a fresher one; every wait ends at the caller's deadline.

mod attempts;
mod locator;
mod master;
mod meta;
mod pause;
mod region_cache;
mod registry;

use std::sync::Arc;

use prost::Message;
use tokio::time::Instant;

pub(crate) use attempts::{Attempts, CallKind, Operation};
pub(crate) use region_cache::RegionLocation;

use crate::{
    config::Config,
    error::Result,
    model::TableName,
    rpc::{Call, CallError, Connector, RpcClient, ServiceKind},
    wire::cell_block::{CellBlockDecoder, Codec},
};

/// The system tables' priority; without it a call for `hbase:meta` waits behind users' calls.
const SYSTEM_PRIORITY: u32 = 200;

/// What a client knows of its cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) config: Config,
    rpc: Arc<RpcClient>,
    locator: locator::Locator,
    master: master::MasterAddress,
}

impl Cluster {
    pub(crate) fn new(config: Config, connector: Arc<dyn Connector>) -> Self {
        let rpc = Arc::new(RpcClient::new(&config, connector));
        let registry = Arc::new(registry::Registry::new(&config, Arc::clone(&rpc)));
        Self {
            locator: locator::Locator::new(Arc::clone(&registry), Arc::clone(&rpc)),
            master: master::MasterAddress::new(registry),
            rpc,
            config,
        }
    }

    /// Calls a method of the region server that serves a region. One attempt.
    pub(crate) async fn call_region_server<M: Message, R: Message + Default>(
        &self,
        location: &RegionLocation,
        service: ServiceKind,
        codec: Codec,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        self.rpc
            .call(Call {
                server: &location.address(),
                service,
                codec,
                method,
                request,
                priority: location.region.table.is_system().then_some(SYSTEM_PRIORITY),
                deadline,
            })
            .await
    }

    /// All regions of a table, in order, as `hbase:meta` has them now. They may be in the middle of a split.
    pub(crate) async fn regions_of(
        &self,
        table: &TableName,
        deadline: Instant,
    ) -> Result<Vec<meta::MetaRegion>> {
        self.locator.regions_of(table, deadline, &self.config).await
    }

    /// Finds out where `hbase:meta` is, unless that is known.
    pub(crate) async fn reach(&self, deadline: Instant) -> Result<()> {
        self.locator.reach(deadline).await
    }

    /// Forgets a location that turned out to be wrong.
    pub(crate) fn forget(&self, location: &RegionLocation) {
        self.locator.forget(location);
    }

    /// Waits for calls in flight, at most until the deadline, then ends every connection.
    pub(crate) async fn close(&self, deadline: Instant) {
        self.rpc.close(deadline).await;
    }
}
