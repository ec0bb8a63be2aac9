//! Locks through a gateway and native ones, which exclude each other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    admin::Admin,
    client::{Delete, Get, Put},
    lock::{LockGuard, LockLoss, LockManager, ReleaseOutcome},
    thrift::{ThriftConnection, ThriftLockGuard, ThriftLockManager, ThriftLockManagerOptions},
};
use tokio::task::JoinSet;

use super::{GATEWAY, gateway, locks_of, port, scale, try_lock};
use crate::support::{
    connect, eventually,
    forwarder::Forwarder,
    lock_rows::{FARM, free_cell, lock_manager, lock_row, lock_table},
    says,
    table::TestTable,
};

const LEASE: Duration = Duration::from_secs(20);

/// Creates a lock table and opens its locks for one client, natively and through the gateway.
async fn sides(client: &str, without_java_clients: bool) -> (TestTable, LockManager, ThriftLockManager) {
    let connection = connect().await;
    let table = lock_table(&connection, "thrift", 2, without_java_clients).await;
    let native = lock_manager(&connection, &table.name, client).await;
    let visitor = locks_of(&gateway().await, &table.name, client, without_java_clients).await;
    (table, native, visitor)
}

async fn try_natively(locks: &LockManager, id: &str, ttl: Duration) -> Option<LockGuard> {
    let request = locks.lock(Level::Dc, id).unwrap().ttl(ttl);
    request.try_acquire().await.unwrap()
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn a_gateways_client_and_a_native_one_exclude_each_other() {
    let _gateway = GATEWAY.read().await;
    for without_java_clients in [false, true] {
        let (_table, native, visitor) = sides("exclude", without_java_clients).await;
        let mut last = 0;
        for _ in 0..10 {
            let guard = try_lock(&visitor, "a", LEASE).await.expect("it is free");
            assert!(guard.is_held() && guard.remaining() > LEASE / 2);
            assert!(guard.fencing() > last, "{} {last}", guard.fencing());
            last = guard.fencing();
            let refused = native.lock(Level::Dc, "a").unwrap().acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::LockUnavailable);
            says(&refused, &["visitor"]);
            let seen = native.show(Level::Dc, "a").await.unwrap();
            let holder = seen.holder.unwrap();
            assert_eq!(holder.token, Some(guard.token()));
            assert_eq!(holder.lease, Some(LEASE));
            assert!(!seen.rows_disagree);
            assert_eq!(native.list().await.unwrap().len(), 1);
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);

            let guard = try_natively(&native, "a", LEASE).await.expect("it is free again");
            assert!(guard.fencing() > last, "{} {last}", guard.fencing());
            last = guard.fencing();
            let refused = visitor.lock(Level::Dc, "a").unwrap().acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::LockUnavailable);
            says(&refused, &["tester", "table suite_thrift"]);
            let holder = visitor.show(Level::Dc, "a").await.unwrap().holder.unwrap();
            assert_eq!(holder.token, Some(guard.token()));
            assert!(guard.release().await.unwrap().is_released());
        }
        assert!(native.list().await.unwrap().is_empty());
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn local_waiter_on_a_gateway_is_given_the_holder() {
    let _gateway = GATEWAY.read().await;
    let (_table, native, visitor) = sides("queue", false).await;
    let wait = |wait| visitor.lock(Level::Dc, "q").unwrap().wait(wait).acquire();
    let guard = try_natively(&native, "q", LEASE).await.unwrap();
    let error = tokio::select! {
        biased;
        first = wait(2 * LEASE) => panic!("{first:?}"),
        second = wait(Duration::from_secs(3)) => second.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    says(&error, &["held by tester", "came first", "DC#fra#queue#q"]);
    assert!(guard.release().await.unwrap().is_released());

    let guard = try_lock(&visitor, "q", LEASE).await.unwrap();
    let error = wait(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    says(&error, &["another task of this process holds it"]);
    assert!(guard.release().await.unwrap().is_released());
}

/// The renewal reaches the lock row before the lease expires, but the companion row too late.
#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn renewal_too_late_for_one_row_expires_and_excludes_no_client() {
    const LEASE: Duration = Duration::from_secs(8);
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let forwarder = Forwarder::to(port()).await;
    let gateway = ThriftConnection::connect(format!("127.0.0.1:{}", forwarder.port))
        .await
        .unwrap();
    let table = lock_table(&connection, "thrift-late", 1, false).await;
    let native = lock_manager(&connection, &table.name, "late").await;
    let visitor = locks_of(&gateway, &table.name, "late", false).await;
    let guard = try_lock(&visitor, "a", LEASE).await.unwrap();
    let over = Instant::now() + LEASE;
    eventually("half of the lease is over", async || {
        (guard.remaining() < LEASE / 2).then_some(())
    })
    .await;
    let asked = forwarder.asked();
    forwarder.hold(true);
    let delayed = async {
        eventually("the lease is over", async || {
            (Instant::now() > over).then_some(())
        })
        .await;
        assert!(
            forwarder.asked() > asked,
            "the first row was asked for again and again"
        );
        forwarder.hold(false);
    };
    let (renewed, ()) = tokio::join!(guard.renew(), delayed);
    let error = renewed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);
    says(&error, &[&LockLoss::Expired.to_string()]);
    // The lock row was renewed for another lease, without a known owner: the guard releases it.
    eventually("the renewed row is free", async || {
        let info = native.show(Level::Dc, "a").await.unwrap();
        info.holder.is_none().then_some(())
    })
    .await;
    let outcome = visitor.release(Level::Dc, "a", guard.detach()).await.unwrap();
    assert!(matches!(outcome, ReleaseOutcome::Lost(_)), "{outcome:?}");
    assert!(try_natively(&native, "a", LEASE).await.is_some());
}

