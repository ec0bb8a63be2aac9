//! A client of one cluster.

use std::{fmt, sync::Arc, time::Duration};

use hbase_security::checks_names;
use tokio::time::{Instant, timeout_at};

use super::{
    change_log::ChangeLog,
    dispatch::lanes::{Lanes, Shared},
    recent_deletes::RecentDeletes,
    server_clocks::ServerClocks,
};
use crate::{
    cluster::Cluster,
    config::{ClusterAddress, Config},
    environment::{Environment, SystemEnvironment},
    error::Result,
    model::{RegionInfo, TableName},
    observe::{SpanOptions, client_metrics},
    rpc::{Connector, TcpConnector},
};

/// A client of one cluster: its connections, and its cache of region locations.
///
/// Cheap to clone; clones share everything. Create one per program and cluster. Connections are
/// opened when they are first needed, one per server, and carry any number of concurrent calls.
///
/// # Example
///
/// ```
/// use hbase_client::{Connection, Get};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let hbase = hbase_fake::FakeHBase::builder().listen().await?;
/// # hbase.create_table("orders", &["f"], &[]);
/// # let uri = hbase.uri();
/// let connection = Connection::connect(&uri).await?; // for example hbase+zk://127.0.0.1:2181/hbase
/// let orders = connection.table("orders")?;
/// assert!(orders.get(Get::new("xxxabc")).await?.is_none());
/// connection.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Connection {
    pub(super) shared: Arc<Shared>,
}

/// A builder of a [`Connection`] with settings other than the defaults.
#[derive(Debug)]
#[must_use = "a builder does nothing until connect is called"]
pub struct ConnectionBuilder {
    config: Config,
    connector: Arc<dyn Connector>,
    environment: Arc<dyn Environment>,
    span_options: SpanOptions,
    change_log: Option<Arc<dyn ChangeLog>>,
}

/// How long [`Connection::close`] waits for calls in flight.
const DRAIN: Duration = Duration::from_secs(10);

impl Connection {
    pub(super) fn new(cluster: Cluster, change_log: Option<Arc<dyn ChangeLog>>) -> Self {
        Self {
            shared: Arc::new(Shared {
                cluster,
                lanes: Lanes::default(),
                recent_deletes: RecentDeletes::default(),
                server_clocks: ServerClocks::default(),
                change_log,
            }),
        }
    }

    /// Connects to the cluster of a connection URI, with the default settings of [`Config`].
    ///
    /// The connection belongs to the current tokio runtime: its sockets and all background work are there.
    /// Calls may be made in any runtime while that one is driven. If it is not driven, they fail at their
    /// deadlines; after it has ended, they fail at once with [`Closed`](crate::ErrorKind::Closed).
    ///
    /// # Errors
    ///
    /// Returns an error as [`ConnectionBuilder::connect`] does, and
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the text is not a connection URI.
    pub async fn connect(uri: &str) -> Result<Self> {
        Self::builder(Config::from_uri(uri)?).connect().await
    }

    /// Creates a builder, for other settings or another transport.
    pub fn builder(config: Config) -> ConnectionBuilder {
        ConnectionBuilder {
            config,
            connector: Arc::new(TcpConnector),
            environment: Arc::new(SystemEnvironment),
            span_options: SpanOptions::default(),
            change_log: None,
        }
    }

    /// Returns the settings of this client.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.cluster.config
    }

    /// Returns the clocks and the random numbers of this client.
    #[must_use]
    pub fn environment(&self) -> &Arc<dyn Environment> {
        &self.shared.cluster.environment
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    pub(crate) fn change_log(&self) -> Option<&dyn ChangeLog> {
        self.shared.change_log.as_deref()
    }

    /// Returns a nonce. Never 0, which means no nonce.
    pub(crate) fn nonce(&self) -> u64 {
        let mut bytes = [0; 8];
        self.environment().fill_random(&mut bytes);
        u64::from_ne_bytes(bytes).max(1)
    }

    /// Waits for the calls in flight (for 10 seconds at most) and closes all connections. Later
    /// calls, on any clone, fail with [`Closed`](crate::ErrorKind::Closed).
    ///
    /// A client that is dropped instead closes its connections at once.
    pub async fn close(&self) {
        let deadline = Instant::now() + DRAIN;
        // Calls that remain are those in flight, which the connections wait for or end.
        let _ = timeout_at(deadline, self.shared.lanes.close()).await;
        self.shared.cluster.close(deadline).await;
    }

    /// Returns a table's regions, each with the sequence number of its opening.
    pub(crate) async fn table_openings(
        &self,
        table: &TableName,
        deadline: Instant,
    ) -> Result<Vec<(RegionInfo, i64)>> {
        let regions = self.shared.cluster.regions_of(table, deadline).await?;
        Ok(regions
            .into_iter()
            .map(|found| (found.region, found.open_sequence))
            .collect())
    }
}

