//! Settings, and their names in `hbase-site.xml`.
//!
//! Every time is bounded by default. [`Config`] lists the defaults.

mod address;
mod address_map;
mod authentication;
mod backpressure;
mod connection_uri;
mod expand;
mod hbase_site;
mod mapped_address;
mod meta_replicas;
mod properties;
mod times;
mod tls;
mod token_file;
mod user;

use std::{env, path::Path, time::Duration};

use address::MASTER_PORT;
pub use address::{ClusterAddress, HostPort};
use bytes::Bytes;
pub use connection_uri::ConnectionUri;
use hbase_security::{AuthenticationOptions, TlsOptions};
pub use mapped_address::MappedAddress;
pub use meta_replicas::MetaReplicaMode;
pub use properties::site_properties;
use times::LONGEST;
pub use times::bounded;
pub use token_file::TokenFile;
#[cfg(test)]
pub(crate) use token_file::tests::token_of;
pub use user::login_name;

use crate::{
    error::{Error, Result},
    model::{IntoBytes, set_attribute},
    wire::compression::Compression,
};

/// The configuration of a client: the address of its cluster, timeouts and limits.
///
/// Built from a connection URI ([`Config::from_uri`]), from an `hbase-site.xml`
/// ([`Config::from_hbase_site_file`]) or from the folder of such files that `HBASE_CONF_DIR` names
/// ([`Config::from_env`]), and changed by the `with_…` methods.
///
/// | setting | default | in `hbase-site.xml` |
/// |---|---|---|
/// | [operation timeout](Self::with_operation_timeout) | 60 s | `hbase.client.operation.timeout` |
/// | [read timeout](Self::with_read_timeout) | 20 s | `hbase.rpc.read.timeout`, else `hbase.rpc.timeout` |
/// | [write timeout](Self::with_write_timeout) | 60 s | `hbase.rpc.write.timeout`, else `hbase.rpc.timeout` |
/// | [connect timeout](Self::with_connect_timeout) | 5 s | `hbase.ipc.client.socket.timeout.connect` |
/// | [registry timeout](Self::with_registry_timeout) | 8 s | `zookeeper.registry.async.get.timeout` |
/// | [pause](Self::with_pause) | 100 ms | `hbase.client.pause` |
/// | [pause of an overloaded server](Self::with_overloaded_pause) | as the pause | `hbase.client.pause.server.overloaded` |
/// | [back-pressure](Self::with_backpressure) | off | `hbase.client.backpressure.enabled` |
/// | [scan batch](Self::with_scan_batch_bytes) | 1 MiB | `hbase.client.scanner.max.result.size` |
/// | [scan caching](Self::with_scan_caching) | as the size allows | `hbase.client.scanner.caching` |
/// | [primary call timeouts](Self::with_primary_call_timeouts) | 10 ms, 1 s | `hbase.client.primaryCallTimeout.get`, `hbase.client.replicaCallTimeout.scan` |
/// | [replicas of `hbase:meta`](Self::with_meta_replicas) | none | `hbase.locator.meta.replicas.mode`, else `hbase.meta.replicas.use` |
/// | [meta replica timeout](Self::with_meta_replica_timeout) | 1 s | `hbase.client.meta.replica.scan.timeout` |
/// | [largest cell](Self::with_max_cell_size) | 10 MiB | `hbase.client.keyvalue.maxsize` |
/// | [coalescing](Self::with_coalescing) | on | |
/// | [nonces](Self::with_nonces) | on | `hbase.client.nonces.enabled` |
/// | [priority of calls](Self::with_call_priority) | none | |
/// | [connection attributes](Self::with_connection_attribute) | none | |
/// | [address map](Self::with_address_map) | none | |
/// | [connections to a region server](Self::with_connections_per_server) | 1 | `hbase.client.ipc.pool.size` |
/// | [idle timeout of connections](Self::with_idle_timeout) | 2 min | `hbase.ipc.client.connection.minIdleTimeBeforeClose` |
/// | [compression](Self::with_compression) | none | `hbase.client.rpc.compressor` |
/// | TLS, with the feature `tls` (`with_tls`) | off | `hbase.client.netty.tls.enabled` and others |
/// | TLS to ZooKeeper, with the feature `tls` (`with_zookeeper_tls`) | off | `hbase.zookeeper.property.client.secure` and others |
/// | [user](Self::with_user) | `HADOOP_USER_NAME`, else the login name | |
///
/// Times range from a millisecond to a year; values outside are replaced by the nearest bound. A
/// timeout of 0 or less in `hbase-site.xml` means no limit in HBase, and a year here: then the
/// operation timeout bounds the call, and if that is 0 too, the call has a year. HBase's own
/// operation timeout is 20 minutes. Here it is one minute, because a program that hangs for 20 is
/// broken. The operation timeout bounds retries, not their number. The one exception: a call of the
/// master fails at the third attempt if the answer does not explain the failure, such as a plain
/// `IOException`.
///
/// # Files
///
/// Files are read as Hadoop reads them: `${name}` stands for another property, and `${env.NAME}`,
/// `${env.NAME-default}` or `${env.NAME:-default}` for a variable of the environment; `xi:include`
/// adds another file, relative to the one that names it, or its fallback; `<final>` keeps a
/// property as it is. Files include each other up to 8 deep, have 4 MiB together, and nothing is
/// read over the network.
///
/// The cluster is found through `hbase.client.zookeeper.quorum` or `hbase.zookeeper.quorum`. It is
/// found through `hbase.client.bootstrap.servers`, `hbase.masters`, or `hbase.master.hostname` with
/// `hbase.master.port`, if `hbase.client.registry.impl` names the RPC registry, or if one of the
/// first two is set and no quorum is. [`warnings`](Self::warnings) lists the settings that this
/// client does not support.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_client::Config;
///
/// let config = Config::from_uri("hbase+rpc://127.0.0.1:16000").unwrap()
///     .with_operation_timeout(Duration::from_secs(10));
/// assert_eq!(config.operation_timeout(), Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    address: ClusterAddress,
    address_map: Vec<MappedAddress>,
    user: String,
    operation_timeout: Duration,
    read_timeout: Duration,
    write_timeout: Duration,
    connect_timeout: Duration,
    registry_timeout: Duration,
    pause: Duration,
    overloaded_pause: Option<Duration>,
    backpressure: bool,
    scan_batch_bytes: u64,
    scan_caching: Option<u32>,
    primary_get_timeout: Duration,
    primary_scan_timeout: Duration,
    meta_replicas: MetaReplicaMode,
    meta_replica_timeout: Duration,
    max_cell_size: usize,
    max_frame_size: usize,
    coalescing: bool,
    nonces: bool,
    compression: Option<Compression>,
    call_priority: Option<u32>,
    connection_attributes: Vec<(String, Bytes)>,
    connections_per_server: u8,
    idle_timeout: Duration,
    tls: Option<TlsOptions>,
    zookeeper_tls: Option<TlsOptions>,
    authentication: AuthenticationOptions,
    unencrypted_tokens: bool,
    warnings: Vec<String>,
}

