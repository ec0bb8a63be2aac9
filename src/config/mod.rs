//! Settings, and their names in `hbase-site.xml`.
//!
//! Every time in here is bounded by default; nothing waits for ever. [`Config`] lists the defaults.

mod address;
mod hbase_site;

use std::time::Duration;

pub use address::{ClusterAddress, HostPort};
#[cfg(feature = "local")]
pub(crate) use hbase_site::properties as hbase_site_properties;

use crate::error::{Error, ErrorKind, Result};

/// How a client finds its cluster, and how long it waits.
///
/// Built from a connection URI ([`Config::from_uri`]) or from an `hbase-site.xml`
/// ([`Config::from_hbase_site`]), and changed by the `with_…` methods.
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
/// | [scan batch](Self::with_scan_batch_bytes) | 2 MiB | `hbase.client.scanner.max.result.size` |
/// | [largest cell](Self::with_max_cell_size) | 10 MiB | `hbase.client.keyvalue.maxsize` |
/// | [user](Self::with_user) | `HADOOP_USER_NAME`, else the login name | |
///
/// Times are from a millisecond to a year; what is said beyond is taken for the nearest of these. HBase's own operation
/// timeout is 20 minutes; ours is one minute, because a program that hangs for 20 is
/// broken. There is no number of retries: the operation timeout bounds them.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::Config;
///
/// let config = Config::from_uri("hbase+rpc://127.0.0.1:16000").unwrap()
///     .with_operation_timeout(Duration::from_secs(10));
/// assert_eq!(config.operation_timeout(), Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    address: ClusterAddress,
    user: String,
    operation_timeout: Duration,
    read_timeout: Duration,
    write_timeout: Duration,
    connect_timeout: Duration,
    registry_timeout: Duration,
    pause: Duration,
    overloaded_pause: Option<Duration>,
    scan_batch_bytes: u64,
    max_cell_size: usize,
    max_frame_size: usize,
}

impl Config {
    /// The settings for a cluster at this address, all others as by default.
    #[must_use]
    pub fn new(address: ClusterAddress) -> Self {
        Self {
            address,
            user: login_name(),
            operation_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            registry_timeout: Duration::from_secs(8),
            pause: Duration::from_millis(100),
            overloaded_pause: None,
            scan_batch_bytes: 2 << 20,
            max_cell_size: 10 << 20,
            max_frame_size: 256 << 20,
        }
    }

    /// The settings for the cluster of a connection URI: `hbase+zk://host:port,host:port/znode`, or
    /// `hbase+rpc://host:port,host:port`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] for what is no such URI, or one that needs a feature that was left out.
    pub fn from_uri(uri: &str) -> Result<Self> {
        Ok(Self::new(uri.parse()?))
    }

    /// The settings of an `hbase-site.xml`, given as text. Keys that this client does not know are left alone.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] for XML that can't be read and values that can't be understood;
    /// [`ErrorKind::AuthenticationRequired`] for a cluster that asks for Kerberos.
    pub fn from_hbase_site(xml: &str) -> Result<Self> {
        hbase_site::parse(xml)
    }

    /// Where the cluster is found.
    #[must_use]
    pub fn address(&self) -> &ClusterAddress {
        &self.address
    }

    /// Changes where the cluster is found, and keeps the rest.
    #[must_use]
    pub fn with_address(mut self, address: ClusterAddress) -> Self {
        self.address = address;
        self
    }

    /// The user that servers are told (SIMPLE authentication: they believe it).
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Changes the user that servers are told.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// How long a call of this library may take, all its attempts and look-ups together.
    #[must_use]
    pub fn operation_timeout(&self) -> Duration {
        self.operation_timeout
    }

    /// Changes how long a call of this library may take.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = bounded(timeout);
        self
    }

    /// How long one attempt of a read may take before it is tried again.
    #[must_use]
    pub fn read_timeout(&self) -> Duration {
        self.read_timeout
    }

    /// Changes how long one attempt of a read may take.
    #[must_use]
    pub fn with_read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = bounded(timeout);
        self
    }

    /// How long one attempt of a write may take. A write that gets no answer is not sent again (it may have
    /// been applied), so there is nothing to win by a time shorter than the operation's.
    #[must_use]
    pub fn write_timeout(&self) -> Duration {
        self.write_timeout
    }

    /// Changes how long one attempt of a write may take.
    #[must_use]
    pub fn with_write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = bounded(timeout);
        self
    }

    /// How long a connection may take to be made, name look-up included.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Changes how long a connection may take to be made.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = bounded(timeout);
        self
    }

    /// How long ZooKeeper, or all the RPC registry's servers together, may take to say where the cluster is.
    #[must_use]
    pub fn registry_timeout(&self) -> Duration {
        self.registry_timeout
    }

    /// Changes how long the registry may take.
    #[must_use]
    pub fn with_registry_timeout(mut self, timeout: Duration) -> Self {
        self.registry_timeout = bounded(timeout);
        self
    }

    /// The base of the pauses between attempts; HBase's multipliers are 1, 2, 3, 5, 10, 20, 40, 100, …
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Changes the base of the pauses between attempts.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = bounded(pause);
        self
    }

    /// The base of the pauses when a server says that it is overloaded; never less than [`pause`](Self::pause).
    #[must_use]
    pub fn overloaded_pause(&self) -> Duration {
        self.overloaded_pause
            .map_or(self.pause, |pause| pause.max(self.pause))
    }

    /// Changes the base of the pauses when a server says that it is overloaded.
    #[must_use]
    pub fn with_overloaded_pause(mut self, pause: Duration) -> Self {
        self.overloaded_pause = Some(bounded(pause));
        self
    }

    /// About how many bytes a scan asks a server for at a time.
    #[must_use]
    pub fn scan_batch_bytes(&self) -> u64 {
        self.scan_batch_bytes
    }

    /// Changes about how many bytes a scan asks for at a time; at least 1.
    #[must_use]
    pub fn with_scan_batch_bytes(mut self, bytes: u64) -> Self {
        self.scan_batch_bytes = bytes.max(1);
        self
    }

    /// The largest cell, key and value together, that is sent.
    #[must_use]
    pub fn max_cell_size(&self) -> usize {
        self.max_cell_size
    }

    /// Changes the largest cell that is sent. The server has a limit of its own,
    /// `hbase.server.keyvalue.maxsize`.
    #[must_use]
    pub fn with_max_cell_size(mut self, bytes: usize) -> Self {
        self.max_cell_size = bytes;
        self
    }

    /// The largest request or answer, in bytes; 256 MiB, the server's own limit for requests.
    #[must_use]
    pub fn max_frame_size(&self) -> usize {
        self.max_frame_size
    }

    /// Changes the largest request or answer.
    #[must_use]
    pub fn with_max_frame_size(mut self, bytes: usize) -> Self {
        self.max_frame_size = bytes;
        self
    }
}

/// No time is zero, and none so long that it could not be added to the clock.
pub(crate) fn bounded(time: Duration) -> Duration {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    time.clamp(Duration::from_millis(1), YEAR)
}

fn invalid(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, what)
}

/// What this user is called on this machine.
pub(crate) fn login_name() -> String {
    ["HADOOP_USER_NAME", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_else(|| "hbase-txn".into())
}
