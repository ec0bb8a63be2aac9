//! Requests whose callers are gone: nothing more is sent for them, and they hold nothing.
//!
//! In virtual time, because outages last for minutes.

use std::time::Duration;

use futures::StreamExt;
use hbase_fake::{Call, FakeHBase};
use hbase_txn::{
    Level,
    client::Connection,
    coordination::{Election, ReadWriteLock},
    lock::{LockEventKind, LockManager, LockManagerOptions, LockTableOptions},
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};

const TABLE: &str = "locks";
const HOUR: Duration = Duration::from_secs(3_600);

/// Opens the locks as a process of its own.
async fn open(hbase: &FakeHBase, process: u64) -> hbase_txn::Result<LockManager> {
    let name = format!("process-{process}");
    let connection = Connection::builder(hbase.config().with_user(&*name)).connector(hbase.connector());
    let connection = connection
        .environment(hbase.environment().seed(process))
        .connect()
        .await?;
    let locks = LockManagerOptions::new("billing").farm("fra").holder(name);
    let table = LockTableOptions::new(TABLE)?.regions(1);
    locks.open_or_create(&connection, table).await
}

/// A program limits its campaigns by timeouts of its own, in an outage of ten minutes.
#[test]
fn dropped_campaigns_of_an_outage_do_not_lead_after_it() {
    FakeHBase::run(async |_| {
        let hbase = FakeHBase::builder().servers(1).build();
        let (locks, others) = (open(&hbase, 1).await?, open(&hbase, 2).await?);
        let election = Election::new(&locks, Level::Dc, "scheduler")?;
        assert!(election.campaign().lead().await?.resign().await?.is_released());
        let tasks = Handle::current().metrics().num_alive_tasks();
        hbase.server(0).crash();
        for _ in 0..100 {
            let campaign = election.campaign().ttl(Duration::from_secs(10)).lead();
            assert!(timeout(Duration::from_secs(6), campaign).await.is_err());
        }
        sleep(HOUR).await;
        let left = Handle::current().metrics().num_alive_tasks();
        assert!(
            left <= tasks + 5,
            "{left} tasks are alive, and {tasks} were before"
        );
        hbase.server(0).restart();
        let mut changes = Election::new(&others, Level::Dc, "scheduler")?.changes();
        let end = Instant::now() + Duration::from_secs(120);
        while let Ok(Some(change)) = tokio::time::timeout_at(end, changes.next()).await {
            // A read fails until the server is back.
            let leader = change.ok().flatten();
            assert!(leader.is_none(), "no campaign is under way: {leader:?}");
        }
        Ok(())
    });
}

#[test]
fn background_is_done_when_a_dropped_waiter_has_left_the_queue() {
    FakeHBase::run(async |hbase| {
        let (first, second) = (open(hbase, 1).await?, open(hbase, 2).await?);
        let guard = first.lock(Level::Dc, "x")?.ttl(HOUR).acquire().await?;
        let wait = second.lock(Level::Dc, "x")?.wait(HOUR).acquire();
        assert!(timeout(Duration::from_secs(5), wait).await.is_err());
        let mut events = first.watch(Level::Dc, "x")?;
        timeout(Duration::from_secs(1), second.background_done()).await?;
        let event = events.next().await.unwrap()?;
        assert_eq!((event.kind, event.waiting), (LockEventKind::Held, Some(0)));
        drop(guard);
        timeout(Duration::from_secs(1), first.background_done()).await?;
        assert!(second.lock(Level::Dc, "x")?.try_acquire().await?.is_some());
        Ok(())
    });
}

/// No request of the writer arrives any more, as if its process had died.
#[test]
fn writer_that_died_while_it_waited_blocks_readers_for_seconds() {
    FakeHBase::run(async |hbase| {
        let [reading, writing, late] = [1, 2, 3].map(|process| open(hbase, process));
        let lock = |locks: &LockManager| ReadWriteLock::new(locks, Level::Dc, "schema");
        let reader = lock(&reading.await?)?.read().ttl(2 * HOUR).acquire().await?;
        let (writing, late) = (writing.await?, lock(&late.await?)?);
        let write = lock(&writing)?.write().ttl(2 * HOUR).wait(2 * HOUR).acquire();
        tokio::pin!(write);
        assert!(timeout(Duration::from_secs(30), &mut write).await.is_err());
        assert!(late.show().await?.writer.is_some());
        assert!(
            late.read().try_acquire().await?.is_none(),
            "a waiting writer comes first"
        );
        hbase.fault(Call::Any.by("process-2").lose_request());
        let began = Instant::now();
        let second = late.read().wait(HOUR).acquire().await?;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(reader.is_held() && second.is_held());
        Ok(())
    });
}

#[test]
fn writer_that_waited_has_its_own_lease() {
    FakeHBase::run(async |hbase| {
        let (reading, writing) = (open(hbase, 1).await?, open(hbase, 2).await?);
        let lock = |locks: &LockManager| ReadWriteLock::new(locks, Level::Dc, "schema");
        let reader = lock(&reading)?.read().ttl(HOUR).acquire().await?;
        let write = lock(&writing)?.write().ttl(HOUR).wait(HOUR).acquire();
        let release = async {
            sleep(Duration::from_secs(60)).await;
            reader.release().await
        };
        let (writer, released) = tokio::join!(write, release);
        assert!(released?.is_released());
        let writer = writer?;
        assert!(
            writer.remaining() > HOUR - Duration::from_secs(5),
            "{:?}",
            writer.remaining()
        );
        let shown = lock(&reading)?.show().await?.writer.unwrap();
        assert_eq!(shown.token, Some(writer.token()));
        sleep(HOUR / 2).await;
        assert!(lock(&reading)?.read().try_acquire().await?.is_none());
        assert!(writer.release().await?.is_released());
        assert!(lock(&reading)?.read().try_acquire().await?.is_some());
        Ok(())
    });
}

/// The answers to the renewals are late, and the guard is kept.
#[test]
fn lock_whose_renewal_was_answered_too_late_is_released() {
    const LEASE: Duration = Duration::from_secs(4);
    FakeHBase::run(async |hbase| {
        let (first, second) = (open(hbase, 1).await?, open(hbase, 2).await?);
        let guard = first.lock(Level::Dc, "x")?.ttl(LEASE).acquire().await?;
        // All answers until then, so that the release is the first call that is answered.
        let lost = Instant::now() + guard.remaining() - Duration::from_millis(10);
        sleep(LEASE / 2).await;
        let answers = Call::Multi
            .on(TABLE)
            .by("process-1")
            .when(move |_| Instant::now() < lost);
        hbase.fault(answers.delay_answer(Duration::from_secs(60)));
        guard.renew().await.unwrap_err();
        let _ = guard.lost().await;
        let began = Instant::now();
        let theirs = second.lock(Level::Dc, "x")?.wait(HOUR).acquire().await?;
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(theirs.is_held() && !guard.is_held());
        Ok(())
    });
}
