//! Region servers that ignore conditions. One call detects each of them before anything relies on
//! it.

use std::time::Duration;

use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, Error, Level,
    client::{Condition, Connection},
    coordination::{Election, ReadWriteLock, Semaphore},
    latch::LatchManager,
    lock::{LockGuard, LockManager},
};

use crate::{
    proxy::{Action, PROBE, Proxy},
    support::{
        connect, connect_by,
        latch_rows::{latch_manager, latch_table},
        lock_rows::{lock_manager, lock_table},
        put, says, spied, standalone,
        table::{TestTable, plain},
        value,
    },
};

const LEASE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

struct Tables {
    locks: TestTable,
    latches: TestTable,
    rows: TestTable,
}

impl Tables {
    async fn new(connection: &Connection, what: &str) -> Self {
        Self {
            locks: lock_table(connection, &format!("{what}_locks"), 1, false).await,
            latches: latch_table(connection, &format!("{what}_latches"), 1, true).await,
            rows: TestTable::create(&format!("{what}_rows"), plain, &[]).await,
        }
    }

    async fn managers(&self, connection: &Connection) -> (LockManager, LatchManager) {
        (
            lock_manager(connection, &self.locks.name, "proofs").await,
            latch_manager(connection, &self.latches.name, "proofs", "fra").await,
        )
    }
}

async fn lock(locks: &LockManager, id: &str) -> hbase_txn::Result<LockGuard> {
    locks.lock(Level::Dc, id)?.ttl(LEASE).acquire().await
}

fn condition() -> (Condition, hbase_txn::client::Mutation) {
    (Condition::absent("row", "f", "q"), put("row", "changed").into())
}

#[tokio::test]
async fn server_that_drops_conditions_is_refused_by_name() {
    let connection = connect().await;
    let tables = Tables::new(&connection, "drops").await;
    let (locks, latches) = tables.managers(&connection).await;
    let rows = connection.table(tables.rows.name.clone()).unwrap();
    // Holds and rows that a change without its condition would damage.
    let held = lock(&locks, "held").await.unwrap();
    let semaphore = Semaphore::create(&locks, Level::Dc, "permits", 1).await.unwrap();
    latches
        .latch(Level::Dc, "latch")
        .unwrap()
        .init(2, HOUR)
        .await
        .unwrap();
    latches.barrier("barrier").unwrap().create(2, HOUR).await.unwrap();
    rows.put(put("row", "there")).await.unwrap();

    let proxy = Proxy::new();
    proxy.rule(|request| {
        if request.method == "Multi" || request.method == PROBE {
            Action::DropConditions
        } else {
            Action::Pass
        }
    });
    let old = connect_by(proxy, standalone().config()).await;
    let (old_locks, old_latches) = tables.managers(&old).await;
    let old_rows = old.table(tables.rows.name.clone()).unwrap();
    let mut refusals: Vec<(&str, Error)> = Vec::new();
    refusals.push(("lock", lock(&old_locks, "held").await.unwrap_err()));
    let error = Semaphore::create(&old_locks, Level::Dc, "new", 1).await;
    refusals.push(("semaphore", error.unwrap_err()));
    let permits = Semaphore::open(&old_locks, Level::Dc, "permits").await.unwrap();
    refusals.push(("permit", permits.permit().acquire().await.unwrap_err()));
    let election = Election::new(&old_locks, Level::Dc, "election").unwrap();
    refusals.push(("election", election.campaign().lead().await.unwrap_err()));
    let shared = ReadWriteLock::new(&old_locks, Level::Dc, "shared").unwrap();
    refusals.push(("read", shared.read().acquire().await.unwrap_err()));
    refusals.push(("write", shared.write().acquire().await.unwrap_err()));
    let latch = old_latches.latch(Level::Dc, "latch").unwrap();
    refusals.push(("count", latch.count_down(1).await.unwrap_err()));
    let barrier = old_latches.barrier("barrier").unwrap();
    refusals.push(("arrive", barrier.arrive("p").await.unwrap_err()));
    let latch = old_latches.latch(Level::Dc, "new").unwrap();
    refusals.push(("new latch", latch.init(2, HOUR).await.unwrap_err()));
    let barrier = old_latches.barrier("new").unwrap();
    refusals.push(("new barrier", barrier.create(2, HOUR).await.unwrap_err()));
    let (condition, mutation) = condition();
    let error = old_rows.check_and_mutate(condition, [mutation]).await;
    refusals.push(("check and mutate", error.unwrap_err().into()));
    for (what, error) in refusals {
        assert_eq!(
            error.kind(),
            ClientErrorKind::ConditionsUnsupported,
            "{what}: {error}"
        );
        assert!(!error.is_outcome_unknown(), "{what}: {error}");
        says(&error, &["server ", "whose condition does not hold", "HBase 2.4"]);
    }

    assert!(held.release().await.unwrap().is_released(), "it is still held");
    assert_eq!(semaphore.show().await.unwrap().holders.len(), 0);
    let info = latches.latch(Level::Dc, "latch").unwrap().show().await.unwrap();
    assert_eq!(info.count, Some(2));
    let barrier = latches.barrier("barrier").unwrap().show().await.unwrap();
    assert_eq!(barrier.unwrap().arrived, 0);
    assert_eq!(value(&rows, "row").await.as_deref(), Some("there"));
}

#[tokio::test]
async fn server_is_probed_once_for_all_that_relies_on_conditions() {
    const TASKS: usize = 50;
    let tables = Tables::new(&connect().await, "probed").await;
    let (connection, spy) = spied().await;
    let (locks, latches) = tables.managers(&connection).await;
    assert_eq!(spy.probes(), 0, "nothing relies on it yet");
    join_all((0..TASKS).map(async |task| {
        let guard = lock(&locks, &format!("task-{task}")).await.unwrap();
        assert!(guard.release().await.unwrap().is_released());
    }))
    .await;
    assert_eq!(spy.probes(), 1);
    assert_eq!(spy.multi_calls(), 2 * TASKS);
    let semaphore = Semaphore::create(&locks, Level::Dc, "permits", 1).await.unwrap();
    drop(semaphore.permit().acquire().await.unwrap());
    let latch = latches.latch(Level::Dc, "latch").unwrap();
    latch.init(1, HOUR).await.unwrap();
    latch.count_down(1).await.unwrap();
    let barrier = latches.barrier("barrier").unwrap();
    barrier.create(1, HOUR).await.unwrap();
    barrier.arrive("p").await.unwrap();
    let (condition, mutation) = condition();
    let rows = connection.table(tables.rows.name.clone()).unwrap();
    assert!(
        rows.check_and_mutate(condition, [mutation])
            .await
            .unwrap()
            .success
    );
    assert_eq!(spy.probes(), 1);
}

#[tokio::test]
async fn probe_whose_answer_is_lost_is_sent_again() {
    let tables = Tables::new(&connect().await, "lost").await;
    for action in [Action::CutBeforeAnswer, Action::CutInRequest] {
        let proxy = Proxy::new();
        let connection = connect_by(proxy.clone(), standalone().config()).await;
        let (locks, _) = tables.managers(&connection).await;
        proxy.once(PROBE, action);
        let guard = lock(&locks, "lost").await.unwrap();
        assert!(guard.release().await.unwrap().is_released());
        assert_eq!(proxy.requests(PROBE), 2);
    }
}
