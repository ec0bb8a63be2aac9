//! The locations of rows, and the retries of calls when rows move.
//!
//! | file | contents |
//! |---|---|
//! | `registry` | the servers of `hbase:meta` and the active master, by ZooKeeper or by RPC |
//! | `staggered` | queries of several servers of which one has to answer |
//! | `catalog` | the location of `hbase:meta`, and reads from its primary or its replicas |
//! | `meta` | reads `hbase:meta` |
//! | `region_cache` | the known regions |
//! | `stale_regions` | regions whose locations turned out to be stale |
//! | `look_ups` | reads that many calls wait for, one at a time for each table |
//! | `no_location` | why a row has no usable location |
//! | `locator` | the region of a row, from the cache or from `hbase:meta` |
//! | `pause` | the pauses between attempts |
//! | `attempts` | one call's attempts within its deadline |
//! | `server_call` | calls of the active master, and of a server by its name |
//! | `master_address` | the location of the active master |
//! | `token_choice` | the delegation token of the cluster |
//! | `proofs` | what servers were proven to do |
//!
//! Invariants: only a failure of a location itself drops it from the cache, so that a late failure
//! cannot drop a fresher one; every wait ends at the caller's deadline.

mod attempts;
mod catalog;
mod locator;
mod look_ups;
mod master_address;
mod meta;
mod no_location;
mod pause;
mod proofs;
mod region_cache;
mod registry;
mod server_call;
mod staggered;
mod stale_regions;
mod token_choice;

use std::sync::Arc;

use bytes::Bytes;
use hbase_security::KdcClock;
use prost::Message;
use tokio::{runtime::Handle, time::Instant};

pub use attempts::CallKind;
pub(crate) use attempts::{Attempts, Operation};
pub(crate) use meta::{MetaRegion, parse_meta_row};
pub use proofs::{ProofTurn, Proofs};
pub use region_cache::RegionLocation;
pub use server_call::ServerTarget;

use self::master_address::MasterAddress;
use self::token_choice::token_of_cluster;
use crate::{
    config::Config,
    environment::Environment,
    error::Result,
    model::TableName,
    observe::SpanOptions,
    rpc::{AttemptLimit, Call, CallError, CallOptions, Connector, Recovery, RpcClient, ServiceKind},
    wire::{
        cell_block::CellBlockDecoder,
        multi::{EncodedMultiRequest, MutationsResponse},
        ping::SYSTEM_PRIORITY,
    },
};

/// The client's knowledge of its cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) config: Config,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) proofs: Proofs,
    pub(crate) span_options: SpanOptions,
    rpc: Arc<RpcClient>,
    registry: Arc<registry::Registry>,
    locator: locator::Locator,
    master: MasterAddress,
}

impl Cluster {
    pub(crate) fn new(
        config: Config,
        connector: Arc<dyn Connector>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let rpc = Arc::new(RpcClient::new(&config, connector));
        let registry = Arc::new(registry::Registry::new(&config, Arc::clone(&rpc)));
        let catalog = catalog::Catalog::new(&config, Arc::clone(&registry), Arc::clone(&rpc));
        Self {
            locator: locator::Locator::new(catalog),
            master: MasterAddress::new(Arc::clone(&registry)),
            registry,
            rpc,
            config,
            environment,
            proofs: Proofs::default(),
            span_options: SpanOptions::default(),
        }
    }

