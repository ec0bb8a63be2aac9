//! The public handle of a cluster.

#[cfg(feature = "client")]
mod client;
mod partitions;
mod run;
mod server;
mod tables;

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr},
    sync::atomic::AtomicU64,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

#[cfg(feature = "client")]
pub use self::client::{FakeConnector, FakeEnvironment};
pub use self::{partitions::Partitions, server::FakeServer};
use crate::{
    cluster::{Settings, World},
    network::{Fault, FaultHandle, Latency, Network, RandomDraws, RandomFaults, tcp},
    region::Release,
};

/// An HBase cluster in this process.
///
/// It ends when it is dropped: connections break, and calls in flight end with them. Several
/// clusters in one process do not know each other.
///
/// A drop panics if a fault was left unused, or if a client sent what is not modelled: a client may
/// hide the error, and a test that passed would prove less than it says.
pub struct FakeHBase {
    network: Network,
    addresses: Vec<String>,
    seed: u64,
    /// The number of environments of clients so far.
    #[cfg_attr(not(feature = "client"), expect(dead_code, reason = "of clients only"))]
    environments: AtomicU64,
}

/// The settings of a [`FakeHBase`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build is called"]
pub struct FakeHBaseBuilder {
    settings: Settings,
    latency: Latency,
    chunks: Option<(usize, usize)>,
}

impl FakeHBase {
    /// Starts a cluster of one master and one region server, of HBase 2.6.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().build()
    }

    /// Returns the settings of a cluster like that of [`start`](Self::start).
    pub fn builder() -> FakeHBaseBuilder {
        FakeHBaseBuilder {
            settings: Settings::default(),
            latency: Latency::NONE,
            chunks: None,
        }
    }

    /// Adds a fault, after those that were added before.
    pub fn fault(&self, fault: Fault) -> FaultHandle {
        self.network.fault(fault)
    }

    /// Sets the faults that happen at random to calls and dials that no other fault selects. They
    /// follow from the seed of the cluster.
    pub fn set_random_faults(&self, faults: RandomFaults) {
        let draws = RandomDraws::new(faults, self.seed, None);
        self.network.set_random_faults(Some(draws));
    }

    /// Returns the requests since the last such call that were refused because they need something that is
    /// not modelled. Those that are not taken fail the test when the cluster is dropped.
    pub fn take_refusals(&self) -> Vec<String> {
        let mut refused = self.network.with_world(|world, _| world.take_refusals());
        refused.extend(self.network.take_refusals());
        refused
    }

    /// Sets the load of memstores, in percent, that servers report in answers to `Multi`. `None`, the
    /// default, reports nothing, as servers without `hbase.client.backpressure.enabled` do.
    pub fn set_memstore_load(&self, percent: Option<i32>) {
        self.network.with_world(|world, _| world.memstore_load = percent);
    }

    /// Returns the number of calls of a method that clients have sent. A call of an endpoint counts
    /// as one of the endpoint's method.
    #[must_use]
    pub fn calls(&self, method: &str) -> usize {
        self.network.calls(method)
    }

    /// Returns the latest dials and calls, as text.
    #[must_use]
    pub fn trace(&self) -> String {
        self.network.dump()
    }

    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Returns what the test has left, or used although it is not modelled.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let unused = self.network.unused_faults();
        let unused = unused
            .into_iter()
            .map(|fault| format!("a fault was left unused: {fault}"));
        let refused = self.network.with_world(|world, _| world.refusals().to_vec());
        unused.chain(refused).chain(self.network.refusals()).collect()
    }
}

impl FakeHBaseBuilder {
    /// Sets the number of region servers.
    pub fn servers(mut self, servers: usize) -> Self {
        self.settings.servers = servers;
        self
    }

    /// Sets the number of masters: the active one and its backups.
    pub fn masters(mut self, masters: usize) -> Self {
        self.settings.masters = masters;
        self
    }

    /// Sets the release.
    pub fn release(mut self, release: Release) -> Self {
        self.settings.release = release;
        self
    }

    /// Sets the seed of everything that is random: latency, random faults, the losses of a crash, and
    /// the numbers of clients.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Sets how long calls take.
    pub fn latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// Makes streams carry only so many bytes at once, at least and at most, as a slow network does:
    /// frames then arrive in parts.
    pub fn chunks(mut self, least: usize, most: usize) -> Self {
        self.chunks = Some((least.max(1), most.max(1)));
        self
    }

    /// Sets the host by which a cluster that [listens](Self::listen) names its servers, in place of the
    /// address of their sockets. Like the servers in a container network, they are then reached only by
    /// clients that map the name to the address.
    pub fn advertised_host(mut self, host: impl Into<String>) -> Self {
        self.settings.host = Some(host.into());
        self
    }

    /// Starts the cluster.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn build(self) -> FakeHBase {
        let wall = Some(self.settings.start);
        self.start_at(wall)
    }

    /// Starts the cluster at a time in milliseconds since 1970, or by the system's clock.
    fn start_at(self, wall: Option<u64>) -> FakeHBase {
        let seed = self.settings.seed;
        let network = Network::new(World::new(self.settings), seed, wall);
        network.set_latency(self.latency);
        network.set_chunks(self.chunks);
        let addresses = network.with_world(|world, _| world.bootstrap_addresses());
        FakeHBase {
            network,
            addresses,
            seed,
            environments: AtomicU64::new(0),
        }
    }

    /// Starts the cluster on ports of this machine, in real time, for other processes and other
    /// languages. [`FakeHBase::uri`] is its address.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no port left.
    pub async fn listen(self) -> io::Result<FakeHBase> {
        self.listen_on(Ipv4Addr::LOCALHOST.into()).await
    }

    /// Starts the cluster as [`listen`](Self::listen) does, on another address of this machine, such as
    /// `::1`.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no port left, or does not have the address.
    pub async fn listen_on(mut self, address: IpAddr) -> io::Result<FakeHBase> {
        let listeners = tcp::bind(address, self.settings.servers + self.settings.masters).await?;
        for listener in &listeners {
            self.settings.addresses.push(listener.local_addr()?);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.settings.start = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let hbase = self.start_at(None);
        hbase.network.listen(listeners);
        Ok(hbase)
    }
}

impl fmt::Debug for FakeHBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeHBase")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Drop for FakeHBase {
    fn drop(&mut self) {
        let complaints = self.complaints();
        if !complaints.is_empty() && !thread::panicking() {
            panic!("hbase-fake: {}", complaints.join("\n"));
        }
    }
}

impl FakeHBase {
    /// Returns the connection URI of the cluster. Only a cluster that was started by
    /// [`listen`](FakeHBaseBuilder::listen) can be reached by it from elsewhere.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("hbase+rpc://{}", self.addresses.join(","))
    }
}