/// A late copy of the release would end the next hold with the same timestamp.
#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn no_hold_has_the_timestamp_of_the_one_before() {
    const AHEAD: Duration = Duration::from_secs(3);
    let _gateway = GATEWAY.read().await;
    let (table, _native, visitor) = sides("behind", true).await;
    let rows = table.of(&connect().await);
    let row = lock_row("behind", "a");
    // As a release leaves it on a server whose clock is ahead of the present one.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let at = u64::try_from((now + AHEAD).as_millis()).unwrap();
    let free = free_cell(u64::try_from(LEASE.as_millis()).unwrap());
    let released = Put::new(row.clone())
        .cell_at("D", "L", at, "")
        .cell_at("D", "O", at, free)
        .ttl(LEASE);
    rows.put(released).await.unwrap();
    assert!(try_lock(&visitor, "a", LEASE).await.is_none());
    let request = visitor.lock(Level::Dc, "a").unwrap().ttl(LEASE);
    let guard = request.wait(LEASE).acquire().await.unwrap();
    let held = rows.get(Get::new(row)).await.unwrap().unwrap();
    assert!(held.cell("D", "L").unwrap().timestamp > at);
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn a_token_releases_what_the_other_kind_of_client_holds() {
    let _gateway = GATEWAY.read().await;
    let (_table, native, visitor) = sides("tokens", false).await;

    let token = try_lock(&visitor, "a", LEASE).await.unwrap().detach();
    assert!(try_natively(&native, "a", LEASE).await.is_none());
    assert!(native.release(Level::Dc, "a", token).await.unwrap().is_released());
    let token = try_natively(&native, "a", LEASE).await.unwrap().detach();
    assert!(try_lock(&visitor, "a", LEASE).await.is_none());
    assert!(
        visitor
            .release(Level::Dc, "a", token)
            .await
            .unwrap()
            .is_released()
    );
    let token = try_lock(&visitor, "a", LEASE).await.unwrap().detach();
    assert!(
        visitor
            .release(Level::Dc, "a", token)
            .await
            .unwrap()
            .is_released()
    );
    let again = visitor.release(Level::Dc, "a", token).await.unwrap();
    assert_eq!(again, ReleaseOutcome::Lost(LockLoss::Expired));
    assert!(try_natively(&native, "a", LEASE).await.is_some());
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn a_java_marker_keeps_out_and_a_java_release_is_told() {
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    let table = lock_table(&connection, "thrift", 1, false).await;
    let visitor = locks_of(&gateway, &table.name, "java", false).await;
    let (row, rows) = (lock_row("java", "a"), table.of(&connection));
    let marker = Put::new(row.clone()).cell("D", "L", "M").ttl(LEASE);
    rows.put(marker).await.unwrap();
    let refused = visitor.lock(Level::Dc, "a").unwrap().acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LockUnavailable);
    says(&refused, &["a client that leaves no name"]);
    rows.delete(Delete::new(row.clone())).await.unwrap();

    let guard = eventually("the delete hides nothing more", async || {
        try_lock(&visitor, "a", LEASE).await
    })
    .await;
    rows.delete(Delete::new(row.clone())).await.unwrap();
    let error = guard.renew().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);
    assert_eq!(guard.lost().await, LockLoss::Removed);
    assert!(!guard.is_held());
    assert_eq!(
        guard.release().await.unwrap(),
        ReleaseOutcome::Lost(LockLoss::Removed)
    );
    // The companion row is free as well.
    let native = lock_manager(&connection, &table.name, "java").await;
    let _guard = eventually("it is free", async || try_natively(&native, "a", LEASE).await).await;
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn a_lease_through_a_gateway_ends_and_a_renewed_one_does_not() {
    let _gateway = GATEWAY.read().await;
    for without_java_clients in [false, true] {
        let (_table, native, visitor) = sides("leases", without_java_clients).await;
        // A busy machine takes long for the calls of an attempt, and for the seven of a renewal, which
        // have a third of what is left.
        let lease = Duration::from_secs(12);
        let request = visitor
            .lock(Level::Dc, "renewed")
            .unwrap()
            .ttl(lease)
            .auto_renew();
        let renewed = request.acquire().await.unwrap();
        let began = Instant::now();
        let short = try_lock(&visitor, "short", lease).await.unwrap();
        assert_eq!(short.lost().await, LockLoss::Expired);
        assert!(began.elapsed() < lease, "{:?}", began.elapsed());
        assert!(!short.is_held());
        assert_eq!(short.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
        let next = eventually("the lease is over", async || {
            try_natively(&native, "short", LEASE).await
        })
        .await;
        assert!(
            matches!(short.release().await.unwrap(), ReleaseOutcome::Lost(LockLoss::Taken(holder))
            if holder.token == Some(next.token()))
        );
        assert!(next.is_held() && next.release().await.unwrap().is_released());
        while began.elapsed() < lease * 3 / 2 {
            assert!(renewed.is_held(), "{:?}", renewed.lost().await);
            assert!(try_natively(&native, "renewed", LEASE).await.is_none());
            renewed.renew().await.unwrap();
            // A renewal in flight has marked the row again, but not yet written the owner.
            eventually("the holder is named", async || {
                let info = native.show(Level::Dc, "renewed").await.unwrap();
                (info.holder.unwrap().token == Some(renewed.token())).then_some(())
            })
            .await;
        }
        assert!(renewed.release().await.unwrap().is_released());
        let next = try_natively(&native, "renewed", LEASE)
            .await
            .expect("nothing of the renewals is left");
        assert!(next.release().await.unwrap().is_released());
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn gateway_waiter_gets_a_released_lock() {
    let _gateway = GATEWAY.read().await;
    let (_table, native, visitor) = sides("waits", false).await;
    let held = try_natively(&native, "a", LEASE).await.unwrap();
    let request = visitor.lock(Level::Dc, "a").unwrap().wait(LEASE);
    let waiting = tokio::spawn(request.acquire());
    eventually("it waits", async || (!waiting.is_finished()).then_some(())).await;
    assert!(held.release().await.unwrap().is_released());
    let guard = waiting.await.unwrap().unwrap();
    // No other task of the process acquires the lock meanwhile, and a dropped guard is released.
    assert!(try_lock(&visitor, "a", LEASE).await.is_none());
    drop(guard);
    let _guard = eventually("it was given back", async || {
        try_natively(&native, "a", LEASE).await
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn attempts_that_are_dropped_leave_no_lock() {
    let _gateway = GATEWAY.read().await;
    let (_table, native, visitor) = sides("dropped", false).await;
    for round in 0..20 {
        let attempt = tokio::spawn(visitor.lock(Level::Dc, "a").unwrap().ttl(LEASE).acquire());
        tokio::time::sleep(Duration::from_micros(400 * round)).await;
        attempt.abort();
        drop(attempt.await);
        let guard = eventually("it was given back", async || {
            try_natively(&native, "a", LEASE).await
        })
        .await;
        assert!(guard.release().await.unwrap().is_released());
    }
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn guard_dropped_outside_a_runtime_is_released() {
    let _gateway = GATEWAY.read().await;
    let (_table, native, visitor) = sides("thread", false).await;
    let guard = try_lock(&visitor, "a", LEASE).await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    let guard = eventually("it was given back", async || {
        try_natively(&native, "a", LEASE).await
    })
    .await;
    assert!(guard.release().await.unwrap().is_released());
}

/// The lease of the guard is over, and nothing drives the runtime that acquired it.
#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn guard_of_a_runtime_that_is_not_driven_keeps_no_other_task_waiting() {
    let _gateway = GATEWAY.read().await;
    let (_table, _native, visitor) = sides("stopped", false).await;
    let request = |lease| visitor.lock(Level::Dc, "a").unwrap().ttl(lease);
    let short = request(Duration::from_secs(2));
    let acquired = tokio::task::spawn_blocking(|| {
        let stopped = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let stopped = stopped.unwrap();
        let guard = stopped.block_on(short.acquire()).unwrap();
        (guard, stopped)
    });
    let (guard, stopped) = acquired.await.unwrap();
    let waited = request(LEASE).wait(LEASE).acquire().await.unwrap();
    assert!(!guard.is_held() && waited.is_held());
    assert!(waited.release().await.unwrap().is_released());
    stopped.shutdown_background();
}

/// A client of either kind.
enum Owner {
    Native(LockManager),
    Visitor(ThriftLockManager),
}

enum Guard {
    Native(LockGuard),
    Visitor(ThriftLockGuard),
}

impl Owner {
    async fn try_lock(&self, id: &str) -> hbase_txn::Result<Option<Guard>> {
        Ok(match self {
            Self::Native(locks) => {
                let request = locks.lock(Level::Dc, id)?.ttl(LEASE);
                request.try_acquire().await?.map(Guard::Native)
            }
            Self::Visitor(locks) => {
                let request = locks.lock(Level::Dc, id)?.ttl(LEASE);
                request.try_acquire().await?.map(Guard::Visitor)
            }
        })
    }
}

impl Guard {
    fn fencing(&self) -> i64 {
        match self {
            Self::Native(guard) => guard.fencing(),
            Self::Visitor(guard) => guard.fencing(),
        }
    }

    async fn release(self) -> hbase_txn::Result<ReleaseOutcome> {
        match self {
            Self::Native(guard) => guard.release().await,
            Self::Visitor(guard) => guard.release().await,
        }
    }
}

/// The state that one lock protects.
#[derive(Default)]
struct Arena {
    inside: AtomicU32,
    overlaps: AtomicU32,
    last_fencing: AtomicI64,
    fallen: AtomicU32,
    entered: [AtomicU32; 2],
}

impl Arena {
    /// Returns whether owners of both kinds have entered.
    fn has_seen_both(&self) -> bool {
        self.entered.iter().all(|count| count.load(Ordering::SeqCst) > 0)
    }
}

/// Enters as often as possible, until both kinds have entered too. With lost answers, attempts and
/// releases may fail, and nothing else.
async fn spin(owner: Owner, id: &'static str, arena: Arc<Arena>, until: Instant, answers_are_lost: bool) {
    let patience = until + Duration::from_secs(60);
    while Instant::now() < until || (!arena.has_seen_both() && Instant::now() < patience) {
        let guard = match owner.try_lock(id).await {
            Ok(guard) => guard,
            Err(error) if answers_are_lost && error.kind() == ClientErrorKind::DeadlineExceeded => None,
            Err(error) => panic!("{error:?}"),
        };
        let Some(guard) = guard else {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..5))).await;
            continue;
        };
        if arena.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            arena.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        if arena.last_fencing.swap(guard.fencing(), Ordering::SeqCst) >= guard.fencing() {
            arena.fallen.fetch_add(1, Ordering::SeqCst);
        }
        arena.entered[usize::from(matches!(guard, Guard::Visitor(_)))].fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..3))).await;
        arena.inside.fetch_sub(1, Ordering::SeqCst);
        match guard.release().await {
            Ok(outcome) => assert_eq!(outcome, ReleaseOutcome::Released),
            Err(error) => assert!(
                answers_are_lost && error.kind() == ClientErrorKind::DeadlineExceeded,
                "{error:?}"
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn spinning_owners_of_both_kinds_never_overlap() {
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    for without_java_clients in [false, true] {
        let table = lock_table(&connection, "thrift", 1, without_java_clients).await;
        let until = Instant::now() + Duration::from_secs(4) * scale();
        let mut owners = JoinSet::new();
        let arenas = ["a", "b", "c"].map(|id| (id, Arc::<Arena>::default()));
        for (id, arena) in &arenas {
            for kind in 0..4 {
                let owner = match kind % 2 {
                    0 => Owner::Native(lock_manager(&connection, &table.name, "spin").await),
                    _ => Owner::Visitor(locks_of(&gateway, &table.name, "spin", without_java_clients).await),
                };
                owners.spawn(spin(owner, id, Arc::clone(arena), until, false));
            }
        }
        owners.join_all().await;
        for (id, arena) in &arenas {
            let entered = arena.entered.each_ref().map(|count| count.load(Ordering::SeqCst));
            println!("lock {id}: {} native and {} other cycles", entered[0], entered[1]);
            assert_eq!(arena.overlaps.load(Ordering::SeqCst), 0);
            assert_eq!(arena.fallen.load(Ordering::SeqCst), 0);
            assert!(arena.has_seen_both());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn owners_whose_answers_are_lost_never_overlap_either() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-lost", 1, false).await;
    let forwarder = Forwarder::to(port()).await;
    let gateway = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port))
        .operation_timeout(Duration::from_millis(1_500))
        .connect()
        .await
        .unwrap();
    let until = Instant::now() + Duration::from_secs(10) * scale();
    let arena = Arc::<Arena>::default();
    let mut owners = JoinSet::new();
    for kind in 0..4 {
        let owner = match kind % 2 {
            0 => Owner::Native(lock_manager(&connection, &table.name, "lost").await),
            _ => Owner::Visitor(locks_of(&gateway, &table.name, "lost", false).await),
        };
        owners.spawn(spin(owner, "a", Arc::clone(&arena), until, true));
    }
    while Instant::now() < until {
        forwarder.hold(false);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(300..1_500))).await;
        forwarder.hold(true);
        tokio::time::sleep(Duration::from_millis(1_700)).await;
    }
    forwarder.hold(false);
    owners.join_all().await;
    let entered = arena.entered.each_ref().map(|count| count.load(Ordering::SeqCst));
    println!("{} native and {} other cycles", entered[0], entered[1]);
    assert_eq!(arena.overlaps.load(Ordering::SeqCst), 0);
    assert_eq!(arena.fallen.load(Ordering::SeqCst), 0);
    assert!(arena.has_seen_both());
}

#[tokio::test]
#[ignore = "needs a Thrift gateway"]
async fn invalid_locks_are_refused() {
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    let table = lock_table(&connection, "thrift", 1, false).await;
    let open = async |options: ThriftLockManagerOptions, name: &str| {
        let opened = options.open(&gateway, name).await;
        opened.map(drop).unwrap_err()
    };
    let options = || ThriftLockManagerOptions::new("c").farm(FARM);
    let missing = open(options(), "thrift_no_such_table").await;
    assert_eq!(missing.kind(), ClientErrorKind::TableNotFound);
    says(
        &missing,
        &[
            "looking at the table",
            "thrift_no_such_table",
            "server 127.0.0.1",
            "LockManagerOptions::open_or_create",
        ],
    );
    let other = TestTable::create("thrift-other", crate::support::table::plain, &[]).await;
    let other_name = other.name.to_string();
    assert_eq!(
        open(options(), &other_name).await.kind(),
        ClientErrorKind::FamilyNotFound
    );
    Admin::new(&connection).disable_table(&other.name).await.unwrap();
    // The gateway learns of it when its cache turns out to be wrong.
    eventually("the gateway knows that the table is disabled", async || {
        let kind = open(options(), &other_name).await.kind();
        (kind == ClientErrorKind::TableDisabled).then_some(())
    })
    .await;
    let name = table.name.to_string();
    for options in [
        ThriftLockManagerOptions::new("c#d"),
        options().farm(""),
        options().holder("h".repeat(257)),
    ] {
        assert_eq!(open(options, &name).await.kind(), ClientErrorKind::InvalidInput);
    }
    let locks = locks_of(&gateway, &table.name, "c", false).await;
    assert_eq!(
        locks.lock(Level::Dc, "").unwrap_err().kind(),
        ClientErrorKind::InvalidInput
    );
    for lease in [Duration::from_millis(99), Duration::from_secs(31 * 24 * 3_600)] {
        let refused = locks.lock(Level::Dc, "a").unwrap().ttl(lease).acquire().await;
        assert_eq!(refused.unwrap_err().kind(), ClientErrorKind::InvalidInput);
    }
    let no_farm = ThriftLockManagerOptions::new("c")
        .open(&gateway, table.name.clone())
        .await
        .unwrap();
    assert_eq!(
        no_farm.lock(Level::Dc, "a").unwrap_err().kind(),
        ClientErrorKind::InvalidInput
    );
    assert!(
        no_farm
            .lock(Level::Xdc, "a")
            .unwrap()
            .try_acquire()
            .await
            .unwrap()
            .is_some()
    );
}
