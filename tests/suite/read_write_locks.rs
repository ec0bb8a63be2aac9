//! Read/write locks: no reader alongside a writer, and no two writers at once.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hbase_txn::{
    ErrorKind, Level,
    client::{Connection, TableDescriptor, TableName},
    coordination::{ReadWriteLock, ReadWriteRequest},
    lock::{LockGuard, LockTableOptions, ReleaseOutcome},
};
use tokio::task::JoinSet;

use crate::{
    client_side::dropped::{at_every_wait, polled},
    support::{
        connect, eventually,
        lock_rows::lock_manager,
        spied,
        table::{SharedTable, TestTable},
        within,
    },
};

static TABLE: SharedTable = SharedTable::new("read-write", lock_table, &[]);

fn lock_table(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

const LEASE: Duration = Duration::from_secs(80);
const SOON: Duration = Duration::from_secs(20);

async fn lock(connection: &Connection, table: &TestTable, id: &str) -> ReadWriteLock {
    let locks = lock_manager(connection, &table.name, "rw").await;
    ReadWriteLock::new(&locks, Level::Dc, id).unwrap()
}

async fn now(request: ReadWriteRequest) -> Option<LockGuard> {
    request.ttl(LEASE).try_acquire().await.unwrap()
}

async fn soon(request: ReadWriteRequest) -> LockGuard {
    within(SOON, request.ttl(LEASE).wait(SOON).acquire())
        .await
        .unwrap()
}

async fn give(guard: LockGuard) {
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn many_read_or_one_writes_and_numbers_rise() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let one = lock(&connection, &table, "shared").await;
    let other = lock(&connection, &table, "shared").await;
    let mut last = 0;
    for _ in 0..5 {
        let mut readers = Vec::new();
        for lock in [&one, &other, &one, &other] {
            let reader = now(lock.read()).await.expect("nobody writes");
            assert!(reader.fencing() > last);
            readers.push(reader);
        }
        last = readers.iter().map(LockGuard::fencing).max().unwrap();
        assert!(now(other.write()).await.is_none());
        let info = one.show().await.unwrap();
        assert_eq!((info.readers.len(), info.writer), (4, None));
        for reader in readers {
            give(reader).await;
        }
        let writer = now(one.write()).await.expect("nobody reads");
        assert!(writer.fencing() > last);
        last = writer.fencing();
        assert!(now(other.read()).await.is_none() && now(other.write()).await.is_none());
        let info = one.show().await.unwrap();
        assert_eq!((info.readers.len(), info.writer.is_some()), (0, true));
        give(writer).await;
    }
}

#[tokio::test]
async fn waiting_writer_blocks_new_readers_and_keeps_its_place() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let one = lock(&connection, &table, "waiting").await;
    let other = lock(&connection, &table, "waiting").await;
    let reader = now(one.read()).await.unwrap();
    // The wait is longer than the lease.
    let lease = Duration::from_secs(4);
    let writing = tokio::spawn(other.write().ttl(lease).wait(SOON).acquire());
    // It takes the slot once for its whole lease, before it knows of the reader, and gives that back.
    let mut seen = (None, Instant::now());
    eventually("the writer has its place", async || {
        let writer = one.show().await.unwrap().writer.and_then(|writer| writer.token);
        if writer != seen.0 {
            seen = (writer, Instant::now());
        }
        (writer.is_some() && seen.1.elapsed() > Duration::from_millis(300)).then_some(())
    })
    .await;
    let began = Instant::now();
    while began.elapsed() < lease * 3 / 2 {
        assert!(now(one.read()).await.is_none(), "the writer's place is kept");
        assert!(reader.is_held());
    }
    let number = reader.fencing();
    give(reader).await;
    let writer = within(SOON, writing).await.unwrap().unwrap();
    assert!(writer.fencing() > number && writer.is_held());
    give(writer).await;
    give(now(one.read()).await.unwrap()).await;
}

#[tokio::test]
async fn writer_that_times_out_gives_its_place_back_and_names_readers() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let one = lock(&connection, &table, "over").await;
    let other = lock(&connection, &table, "over").await;
    let reader = now(one.read()).await.unwrap();
    let request = other.write().ttl(LEASE).wait(Duration::from_millis(300));
    let error = request.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    let text = error.to_string();
    for part in ["RW#DC#fra#rw#over", "for writing", "a reader, tester"] {
        assert!(text.contains(part), "{text}");
    }
    give(now(one.read()).await.expect("it is gone")).await;
    give(reader).await;
}

