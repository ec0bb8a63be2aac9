//! The durability of the writes of transactions, locks, latches and coordination.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use hbase_txn::{
    ErrorKind, Level, OpenOptions, Settled, TableDescriptorExt, TransactionId,
    admin::Admin,
    client::{Connection, TableDescriptor, TableName},
    coordination::{Election, ReadWriteLock, Semaphore},
    latch::{LatchTableOptions, PartitionLatches},
    lock::{LockTableOptions, PartitionLocks},
};
use rstest::rstest;

use crate::{
    proxy::{Action, Proxy, mutations::Durability},
    support::{
        connect, connect_by,
        latch_rows::latch_manager,
        lock_rows::lock_manager,
        put, standalone,
        table::{TestTable, by_three},
    },
};

const LEASE: Duration = Duration::from_secs(60);

/// The durabilities of all mutations that a client sends.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<BTreeSet<Durability>>>);

impl Sent {
    /// Connects a client whose mutations are recorded, except those that read the server's clock.
    async fn connect(&self) -> Connection {
        let (proxy, sent) = (Proxy::new(), self.clone());
        proxy.rule(move |request| {
            let mutations = request.mutations().into_iter();
            let kept = mutations.filter(|mutation| !mutation.row.ends_with(b"clock"));
            let durabilities = kept.map(|mutation| mutation.durability());
            sent.0.lock().unwrap().extend(durabilities);
            Action::Pass
        });
        connect_by(proxy, standalone().config()).await
    }

    #[track_caller]
    fn assert(&self, what: &str, expected: Durability) {
        let sent = std::mem::take(&mut *self.0.lock().unwrap());
        assert_eq!(sent, BTreeSet::from([expected]), "{what}");
    }
}

/// Returns the descriptor with this `DURABILITY`, or without any.
fn durable(descriptor: TableDescriptor, durability: Option<&'static str>) -> TableDescriptor {
    match durability {
        Some(durability) => descriptor.with_attribute("DURABILITY", durability),
        None => descriptor,
    }
}

#[rstest]
#[case::table_says_nothing(None, Durability::UseDefault)]
#[case::table_says_default(Some("USE_DEFAULT"), Durability::UseDefault)]
#[case::weak(Some("ASYNC_WAL"), Durability::SyncWal)]
#[case::stronger(Some("FSYNC_WAL"), Durability::FsyncWal)]
#[tokio::test]
async fn writes_are_as_durable_as_plain_puts_and_at_least_synced(
    #[case] of_table: Option<&'static str>,
    #[case] expected: Durability,
) {
    let sent = Sent::default();
    let connection = sent.connect().await;
    let descriptor = |name: TableName| {
        let descriptor = by_three(name).with_record_family().with_lock_family();
        durable(descriptor, of_table)
    };
    let table = TestTable::create("durable", descriptor, &[]).await;
    let options = OpenOptions::new().allow_weak_durability();
    let opened = table.open_with(&connection, options).await;

    let id = TransactionId::unique();
    assert_eq!(opened.settle("xxx", &id).await.unwrap(), Settled::NotApplied);
    sent.assert("a fence", expected);
    let locks = PartitionLocks::open(&opened).await.unwrap();
    let guard = locks
        .lock("xxx", "l")
        .unwrap()
        .ttl(LEASE)
        .acquire()
        .await
        .unwrap();
    guard.renew().await.unwrap();
    let _ = guard.release().await.unwrap();
    sent.assert("a lock in a partition", expected);
    let latches = PartitionLatches::open(&opened).await.unwrap();
    let latch = latches.latch("xxx", "c").unwrap();
    latch.init(1, LEASE).await.unwrap();
    sent.assert("a latch in a partition", expected);
    if of_table != Some("ASYNC_WAL") {
        let transaction = opened
            .transaction("xxx")
            .put(put("xxx1", "v"))
            .count_down(&latch, 1)
            .recorded();
        assert!(transaction.commit().await.is_committed());
        sent.assert("a transaction", expected);
        let batch = opened.batch().put(put("yyy1", "v"));
        assert!(batch.commit().await[0].outcome.is_committed());
        sent.assert("a batch", expected);
    }
}

#[rstest]
#[case::table_says_nothing(None, Durability::UseDefault)]
#[case::weak(Some("SKIP_WAL"), Durability::SyncWal)]
#[tokio::test]
async fn locks_and_latches_are_as_durable_as_puts_and_synced(
    #[case] of_table: Option<&'static str>,
    #[case] expected: Durability,
) {
    let sent = Sent::default();
    let connection = sent.connect().await;
    let lock_table = |name| durable(LockTableOptions::from(name).descriptor(), of_table);
    let table = TestTable::create("durable_locks", lock_table, &[]).await;
    let locks = lock_manager(&connection, &table.name, "svc").await;
    let guard = locks
        .lock(Level::Dc, "l")
        .unwrap()
        .ttl(LEASE)
        .acquire()
        .await
        .unwrap();
    guard.renew().await.unwrap();
    let _ = guard.release().await.unwrap();
    sent.assert("a lock", expected);
    let semaphore = Semaphore::create(&locks, Level::Dc, "s", 2).await.unwrap();
    let guard = semaphore.permit().ttl(LEASE).try_acquire().await.unwrap();
    let _ = guard.unwrap().release().await.unwrap();
    assert!(semaphore.delete().await.unwrap());
    sent.assert("a semaphore", expected);
    let read_write = ReadWriteLock::new(&locks, Level::Dc, "rw").unwrap();
    let guard = read_write.write().ttl(LEASE).acquire().await.unwrap();
    let _ = guard.release().await.unwrap();
    sent.assert("a read/write lock", expected);
    let election = Election::new(&locks, Level::Dc, "e").unwrap();
    let leadership = election.campaign().ttl(LEASE).lead().await.unwrap();
    let _ = leadership.resign().await.unwrap();
    sent.assert("an election", expected);

    let latch_table = |name| durable(LatchTableOptions::from(name).descriptor(), of_table);
    let table = TestTable::create("durable_latches", latch_table, &[]).await;
    let latches = latch_manager(&connection, &table.name, "svc", "fra").await;
    let latch = latches.latch(Level::Dc, "c").unwrap();
    latch.init(2, LEASE).await.unwrap();
    latch.arrive("p").await.unwrap();
    sent.assert("a latch", expected);
    let barrier = latches.barrier("b").unwrap();
    barrier.create(2, LEASE).await.unwrap();
    barrier.arrive("p").await.unwrap();
    sent.assert("a barrier", expected);
}

#[tokio::test]
async fn table_that_became_weak_under_an_open_client_is_refused() {
    let connection = connect().await;
    let table = TestTable::create("weakened", by_three, &[]).await;
    let options = OpenOptions::new().rule_interval(Duration::ZERO);
    let opened = table.open_with(&connection, options).await;
    let weak = by_three(table.name.clone()).with_attribute("DURABILITY", "ASYNC_WAL");
    Admin::new(&connection).modify_table(&weak).await.unwrap();
    let transaction = opened.transaction("xxx").put(put("xxx1", "v"));
    let outcome = transaction.commit().await;
    assert_eq!(
        outcome.error().unwrap().kind(),
        ErrorKind::PartitionRuleChanged,
        "{outcome}"
    );
}
