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
//! | `master_address` | where it is |
//! | `proofs` | the servers that were proven to honour conditions |
//!
//! What must stay true: a location is dropped only by a failure of that very location, so that a
//! late failure can't drop a fresher one; every wait ends at the caller's deadline.

mod attempts;
mod locator;
mod master;
mod master_address;
mod meta;
mod pause;
mod proofs;
mod region_cache;
mod registry;

use std::sync::Arc;

use prost::Message;
use tokio::time::Instant;

pub use attempts::CallKind;
pub(crate) use attempts::{Attempts, Operation};
pub(crate) use proofs::Proofs;
pub(crate) use region_cache::RegionLocation;

use self::master_address::MasterAddress;
use crate::{
    config::Config,
    error::Result,
    model::TableName,
    rpc::{AttemptLimit, Call, CallError, Connector, RpcClient, ServiceKind},
    wire::{
        cell_block::{CellBlockDecoder, Codec},
        ping::SYSTEM_PRIORITY,
    },
};

/// What a client knows of its cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) config: Config,
    pub(crate) proofs: Proofs,
    rpc: Arc<RpcClient>,
    locator: locator::Locator,
    master: MasterAddress,
}

impl Cluster {
    pub(crate) fn new(config: Config, connector: Arc<dyn Connector>) -> Self {
        let rpc = Arc::new(RpcClient::new(&config, connector));
        let registry = Arc::new(registry::Registry::new(&config, Arc::clone(&rpc)));
        Self {
            locator: locator::Locator::new(Arc::clone(&registry), Arc::clone(&rpc)),
            master: MasterAddress::new(registry),
            rpc,
            config,
            proofs: Proofs::default(),
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
        limit: AttemptLimit,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        self.rpc
            .call(Call {
                server: &location.address(),
                service,
                codec,
                method,
                request,
                priority: location.region.table.is_system().then_some(SYSTEM_PRIORITY),
                limit,
            })
            .await
    }

    /// All regions of a table, in order, as `hbase:meta` has them now. They may be in the middle of
    /// a split.
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