impl ConnectionBuilder {
    /// Sets how servers are dialled; see [`Connector`].
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Arc::new(connector);
        self
    }

    /// Sets the clocks and the random numbers of the client; see [`Environment`].
    pub fn environment(mut self, environment: impl Environment) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// Sets a log of what the administration (the crate `hbase-admin`) changes. Changes of descriptors and
    /// deletes of tables then take a call more, for the table as it was.
    pub fn change_log(mut self, log: impl ChangeLog) -> Self {
        self.change_log = Some(Arc::new(log));
        self
    }

    /// Sets a function that returns the headers by which servers continue the trace of the current
    /// span: `traceparent` and `tracestate` of the W3C's trace context. It is called within the span
    /// of the operation, before each attempt. The headers are part of each request of the attempt. A
    /// call that several operations share has those of the first one.
    ///
    /// [docs/observing.md](https://docs.rs/crate/hbase-txn/latest/source/docs/observing.md) shows it
    /// with the crate `tracing-opentelemetry`.
    #[cfg(feature = "spans")]
    pub fn trace_headers(
        mut self,
        headers: impl Fn() -> std::collections::HashMap<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.span_options.headers = Some(Arc::new(headers));
        self
    }

    /// Sets whether spans contain the row of the operation, off by default.
    #[cfg(feature = "spans")]
    pub fn rows_in_spans(mut self, rows: bool) -> Self {
        self.span_options.rows = rows;
        self
    }

    /// Connects: locates `hbase:meta`, which proves that the address leads to a running cluster. The
    /// connection belongs to the current runtime; see [`Connection::connect`].
    ///
    /// # Errors
    ///
    /// Returns an error if
    /// - no server answers within the registry timeout:
    ///   [`Unreachable`](crate::ErrorKind::Unreachable);
    /// - the server is not HBase: [`Protocol`](crate::ErrorKind::Protocol);
    /// - the znode does not exist: [`InvalidConfig`](crate::ErrorKind::InvalidConfig);
    /// - the cluster requires more than SIMPLE authentication:
    ///   [`AuthenticationRequired`](crate::ErrorKind::AuthenticationRequired);
    /// - settings require a protection or a user that connections would not have:
    ///   [`InvalidConfig`](crate::ErrorKind::InvalidConfig).
    pub async fn connect(self) -> Result<Connection> {
        self.config.check_security()?;
        if takes_names_from_plain_zookeeper(&self.config) {
            tracing::warn!(
                "TLS: the names of servers come from a ZooKeeper without TLS (Config::with_zookeeper_tls)"
            );
        }
        let deadline = Instant::now() + self.config.operation_timeout();
        client_metrics::describe();
        let mut cluster = Cluster::new(self.config, self.connector, self.environment);
        cluster.span_options = self.span_options;
        cluster.choose_token(deadline).await?;
        cluster.reach(deadline).await?;
        cluster.keep_learning();
        Ok(Connection::new(cluster, self.change_log))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.config().address().to_string())
            .finish_non_exhaustive()
    }
}

/// Returns whether certificates of servers are compared with names that the network can alter,
/// because ZooKeeper reports them without TLS.
fn takes_names_from_plain_zookeeper(config: &Config) -> bool {
    config.zookeeper_tls().is_none()
        && matches!(config.address(), ClusterAddress::ZooKeeper { .. })
        && config.tls().is_some_and(checks_names)
}

#[cfg(all(test, feature = "zookeeper"))]
mod tests {
    use hbase_security::TlsOptions;

    use super::*;

    #[test]
    fn names_are_unprotected_if_zookeeper_has_no_tls_and_certificates_are_checked() {
        let tls = || Some(TlsOptions::new("/t.jks", ""));
        let unchecked = TlsOptions::new("/t.jks", "").verify_hostname(false);
        let zookeeper = Config::from_uri("hbase+zk://z").unwrap();
        let masters = Config::from_uri("hbase+rpc://m").unwrap();
        for (config, expected) in [
            (zookeeper.clone().with_tls(tls()), true),
            (zookeeper.clone().with_tls(tls()).with_zookeeper_tls(tls()), false),
            (zookeeper.clone().with_tls(Some(unchecked)), false),
            (zookeeper, false),
            (masters.with_tls(tls()), false),
        ] {
            assert_eq!(takes_names_from_plain_zookeeper(&config), expected, "{config:?}");
        }
    }
}