impl Config {
    /// Creates the configuration for a cluster at this address, with the defaults for everything
    /// else.
    #[must_use]
    pub fn new(address: ClusterAddress) -> Self {
        Self {
            address,
            address_map: Vec::new(),
            user: login_name(),
            operation_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            registry_timeout: Duration::from_secs(8),
            pause: Duration::from_millis(100),
            overloaded_pause: None,
            backpressure: false,
            scan_batch_bytes: 1 << 20,
            scan_caching: None,
            primary_get_timeout: Duration::from_millis(10),
            primary_scan_timeout: Duration::from_secs(1),
            meta_replicas: MetaReplicaMode::None,
            meta_replica_timeout: Duration::from_secs(1),
            max_cell_size: 10 << 20,
            max_frame_size: 256 << 20,
            coalescing: true,
            nonces: true,
            compression: None,
            call_priority: None,
            connection_attributes: Vec::new(),
            connections_per_server: 1,
            idle_timeout: Duration::from_secs(120),
            tls: None,
            zookeeper_tls: None,
            authentication: AuthenticationOptions::default(),
            unencrypted_tokens: false,
            warnings: Vec::new(),
        }
    }

    /// Creates the configuration for the cluster of a [connection URI](ConnectionUri):
    /// `hbase+zk://host:port,host:port/znode`, or `hbase+rpc://host:port,host:port`, with parameters
    /// for settings.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the text is not such a URI, or
    /// needs a feature that is not compiled in, and otherwise an error as
    /// [`from_hbase_site`](Self::from_hbase_site) does.
    pub fn from_uri(uri: &str) -> Result<Self> {
        uri.parse::<ConnectionUri>()?.config()
    }

