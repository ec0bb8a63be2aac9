use std::time::{Duration, SystemTime};

use hbase_txn::client::{Config, Connection, ConnectionBuilder, Environment, SystemEnvironment};
use tokio::time::Instant;

#[derive(Debug)]
struct Paused(Instant);

impl Environment for Paused {
    fn since_boot(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_clock(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + self.0.elapsed()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }
}

/// Call it in a test with `#[tokio::test(start_paused = true)]`.
fn paused(config: Config) -> ConnectionBuilder {
    Connection::builder(config).environment(Paused(Instant::now()))
}

#[test]
fn clock_is_that_of_the_runtime() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let builder = paused(hbase.config()).connector(hbase.connector());
        let connection = builder.connect().await?;
        let environment = connection.environment();
        let before = environment.since_boot();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(environment.since_boot() - before, Duration::from_secs(3_600));
        Ok(())
    });
}