    /// Creates a cluster for tests that call no server, of a runtime that has ended.
    #[cfg(test)]
    pub(crate) fn without_servers() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let entered = runtime.enter();
        let config = Config::from_uri("hbase+rpc://127.0.0.1:1").unwrap();
        let environment = Arc::new(crate::environment::SystemEnvironment);
        let cluster = Self::new(config, Arc::new(crate::rpc::TcpConnector), environment);
        drop(entered);
        runtime.shutdown_background();
        cluster
    }

    /// Returns the runtime in which the connection was made.
    pub(crate) fn runtime(&self) -> &Handle {
        self.rpc.runtime()
    }

    /// See [`RpcClient::unless_not_driven`].
    pub(crate) fn unless_not_driven(&self, failure: CallError) -> CallError {
        self.rpc.unless_not_driven(failure)
    }

    /// Calls a method of the region server that serves a region. Makes one attempt.
    pub(crate) async fn call_region_server<M: Message, R: Message + Default>(
        &self,
        location: &RegionLocation,
        service: ServiceKind,
        options: &CallOptions,
        method: &'static str,
        request: &M,
        limit: AttemptLimit,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        self.rpc
            .call(Call {
                server: &location.address(),
                service,
                options: options.clone(),
                method,
                request,
                cells: Bytes::new(),
                priority: self.priority_of(&location.region.table, options),
                limit,
            })
            .await
    }

    fn priority_of(&self, table: &TableName, options: &CallOptions) -> Option<u32> {
        if table.is_system() {
            Some(SYSTEM_PRIORITY)
        } else {
            options.priority.or_else(|| self.config.call_priority())
        }
    }

    /// Calls a region server with mutations of several regions, whose cells are behind the request.
    /// Makes one attempt.
    pub(crate) async fn mutate_regions(
        &self,
        location: &RegionLocation,
        request: &EncodedMultiRequest,
        cells: Bytes,
        options: &CallOptions,
        limit: AttemptLimit,
    ) -> Result<MutationsResponse, CallError> {
        let call = Call {
            server: &location.address(),
            service: ServiceKind::Client,
            options: options.clone(),
            method: "Multi",
            request,
            cells,
            priority: self.priority_of(&location.region.table, options),
            limit,
        };
        let (answer, _) = self.rpc.call(call).await?;
        Ok(answer)
    }

    /// Returns the location of a row if it is cached.
    pub(crate) fn known_location(&self, table: &TableName, row: &[u8]) -> Option<Arc<RegionLocation>> {
        self.locator.known(table, row)
    }

    /// Returns all regions of a table in order, as `hbase:meta` has them now. They may be in the
    /// middle of a split.
    pub(crate) async fn regions_of(&self, table: &TableName, deadline: Instant) -> Result<Vec<MetaRegion>> {
        self.regions_in(table, &Bytes::new(), &Bytes::new(), deadline)
            .await
    }

    /// Returns the regions that have rows from `start` to before `stop`. An empty row stands for the
    /// beginning or the end of the table.
    pub(crate) async fn regions_in(
        &self,
        table: &TableName,
        start: &Bytes,
        stop: &Bytes,
        deadline: Instant,
    ) -> Result<Vec<MetaRegion>> {
        let regions = self
            .locator
            .regions_of(table, start, stop, deadline, &self.config);
        regions.await
    }

    /// Chooses the delegation token of the cluster, if the client has tokens. To be called before any
    /// other call.
    pub(crate) async fn choose_token(&self, deadline: Instant) -> Result<()> {
        if self.config.delegation_tokens().is_empty() {
            return Ok(());
        }
        let cluster_id = self.registry.cluster_id(deadline).await?;
        if let Some(token) = token_of_cluster(&self.config, cluster_id.as_deref())? {
            self.rpc.use_token(token.clone(), Arc::clone(&self.environment));
        }
        Ok(())
    }

    /// Compares the wall clock with that of a key distribution centre. Returns `None` if connections
    /// need no ticket.
    pub(crate) async fn kdc_clock(&self) -> Result<Option<KdcClock>> {
        let compared = self.rpc.kdc_clock(Arc::clone(&self.environment)).await;
        compared.map_err(CallError::into_error)
    }

    /// Locates `hbase:meta`, unless its server is known.
    pub(crate) async fn reach(&self, deadline: Instant) -> Result<()> {
        self.locator.reach(deadline).await
    }

    /// Starts to learn of new servers of the registry.
    pub(crate) fn keep_learning(&self) {
        self.registry.keep_learning();
    }

    /// Forgets an outdated location.
    pub(crate) fn forget(&self, location: &RegionLocation) {
        self.locator.forget(location);
    }

    /// Forgets all regions of a table that was dropped.
    pub(crate) fn forget_table(&self, table: &TableName) {
        self.locator.forget_table(table);
    }

    /// Forgets what a failed call shows to be outdated.
    pub(crate) fn forget_after(&self, recovery: Recovery, location: &RegionLocation) {
        match recovery {
            Recovery::Relocate | Recovery::RelocateAtOnce | Recovery::RelocateOnUnknown => {
                self.locator.forget(location);
            }
            Recovery::ForgetServer => self.locator.forget_server(location),
            _ => {}
        }
    }

    /// Waits for calls in flight, at most until the deadline, then closes every connection.
    pub(crate) async fn close(&self, deadline: Instant) {
        self.rpc.close(deadline).await;
    }
}
