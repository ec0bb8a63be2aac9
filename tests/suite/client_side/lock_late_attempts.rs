//! Attempts that take a lock long after their first call: the lease counts from that call for the
//! client, and a hold that is over when its answer arrives is released.
//!
//! In virtual time, because a real server cannot be slow at a chosen step.

use std::time::Duration;

use hbase_fake::{Call, FakeHBase};
use hbase_txn::{
    Level,
    client::{Connection, Delete, Scan},
    coordination::{Election, Leadership, ReadWriteLock, Semaphore},
    lock::{LockGuard, LockManager, LockManagerOptions, LockTableOptions},
};
use rstest::rstest;
use tokio::time::{Instant, sleep};

type TestResult = Result<(), Box<dyn std::error::Error>>;

const TABLE: &str = "locks";
const LEASE: Duration = Duration::from_secs(2);
/// How late the scan for delete markers is, so that most of the lease has passed then.
const SLOW: Duration = Duration::from_millis(1_500);

async fn connect(hbase: &FakeHBase, seed: u64) -> hbase_txn::Result<Connection> {
    let environment = hbase.environment().seed(seed);
    let connection = Connection::builder(hbase.config()).connector(hbase.connector());
    Ok(connection.environment(environment).connect().await?)
}

async fn open(hbase: &FakeHBase, seed: u64, options: LockTableOptions) -> hbase_txn::Result<LockManager> {
    let locks = LockManagerOptions::new("billing")
        .farm("fra")
        .holder(format!("client-{seed}"));
    let connection = connect(hbase, seed).await?;
    locks.open_or_create(&connection, options).await
}

fn one_region() -> hbase_txn::Result<LockTableOptions> {
    Ok(LockTableOptions::new(TABLE)?.regions(1))
}

/// Something of which one process has one, by `LEASE`.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Lock,
    Leader,
    Writer,
    Permit,
}

impl Kind {
    /// Tries once. Returns the guard.
    async fn try_acquire(self, locks: &LockManager, lease: Duration) -> hbase_txn::Result<Option<LockGuard>> {
        match self {
            Self::Lock => locks.lock(Level::Dc, "x")?.ttl(lease).try_acquire().await,
            Self::Leader => {
                let campaign = Election::new(locks, Level::Dc, "x")?.campaign().ttl(lease);
                Ok(campaign.try_lead().await?.map(Leadership::into_guard))
            }
            Self::Writer => {
                let write = ReadWriteLock::new(locks, Level::Dc, "x")?.write();
                write.ttl(lease).try_acquire().await
            }
            Self::Permit => {
                let semaphore = Semaphore::create(locks, Level::Dc, "x", 1).await?;
                semaphore.permit().ttl(lease).try_acquire().await
            }
        }
    }
}

/// Polls as another client while the first one counts on its hold.
async fn nobody_else_gets_it(kind: Kind, guard: &LockGuard, other: &LockManager) -> TestResult {
    let end = Instant::now() + LEASE;
    while guard.is_held() && Instant::now() < end {
        let second = kind.try_acquire(other, LEASE).await?;
        assert!(
            second.is_none() || !guard.is_held(),
            "{kind:?}: a second client holds it, and the first one counts on {:?}",
            guard.remaining()
        );
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// A Java client's release deletes the whole row, in the millisecond of our attempt.
#[rstest]
fn lease_counts_from_an_attempt_that_a_java_release_hid(#[values(true, false)] companions: bool) {
    FakeHBase::run(async |hbase| {
        let options = if companions {
            one_region()?
        } else {
            one_region()?.without_java_clients()
        };
        let first = open(hbase, 1, options.clone()).await?;
        let second = open(hbase, 2, options).await?;
        assert!(
            first
                .lock(Level::Dc, "x")?
                .acquire()
                .await?
                .release()
                .await?
                .is_released()
        );
        sleep(Duration::from_secs(60)).await;
        let rows = connect(hbase, 3).await?.table(TABLE)?;
        let row = rows.scan(Scan::new())?.next().await?.unwrap().key().clone();
        rows.delete(Delete::new(row)).await?;
        hbase.fault(Call::Scan.on(TABLE).delay_answer(SLOW).times(1));
        let guard = first.lock(Level::Dc, "x")?.ttl(LEASE).acquire().await?;
        nobody_else_gets_it(Kind::Lock, &guard, &second).await
    });
}

/// A release on a server whose clock is ahead leaves a delete marker, and the region moves.
#[rstest]
fn lease_counts_from_an_attempt_that_a_release_ahead_of_the_clock_hid(
    #[values(Kind::Lock, Kind::Leader, Kind::Writer, Kind::Permit)] kind: Kind,
) {
    FakeHBase::run(async |_| {
        let hbase = FakeHBase::builder().servers(2).build();
        hbase.server(0).set_clock_ahead(300);
        let first = open(&hbase, 1, one_region()?).await?;
        let second = open(&hbase, 2, one_region()?).await?;
        hbase.move_region(TABLE, "", 0);
        hbase.settled().await;
        // So long a lease is deleted, not written over.
        let long = Duration::from_secs(600);
        let guard = kind.try_acquire(&first, long).await?.unwrap();
        assert!(guard.release().await?.is_released());
        hbase.move_region(TABLE, "", 1);
        hbase.settled().await;
        hbase.fault(Call::Scan.on(TABLE).delay_answer(SLOW).times(1));
        let guard = kind.try_acquire(&first, LEASE).await?.unwrap();
        nobody_else_gets_it(kind, &guard, &second).await
    });
}

/// The attempt waits for the server longer than its lease, and takes the lock when that is back.
#[rstest]
fn lock_that_was_won_too_late_is_released(
    #[values(Kind::Lock, Kind::Leader, Kind::Writer, Kind::Permit)] kind: Kind,
) {
    const OUTAGE: Duration = Duration::from_secs(40);
    FakeHBase::run(async |_| {
        let hbase = FakeHBase::builder().servers(1).build();
        let first = open(&hbase, 1, one_region()?).await?;
        let second = open(&hbase, 2, one_region()?).await?;
        for locks in [&first, &second] {
            let guard = kind.try_acquire(locks, LEASE).await?.unwrap();
            assert!(guard.release().await?.is_released());
        }
        hbase.server(0).crash();
        let restart = async {
            sleep(OUTAGE).await;
            hbase.server(0).restart();
        };
        let lease = Duration::from_secs(30);
        let (acquired, ()) = tokio::join!(kind.try_acquire(&first, lease), restart);
        drop(acquired);
        let free = Instant::now();
        while kind.try_acquire(&second, LEASE).await?.is_none() {
            assert!(
                free.elapsed() < Duration::from_secs(5),
                "{kind:?}: no process holds it, and it is not free"
            );
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    });
}
