//! What `hbase-client` connects with.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fastrand::Rng;
use futures::future::BoxFuture;
use hbase_client::{Config, Connection, Connector, DialTarget, Environment, Io};
use tokio::time::Instant;

use super::FakeHBase;
use crate::network::Dialer;

/// Dials the servers of a [`FakeHBase`].
#[derive(Clone, Debug)]
pub struct FakeConnector {
    dialer: Dialer,
}

impl Connector for FakeConnector {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (dialer, address) = (self.dialer.clone(), target.address.clone());
        Box::pin(async move {
            let stream = dialer.dial(&address.host, address.port).await?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }
}

/// Clocks that follow tokio's clock and agree with those of a [`FakeHBase`], and random numbers
/// from its seed.
#[derive(Clone)]
pub struct FakeEnvironment {
    start: Instant,
    /// The time at the start, in milliseconds since 1970.
    wall: u64,
    rng: Arc<Mutex<Rng>>,
}

impl FakeEnvironment {
    /// Returns these clocks, of which the wall clock is ahead by so many milliseconds, or behind if
    /// they are negative.
    #[must_use]
    pub fn ahead(mut self, milliseconds: i64) -> Self {
        self.wall = self.wall.saturating_add_signed(milliseconds);
        self
    }

    /// Returns these clocks with random numbers from another seed. Each client should have a seed
    /// of its own, so that its numbers do not depend on the calls of others.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self {
            rng: Arc::new(Mutex::new(Rng::with_seed(seed))),
            ..self
        }
    }
}

impl Environment for FakeEnvironment {
    fn since_boot(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall_clock(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.wall) + self.start.elapsed()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.rng
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill(bytes);
    }
}

impl fmt::Debug for FakeEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeEnvironment")
            .field("wall", &self.wall)
            .finish_non_exhaustive()
    }
}

impl FakeHBase {
    /// Returns the settings of a client of this cluster.
    #[must_use]
    pub fn config(&self) -> Config {
        Config::from_uri(&self.uri()).unwrap_or_else(|error| panic!("{}: {error}", self.uri()))
    }

    /// Returns the transport of a client of this cluster. It does not keep the cluster.
    #[must_use]
    pub fn connector(&self) -> FakeConnector {
        FakeConnector {
            dialer: self.network.dialer(),
        }
    }

    /// Returns the clocks and the random numbers of a client of this cluster.
    #[must_use]
    pub fn environment(&self) -> FakeEnvironment {
        FakeEnvironment {
            start: Instant::now(),
            wall: self.network.wall(),
            rng: Arc::new(Mutex::new(Rng::with_seed(self.seed))),
        }
    }

    /// Connects a client to this cluster.
    ///
    /// # Errors
    ///
    /// Returns an error as [`ConnectionBuilder::connect`](hbase_client::ConnectionBuilder::connect)
    /// does.
    pub async fn connect(&self) -> hbase_client::Result<Connection> {
        Connection::builder(self.config())
            .connector(self.connector())
            .environment(self.environment())
            .connect()
            .await
    }
}
