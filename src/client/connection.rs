//! A client of one cluster.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Admin, Table};
use crate::{
    cluster::Cluster,
    config::Config,
    error::Result,
    model::{RegionInfo, TableName},
    rpc::{Connector, TcpConnector},
};

/// A client of one cluster: its connections, and what it knows of where rows live.
///
/// Cheap to clone; clones share everything. Make one per program and cluster. Connections are made when they are
/// first needed, one per server, and carry any number of calls at a time.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> hbase_txn::Result<()> {
/// use hbase_txn::{Connection, Get};
///
/// let connection = Connection::connect("hbase+zk://127.0.0.1:2181/hbase").await?;
/// let orders = connection.table("orders".parse()?);
/// let row = orders.get(Get::new("xxxabc")).await?;
/// connection.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Connection {
    pub(super) cluster: Arc<Cluster>,
}

/// How a [`Connection`] is made, when the defaults are not enough.
#[derive(Debug)]
#[must_use = "a builder does nothing until connect is called"]
pub struct ConnectionBuilder {
    config: Config,
    connector: Arc<dyn Connector>,
}

/// How long [`Connection::close`] waits for calls in flight.
const DRAIN: Duration = Duration::from_secs(10);

impl Connection {
    /// Connects to the cluster of a connection URI, with the settings of [`Config`] as they are by default.
    ///
    /// # Errors
    ///
    /// As [`ConnectionBuilder::connect`]; and [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for what is no
    /// connection URI.
    pub async fn connect(uri: &str) -> Result<Self> {
        Self::builder(Config::from_uri(uri)?).connect().await
    }

    /// A builder, for other settings or another way to dial.
    pub fn builder(config: Config) -> ConnectionBuilder {
        ConnectionBuilder {
            config,
            connector: Arc::new(TcpConnector),
        }
    }

    /// A table of the cluster. Nothing is sent; whether the table exists shows in the first call.
    #[must_use]
    pub fn table(&self, name: TableName) -> Table {
        Table::new(self.clone(), name)
    }

    /// The administration of the cluster's tables.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// The settings of this client.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.cluster.config
    }

    /// Waits for the calls in flight (for 10 seconds at most) and ends all connections. Calls made from now on,
    /// on any clone, fail with [`Closed`](crate::ErrorKind::Closed).
    ///
    /// A client that is dropped instead ends its connections at once.
    pub async fn close(&self) {
        self.cluster.close(Instant::now() + DRAIN).await;
    }

    /// A table's regions, each with its current opening.
    pub(crate) async fn table_openings(
        &self,
        table: &TableName,
        deadline: Instant,
    ) -> Result<Vec<(RegionInfo, i64)>> {
        let regions = self.cluster.regions_of(table, deadline).await?;
        Ok(regions
            .into_iter()
            .map(|found| (found.region, found.open_sequence))
            .collect())
    }
}

impl ConnectionBuilder {
    /// Dials servers in another way; see [`Connector`].
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Arc::new(connector);
        self
    }

    /// Connects: finds out where `hbase:meta` is, which proves that the address leads to a cluster that is up.
    ///
    /// # Errors
    ///
    /// - [`Unreachable`](crate::ErrorKind::Unreachable) when nobody answers within the registry timeout;
    /// - [`Protocol`](crate::ErrorKind::Protocol) when something else than HBase answers;
    /// - [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a znode that does not exist;
    /// - [`AuthenticationRequired`](crate::ErrorKind::AuthenticationRequired) when the cluster wants more than SIMPLE.
    pub async fn connect(self) -> Result<Connection> {
        let deadline = Instant::now() + self.config.operation_timeout();
        let cluster = Arc::new(Cluster::new(self.config, self.connector));
        cluster.reach(deadline).await?;
        Ok(Connection { cluster })
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.config().address().to_string())
            .finish_non_exhaustive()
    }
}