    /// Reads the configuration from the text of an `hbase-site.xml`. Ignores keys that this client
    /// does not know. Cannot resolve relative paths of included files.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for invalid XML, invalid values,
    /// and an `xi:include` without a fallback, and
    /// [`AuthenticationRequired`](crate::ErrorKind::AuthenticationRequired) for a cluster that
    /// requires Kerberos without the feature `kerberos`, or TLS without the feature `tls`.
    pub fn from_hbase_site(xml: &str) -> Result<Self> {
        hbase_site::of_text(xml)
    }

    /// Reads the configuration from an `hbase-site.xml`, and from the files that it includes.
    ///
    /// # Errors
    ///
    /// Returns an error as [`from_hbase_site`](Self::from_hbase_site) does, and if a file cannot be
    /// read.
    pub fn from_hbase_site_file(file: impl AsRef<Path>) -> Result<Self> {
        hbase_site::of_file(file.as_ref(), None)
    }

    /// Reads the configuration from a folder: from its `core-site.xml` and its `hbase-site.xml`, of
    /// which one must exist. The latter overrides the former.
    ///
    /// # Errors
    ///
    /// Returns an error as [`from_hbase_site_file`](Self::from_hbase_site_file) does.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Config;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let masters = "<property><name>hbase.masters</name><value>m1:16000</value></property>";
    /// # let site = format!("<configuration>{masters}</configuration>");
    /// # std::fs::write(folder.path().join("hbase-site.xml"), site).unwrap();
    /// let config = Config::from_conf_dir(&folder).unwrap(); // for example /etc/hbase/conf
    /// assert_eq!(config.address().to_string(), "hbase+rpc://m1:16000");
    /// ```
    pub fn from_conf_dir(folder: impl AsRef<Path>) -> Result<Self> {
        hbase_site::of_folder(folder.as_ref(), None)
    }

    /// Reads the configuration from the [folder](Self::from_conf_dir) in the environment variable
    /// `HBASE_CONF_DIR`.
    ///
    /// # Errors
    ///
    /// Returns an error as [`from_conf_dir`](Self::from_conf_dir) does, and
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the variable is not set.
    pub fn from_env() -> Result<Self> {
        match env::var_os(CONF_DIR).filter(|folder| !folder.is_empty()) {
            Some(folder) => Self::from_conf_dir(Path::new(&folder)),
            None => Err(Error::invalid_config(format!(
                "the environment variable {CONF_DIR} names no folder"
            ))),
        }
    }

    /// Returns the settings of the files that this client does not support, by name. They are also
    /// logged as warnings when the files are read.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the address of the cluster.
    #[must_use]
    pub fn address(&self) -> &ClusterAddress {
        &self.address
    }

    /// Sets the address of the cluster.
    #[must_use]
    pub fn with_address(mut self, address: ClusterAddress) -> Self {
        self.address = address;
        self
    }