#[tokio::test]
async fn crashed_readers_and_writers_hold_until_their_leases_end() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let mine = lock(&connection, &table, "crash").await;
    let lease = Duration::from_secs(2);
    for writes in [false, true] {
        let crashing = connect().await;
        let theirs = lock(&crashing, &table, "crash").await;
        let request = if writes { theirs.write() } else { theirs.read() };
        let guard = request.ttl(lease).auto_renew().acquire().await.unwrap();
        let began = Instant::now();
        crashing.close().await;
        drop(guard);
        give(soon(mine.write()).await).await;
        assert!(
            began.elapsed() < lease + Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
        give(soon(mine.read()).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_is_beside_a_writer_among_many_who_come_and_go() {
    const WRITER: usize = 1_000;
    /// Longer only on a machine that is too busy for a few locks.
    const SPINS: Duration = Duration::from_secs(5);
    let table = TABLE.get().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let (writes, reads) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::new(AtomicI64::new(0));
    let began = Instant::now();
    let mut owners = JoinSet::new();
    for owner in 0..6 {
        let lock = lock(&connect().await, &table, "spinning").await;
        let (inside, writes, reads) = (Arc::clone(&inside), Arc::clone(&writes), Arc::clone(&reads));
        let highest = Arc::clone(&highest);
        owners.spawn(async move {
            let are_few = || writes.lock().unwrap().len() <= 10 || reads.load(Ordering::Relaxed) <= 10;
            while began.elapsed() < SPINS || (are_few() && began.elapsed() < SOON) {
                let request = if owner < 2 { lock.write() } else { lock.read() };
                let request = request.ttl(LEASE).wait(Duration::from_secs(1));
                // Consecutive writers may keep readers out for long.
                let guard = match request.acquire().await {
                    Err(error) if error.kind() == ErrorKind::LockUnavailable => continue,
                    acquired => acquired.unwrap(),
                };
                if owner < 2 {
                    assert_eq!(
                        inside.fetch_add(WRITER, Ordering::SeqCst),
                        0,
                        "a writer is not alone"
                    );
                    let before = highest.fetch_max(guard.fencing(), Ordering::SeqCst);
                    assert!(guard.fencing() > before, "a writer's number is not the highest");
                    writes.lock().unwrap().push(guard.fencing());
                    tokio::task::yield_now().await;
                    inside.fetch_sub(WRITER, Ordering::SeqCst);
                    give(guard).await;
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(..100))).await;
                } else {
                    let before = inside.fetch_add(1, Ordering::SeqCst);
                    assert!(before < WRITER, "a reader is beside a writer");
                    let last_write = writes.lock().unwrap().last().copied().unwrap_or_default();
                    assert!(guard.fencing() > last_write);
                    highest.fetch_max(guard.fencing(), Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    reads.fetch_add(1, Ordering::Relaxed);
                    give(guard).await;
                }
            }
        });
    }
    while let Some(ended) = owners.join_next().await {
        ended.unwrap();
    }
    let (writes, reads) = (writes.lock().unwrap().len(), reads.load(Ordering::Relaxed));
    println!("{writes} writes, {reads} reads");
    assert!(writes > 10 && reads > 10, "{writes} writes, {reads} reads");
}

#[tokio::test]
async fn uncontended_read_and_write_locks_cost_one_call() {
    let table = TABLE.get().await;
    let (connection, spy) = spied().await;
    let lock = lock(&connection, &table, "cost").await;
    for request in [lock.read(), lock.read(), lock.write()] {
        let before = spy.multi_calls();
        let guard = now(request).await.unwrap();
        assert_eq!(spy.multi_calls() - before, 1);
        give(guard).await;
        assert_eq!(spy.multi_calls() - before, 2);
    }
}

#[tokio::test]
async fn a_dropped_acquire_leaves_nobody_reading_or_writing() {
    let (other, table) = (connect().await, TABLE.get().await);
    for writes in [false, true] {
        at_every_wait(async |times, connection| {
            let id = format!("dropped-{writes}-{times}");
            let mine = lock(&connection, &table, &id).await;
            let request = if writes { mine.write() } else { mine.read() };
            let done = polled(request.ttl(LEASE).acquire(), times).await;
            let over = done.is_some();
            drop(done);
            give(soon(lock(&other, &table, &id).await.write()).await).await;
            give(soon(mine.write()).await).await;
            over
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_writer_that_waits_for_readers_gives_its_place_back() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let one = lock(&connection, &table, "dropped-waiting").await;
    let other = lock(&connection, &table, "dropped-waiting").await;
    for times in (1..40).step_by(3) {
        let reader = soon(one.read()).await;
        let done = polled(other.write().ttl(LEASE).wait(SOON).acquire(), times).await;
        assert!(done.is_none(), "somebody reads");
        // Another reader acquires the lock, so the writer's place is free again.
        give(soon(other.read()).await).await;
        give(reader).await;
    }
}
