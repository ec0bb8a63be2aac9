//! Latches whose clients lose answers, are dropped, or lose their gateway: a count is applied, not
//! applied, or reported as unknown.

use std::time::{Duration, Instant};

use hbase_local::LocalCluster;
use hbase_txn::{
    ClientErrorKind, ErrorKind, Level, Result,
    client::Connection,
    latch::{Latch, LatchState},
    thrift::{ThriftConnection, ThriftLatch},
};

use super::{GATEWAY, gateway, latches_of, port, scale};
use crate::support::{
    connect, eventually,
    forwarder::Forwarder,
    latch_rows::{latch_manager, latch_table},
    standalone,
    table::TestTable,
};

const HOUR: Duration = Duration::from_secs(3_600);
const LEVELS: [Level; 2] = [Level::Dc, Level::Xdc];
const CLIENT: &str = "svc";
const ALL: u64 = 1_000_000;

/// The reported results of a client's counts.
#[derive(Debug, Default)]
struct Told {
    made: u64,
    unknown: u64,
    not_made: u64,
}

impl Told {
    fn of(&mut self, counted: Result<impl Sized>) {
        match counted {
            Ok(_) => self.made += 1,
            Err(error) if error.is_outcome_unknown() => self.unknown += 1,
            Err(error) => {
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::Client(ClientErrorKind::DeadlineExceeded)
                            | ErrorKind::Client(ClientErrorKind::Unreachable)
                            | ErrorKind::Client(ClientErrorKind::ConnectionLost)
                            | ErrorKind::Conflict
                    ),
                    "{error:?}"
                );
                self.not_made += 1;
            }
        }
    }

    /// Fails if the latch's count contradicts the reported results.
    fn check(&self, left: u64) {
        let most = ALL - self.made;
        println!("{self:?}, {left} left");
        assert!(
            (most - self.unknown..=most).contains(&left),
            "{left} left; {self:?}"
        );
    }
}

async fn native(connection: &Connection, table: &TestTable, level: Level, id: &str) -> Latch {
    let latches = latch_manager(connection, &table.name, CLIENT, "fra").await;
    latches.latch(level, id).unwrap()
}

/// Returns the final count, once no request is in flight.
async fn at_rest(native: &Latch) -> u64 {
    // The next change writes the count that an earlier client has noted.
    native.count_up(1).await.unwrap();
    native.count_down(1).await.unwrap().left
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn a_count_whose_answer_is_lost_is_found_out_or_told_as_unknown() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = latch_table(&connection, "thrift-lost", 1, true).await;
    let forwarder = Forwarder::to(port()).await;
    let impatient = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port))
        .operation_timeout(Duration::from_millis(400))
        .connect()
        .await
        .unwrap();
    for level in LEVELS {
        let id = format!("lost-{level}");
        let theirs = native(&connection, &table, level, &id).await;
        theirs.init(ALL, HOUR).await.unwrap();
        let ours = latches_of(&gateway().await, &table.name, CLIENT, "fra").await;
        let steady = ours.latch(level, &id).unwrap();
        let asking = eventually("the gateway is heard", async || {
            hbase_txn::thrift::ThriftLatchManagerOptions::new(CLIENT, "fra")
                .open(&impatient, table.name.clone())
                .await
                .ok()
        })
        .await;
        let ours = asking.latch(level, &id).unwrap();
        let mut told = Told::default();
        for round in 0..16 * scale() {
            let counting = tokio::spawn({
                let ours = ours.clone();
                async move { ours.count_down(1).await }
            });
            // At any point among its calls.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..40))).await;
            forwarder.hold(true);
            if round % 2 == 0 {
                // The stopped count does not block others, which write the count that it has noted.
                steady.count_down(1).await.unwrap();
                theirs.count_down(1).await.unwrap();
                told.made += 2;
            }
            let counted = counting.await.unwrap();
            forwarder.hold(false);
            told.of(counted);
        }
        told.check(at_rest(&theirs).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn counts_that_are_dropped_come_to_their_end() {
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    let table = latch_table(&connection, "thrift-dropped", 1, true).await;
    let latches = latches_of(&gateway, &table.name, CLIENT, "fra").await;
    for level in LEVELS {
        let id = format!("dropped-{level}");
        let ours = latches.latch(level, &id).unwrap();
        ours.init(ALL, HOUR).await.unwrap();
        let mut told = Told::default();
        for round in 0..20 * u64::from(scale()) {
            let counting = tokio::spawn({
                let ours = ours.clone();
                async move { ours.count_down(1).await }
            });
            tokio::time::sleep(Duration::from_micros(700 * (round % 20))).await;
            counting.abort();
            match counting.await {
                Ok(counted) => told.of(counted),
                Err(_) => told.unknown += 1,
            }
        }
        // The dropped tasks have left the process's queue.
        assert!(ours.count_down(1).await.unwrap().counted);
        told.made += 1;
        let theirs = native(&connection, &table, level, &id).await;
        told.check(at_rest(&theirs).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn a_gateway_that_is_killed_takes_no_count_along() {
    let _alone = GATEWAY.write().await;
    let connection = connect().await;
    let table = latch_table(&connection, "thrift-killed", 1, true).await;
    let cluster = LocalCluster::new(&standalone().status.name).unwrap();
    let gateway = gateway().await;
    let latches = latches_of(&gateway, &table.name, CLIENT, "fra").await;
    let id = "killed";
    let ours: ThriftLatch = latches.latch(Level::Dc, id).unwrap();
    let theirs = native(&connection, &table, Level::Dc, id).await;
    ours.init(ALL, HOUR).await.unwrap();
    let mut told = Told::default();
    for _ in 0..scale().min(4) {
        let visitor = ours.clone();
        let until = Instant::now() + Duration::from_secs(2);
        let counting = tokio::spawn(async move {
            let mut told = Told::default();
            while Instant::now() < until {
                told.of(visitor.count_down(1).await);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            told
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.kill_thrift().await.unwrap();
        let waits = ours.clone();
        let waiting = tokio::spawn(async move { waits.wait(Duration::from_millis(500)).await });
        let counted = counting.await.unwrap();
        // The count in flight is retried until its timeout.
        assert!(
            counted.made > 0 && counted.not_made + counted.unknown > 0,
            "{counted:?}"
        );
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error:?}");
        told = Told {
            made: told.made + counted.made,
            unknown: told.unknown + counted.unknown,
            not_made: 0,
        };
        cluster.start_thrift().await.unwrap();
        // Works again, on connections that died.
        assert_eq!(ours.show().await.unwrap().state, LatchState::Open);
        ours.count_down(1).await.unwrap();
        told.made += 1;
        told.check(at_rest(&theirs).await);
    }
}