    /// Returns the user name that servers receive with SIMPLE authentication. They do not verify it.
    /// With Kerberos they receive the name of the ticket.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Sets the user name that servers receive.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// Returns the timeout of a call, including all its attempts and lookups.
    #[must_use]
    pub fn operation_timeout(&self) -> Duration {
        self.operation_timeout
    }

    /// Sets the timeout of a call.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = bounded(timeout);
        self
    }

    /// Returns the timeout of one attempt of a read, after which it is repeated. It is about 6 s on
    /// a connection whose server does not answer pings.
    #[must_use]
    pub fn read_timeout(&self) -> Duration {
        self.read_timeout
    }

    /// Sets the timeout of one attempt of a read.
    #[must_use]
    pub fn with_read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = bounded(timeout);
        self
    }

    /// Returns the timeout of one attempt of a write. A write that must not be sent twice has a
    /// single attempt, so a timeout shorter than that of the operation gains nothing. Writes that
    /// can be repeated (those with a timestamp or a record) use the [read
    /// timeout](Self::read_timeout) per attempt, or this one if it is shorter.
    #[must_use]
    pub fn write_timeout(&self) -> Duration {
        self.write_timeout
    }

    /// Sets the timeout of one attempt of a write.
    #[must_use]
    pub fn with_write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = bounded(timeout);
        self
    }

    /// Returns the timeout of dialling a server, including name resolution.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Sets the timeout of dialling a server.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = bounded(timeout);
        self
    }

    /// Returns the timeout of a lookup in the registry: in ZooKeeper, or on all servers of the RPC
    /// registry together.
    #[must_use]
    pub fn registry_timeout(&self) -> Duration {
        self.registry_timeout
    }

    /// Sets the timeout of a lookup in the registry.
    #[must_use]
    pub fn with_registry_timeout(mut self, timeout: Duration) -> Self {
        self.registry_timeout = bounded(timeout);
        self
    }

    /// Returns the base of the pauses between attempts. HBase's multipliers are 1, 2, 3, 5, 10, 20,
    /// 40, 100, …
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Sets the base of the pauses between attempts.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = bounded(pause);
        self
    }

    /// Returns the base of the pauses after a server reported that it is overloaded. At least
    /// [`pause`](Self::pause).
    #[must_use]
    pub fn overloaded_pause(&self) -> Duration {
        self.overloaded_pause
            .map_or(self.pause, |pause| pause.max(self.pause))
    }

    /// Sets the base of the pauses after a server reported that it is overloaded.
    #[must_use]
    pub fn with_overloaded_pause(mut self, pause: Duration) -> Self {
        self.overloaded_pause = Some(bounded(pause));
        self
    }

    /// Returns the approximate number of bytes that a scan requests per call.
    #[must_use]
    pub fn scan_batch_bytes(&self) -> u64 {
        self.scan_batch_bytes
    }

    /// Sets the approximate number of bytes that a scan requests per call, at least 1.
    #[must_use]
    pub fn with_scan_batch_bytes(mut self, bytes: u64) -> Self {
        self.scan_batch_bytes = bytes.max(1);
        self
    }

    /// Returns the maximum number of rows per call of a scan that has no
    /// [`caching`](crate::Scan::caching) of its own. `None` if the size alone limits a call.
    #[must_use]
    pub fn scan_caching(&self) -> Option<u32> {
        self.scan_caching
    }

    /// Sets the maximum number of rows per call of a scan, at least 1. `None` means that the size
    /// alone limits a call, which is the default.
    #[must_use]
    pub fn with_scan_caching(mut self, rows: Option<u32>) -> Self {
        self.scan_caching = rows.map(|rows| rows.clamp(1, i32::MAX as u32));
        self
    }

    /// Returns how long a [`Timeline`](crate::Consistency::Timeline) get waits for the primary before
    /// it asks the region's replicas too.
    #[must_use]
    pub fn primary_get_timeout(&self) -> Duration {
        self.primary_get_timeout
    }

    /// Returns how long a [`Timeline`](crate::Consistency::Timeline) scan waits for the primary when
    /// it opens a region.
    #[must_use]
    pub fn primary_scan_timeout(&self) -> Duration {
        self.primary_scan_timeout
    }

    /// Sets how long [`Timeline`](crate::Consistency::Timeline) gets, and scans that open a region,
    /// wait for the primary before they ask the region's replicas too. 0 asks all at once.
    #[must_use]
    pub fn with_primary_call_timeouts(mut self, get: Duration, scan: Duration) -> Self {
        self.primary_get_timeout = get.min(LONGEST);
        self.primary_scan_timeout = scan.min(LONGEST);
        self
    }

    /// Returns which replicas of `hbase:meta` lookups of regions read.
    #[must_use]
    pub fn meta_replicas(&self) -> MetaReplicaMode {
        self.meta_replicas
    }

    /// Sets which replicas of `hbase:meta` lookups of regions read. The default is the primary alone.
    ///
    /// A replica can be behind. Its answer counts only if it has the location of the row: the primary
    /// decides that a table does not exist, or that a region is not served. If a server refuses a call,
    /// because the location was stale, the location of that region comes from the primary for the
    /// next minute. `Admin::regions` (of the crate `hbase-admin`) and other reads of all regions of a table, and the
    /// states of tables, always come from the primary.
    #[must_use]
    pub fn with_meta_replicas(mut self, mode: MetaReplicaMode) -> Self {
        self.meta_replicas = mode;
        self
    }

    /// Returns how long a lookup waits for a replica of `hbase:meta` before it asks another one too.
    #[must_use]
    pub fn meta_replica_timeout(&self) -> Duration {
        self.meta_replica_timeout
    }

    /// Sets how long a lookup waits for a replica of `hbase:meta`, the primary included, before it
    /// asks another one too.
    #[must_use]
    pub fn with_meta_replica_timeout(mut self, timeout: Duration) -> Self {
        self.meta_replica_timeout = timeout.min(LONGEST);
        self
    }

    /// Returns the maximum size of a cell that is sent, key and value together.
    #[must_use]
    pub fn max_cell_size(&self) -> usize {
        self.max_cell_size
    }

    /// Sets the maximum size of a cell that is sent. The server has its own limit,
    /// `hbase.server.keyvalue.maxsize`.
    #[must_use]
    pub fn with_max_cell_size(mut self, bytes: usize) -> Self {
        self.max_cell_size = bytes;
        self
    }

    /// Returns the maximum size of a request or answer, in bytes. The default is 256 MiB, the
    /// server's own limit for requests.
    ///
    /// Decoding an answer takes up to six times its length for cells, or twelve for cells inside
    /// its message, and up to 400 MiB more; twice that while it grows. An answer that would take
    /// more is refused.
    #[must_use]
    pub fn max_frame_size(&self) -> usize {
        self.max_frame_size
    }

    /// Sets the maximum size of a request or answer, in bytes.
    #[must_use]
    pub fn with_max_frame_size(mut self, bytes: usize) -> Self {
        self.max_frame_size = bytes;
        self
    }

    /// Returns whether gets, puts and deletes may share calls.
    #[must_use]
    pub fn coalescing(&self) -> bool {
        self.coalescing
    }

    /// Sets whether gets, puts and deletes may share calls. The default is on.
    ///
    /// While a call with several mutations of a region is in flight, or two with one, further ones of
    /// that region wait until it ends, for 100 ms at most; gets wait while four calls of gets are in
    /// flight to their server, and all while 64 calls are. Then up to 1,000 of those that wait, in up to 1 MiB, share one
    /// call. Without others in flight, an operation is sent at once, in a call of its own.
    /// Each operation keeps its own outcome, deadline and attempts. Increments, appends, conditional
    /// changes and transactions never wait.
    ///
    /// Mutations of one region that share a call are applied together. If the server answers them
    /// with an exception that leaves open whether they were applied, for example one that a
    /// coprocessor throws for one of them, the outcome of all of them is unknown.
    #[must_use]
    pub fn with_coalescing(mut self, coalescing: bool) -> Self {
        self.coalescing = coalescing;
        self
    }

    /// Returns whether increments and appends carry nonces.
    #[must_use]
    pub fn nonces(&self) -> bool {
        self.nonces
    }

    /// Sets whether increments and appends carry nonces, and are sent again if their answers are lost
    /// ([`Table::increment`](crate::Table::increment)). The default is on. Switch it off for servers
    /// that ignore nonces (`hbase.regionserver.nonces.enabled` is `false` there): they would count
    /// twice.
    #[must_use]
    pub fn with_nonces(mut self, nonces: bool) -> Self {
        self.nonces = nonces;
        self
    }

    /// Returns the compression of cells between client and region servers.
    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Sets the compression of cells between client and region servers. The default is `None`.
    ///
    /// It saves bytes of a slow network, and costs time on both sides. Cells in requests are
    /// compressed if they follow the message, as those of bulk writes do. The cells of an answer are
    /// always compressed, and [`max_frame_size`](Self::max_frame_size) limits their size before and after
    /// decompression. If a server cannot use the compression, calls fail with
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig).
    #[must_use]
    pub fn with_compression(mut self, compression: Option<Compression>) -> Self {
        self.compression = compression;
        self
    }

    /// Returns the priority of calls to tables of users.
    #[must_use]
    pub fn call_priority(&self) -> Option<u32> {
        self.call_priority
    }

    /// Sets the priority of calls to region servers for tables of users. The default is `None`, which
    /// servers treat as 0. Calls for system tables always have priority 200.
    ///
    /// Servers believe it. By default they execute calls with a priority above 10 by handlers of
    /// their own (`hbase.regionserver.metahandler.count`, 20), on which the calls for `hbase:meta` also
    /// depend: use it for few and short calls. A handle can have a [priority of its
    /// own](crate::Table::with_call_priority).
    #[must_use]
    pub fn with_call_priority(mut self, priority: Option<u32>) -> Self {
        self.call_priority = priority;
        self
    }

    /// Returns the attributes of connections, each with its name and value.
    #[must_use]
    pub fn connection_attributes(&self) -> &[(String, Bytes)] {
        &self.connection_attributes
    }

    /// Sets an attribute of all connections to masters and region servers. Replaces an attribute of
    /// the same name.
    ///
    /// Coprocessors and the slow log of servers read them, from HBase 2.6 on; earlier releases ignore
    /// them. For attributes of single calls, use
    /// [`Table::with_request_attribute`](crate::Table::with_request_attribute).
    #[must_use]
    pub fn with_connection_attribute(mut self, name: impl Into<String>, value: impl IntoBytes) -> Self {
        set_attribute(&mut self.connection_attributes, name.into(), value.into_bytes());
        self
    }

    /// Returns the maximum number of connections to a region server.
    #[must_use]
    pub fn connections_per_server(&self) -> u8 {
        self.connections_per_server
    }

    /// Sets the maximum number of connections to a region server, at least 1, which is the default. A
    /// table with families that expire has as many of its own.
    ///
    /// A call takes the connection with the fewest calls in flight. If each has some, it takes one of
    /// them, and a further connection is opened for later calls. One connection carries any number
    /// of calls at the same time, so more help only where the system or the network limits
    /// each connection.
    #[must_use]
    pub fn with_connections_per_server(mut self, connections: u8) -> Self {
        self.connections_per_server = connections.max(1);
        self
    }

    /// Returns how long a connection without calls stays open.
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// Sets how long a connection without calls stays open, at least 10 seconds. The default is 2
    /// minutes, as in HBase. The next call opens another one.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = bounded(timeout).max(Duration::from_secs(10));
        self
    }
}

/// The folder of HBase's configuration files.
const CONF_DIR: &str = "HBASE_CONF_DIR";
