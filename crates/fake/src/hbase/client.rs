//! What `hbase-client` connects with.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
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

    fn is_transparent(&self) -> bool {
        true
    }
}

/// Clocks that follow tokio's clock and agree with those of a [`FakeHBase`], and random numbers
/// that follow from its seed and differ from those of its other environments.
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

    /// Returns the clocks and the random numbers of one client of this cluster. Call it for each
    /// client: clients with equal random numbers draw equal nonces, tokens and ids. The numbers follow
    /// from the seed of the cluster and the number of environments before.
    #[must_use]
    pub fn environment(&self) -> FakeEnvironment {
        let number = self.environments.fetch_add(1, Ordering::Relaxed);
        let seed = self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        FakeEnvironment {
            start: Instant::now(),
            wall: self.network.wall(),
            rng: Arc::new(Mutex::new(Rng::with_seed(seed))),
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

#[cfg(test)]
mod tests {
    use hbase_client::{Get, Increment};

    use super::*;

    const INCREMENTS: i64 = 3;

    fn random(environment: &FakeEnvironment) -> [u8; 16] {
        let mut bytes = [0; 16];
        environment.fill_random(&mut bytes);
        bytes
    }

    #[test]
    fn environments_differ_and_follow_from_the_seed() {
        let draw = |seed| {
            let mut drawn = Vec::new();
            FakeHBase::run(async |_| {
                let hbase = FakeHBase::builder().seed(seed).build();
                drawn.extend((0..4).map(|_| random(&hbase.environment())));
                Ok(())
            });
            drawn
        };
        let mut one = draw(7);
        assert_eq!(one, draw(7));
        one.extend(draw(8));
        one.sort_unstable();
        one.dedup();
        assert_eq!(one.len(), 8);
    }

    async fn assert_increments_of_two_clients_count(hbase: &FakeHBase) -> hbase_client::Result<()> {
        hbase.create_table("orders", &["f"], &[]);
        for _ in 0..2 {
            let orders = hbase.connect().await?.table("orders")?;
            for _ in 0..INCREMENTS {
                orders.increment(Increment::new("a").column("f", "n", 1)).await?;
            }
        }
        let orders = hbase.connect().await?.table("orders")?;
        let row = orders.get(Get::new("a")).await?.expect("a row");
        assert_eq!(row.get::<i64>("f", "n")?, Some(2 * INCREMENTS));
        Ok(())
    }

    #[test]
    fn increments_of_two_clients_count_twice() {
        FakeHBase::run(async |hbase| Ok(assert_increments_of_two_clients_count(hbase).await?));
    }

    #[tokio::test]
    async fn increments_of_two_clients_count_twice_over_sockets() {
        let hbase = FakeHBase::builder().listen().await.unwrap();
        assert_increments_of_two_clients_count(&hbase).await.unwrap();
    }
}
