//! Connections that become silent while HBase is healthy: two owners never hold one lock, and no
//! renewed lock is lost.
//!
//! A client whose connections are never muted measures HBase's health. A lock that is lost while
//! the calls of that client are slow, as on a machine that also compiles, is counted separately.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::{
    client::{Connection, Get, Table},
    lock::{LockGuard, LockManager, LockRequest, ReleaseOutcome},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::locks::{Rig, Sort, locks_of, request};
use crate::{
    holds::History,
    proxy::{Action, Proxy},
    settings::Settings,
};

/// The number of clients with separate connections, and the number of owners of each.
const CLIENTS: usize = 8;
const OWNERS: usize = 16;
/// The number of clients with one owner that holds its lock all the time and only renews it.
const STAYING: usize = 4;
const LOCKS: usize = 256;
const LEASE: Duration = Duration::from_secs(6);
/// One of this many changes of a lock mutes its connection.
const MUTED: u32 = 2_000;
/// The same for renewals of a lock that stays, but at most this many in a row: an attempt takes a
/// third of the remaining lease, so the next one still has more than a second and a half.
const MUTED_STAYING: u32 = 3;
const MUTED_IN_A_ROW: u32 = 2;

/// HBase is healthy while the calls of a client that is never muted take less than this. The last
/// attempts to renew a lease have a few hundred milliseconds each.
const HEALTHY: Duration = Duration::from_millis(200);

struct Shared {
    cycles: usize,
    /// The owners continue at least until then: long enough for renewals.
    until: Instant,
    history: History,
    acquired: AtomicUsize,
    /// Calls without an answer.
    failed: AtomicUsize,
    /// Renewed locks that were lost while HBase was healthy.
    lost: AtomicUsize,
    /// Locks that were lost while HBase was slow.
    starved: AtomicUsize,
    /// The last time at which HBase was slow.
    slow: Mutex<Option<Instant>>,
}

impl Shared {
    fn count_lost(&self) {
        let slow = self
            .slow
            .lock()
            .unwrap()
            .is_some_and(|slow| slow.elapsed() < 2 * LEASE);
        let count = if slow { &self.starved } else { &self.lost };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.acquired.load(Ordering::Relaxed) >= self.cycles && Instant::now() >= self.until
    }
}

async fn come_and_go(shared: Arc<Shared>, locks: LockManager, mut rng: Rng) {
    while !shared.is_over() {
        let lock = rng.usize(..LOCKS);
        let request = request(&locks, &format!("lock-{lock}"), LEASE).auto_renew();
        match request.try_acquire().await {
            Ok(Some(guard)) => {
                let begun = shared.history.acquired(lock, guard.fencing());
                shared.acquired.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_micros(rng.u64(..2_000))).await;
                if !guard.is_held() {
                    shared.count_lost();
                }
                shared.history.ended(begun);
                match guard.release().await {
                    Ok(ReleaseOutcome::Lost(_)) => shared.count_lost(),
                    Ok(_) => {}
                    Err(_) => _ = shared.failed.fetch_add(1, Ordering::Relaxed),
                }
            }
            Ok(None) => {}
            Err(_) => _ = shared.failed.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Holds a lock while the other owners acquire and release; acquires it again if it is lost.
async fn stay(shared: Arc<Shared>, locks: LockManager, mut guard: LockGuard, lock: usize) {
    loop {
        let begun = shared.history.acquired(lock, guard.fencing());
        while !shared.is_over() && guard.is_held() {
            sleep(Duration::from_millis(20)).await;
        }
        let lost = !guard.is_held();
        shared.history.ended(begun);
        if !lost {
            return;
        }
        println!("lock {lock} was lost: {}", guard.lost().await);
        shared.count_lost();
        drop(guard);
        guard = loop {
            if shared.is_over() {
                return;
            }
            if let Ok(guard) = staying(&locks, lock).acquire().await {
                break guard;
            }
        };
    }
}

fn staying(locks: &LockManager, lock: usize) -> LockRequest {
    request(locks, &format!("lock-{lock}"), LEASE)
        .auto_renew()
        .wait(LEASE)
}

/// Mutes one of this many changes of locks, but at most this many in a row, and counts them.
fn mute(proxy: &Proxy, one_of: u32, in_a_row: u32, mut rng: Rng, count: &Arc<AtomicUsize>) {
    let (count, mut row) = (Arc::clone(count), 0);
    proxy.rule(move |request| {
        if request.method != "Multi" {
            return Action::Pass;
        }
        if row == in_a_row || rng.u32(..one_of) != 0 {
            row = 0;
            return Action::Pass;
        }
        row += 1;
        count.fetch_add(1, Ordering::Relaxed);
        Action::Blackhole
    });
}

/// Reads a row repeatedly, and records slow reads.
async fn measure(shared: Arc<Shared>, table: Table) {
    let (mut reads, mut slow) = (0, 0);
    while !shared.is_over() {
        let began = Instant::now();
        let read = table.get(Get::new("health")).await;
        reads += 1;
        if read.is_err() || began.elapsed() > HEALTHY {
            slow += 1;
            *shared.slow.lock().unwrap() = Some(Instant::now());
        }
        sleep(Duration::from_millis(50)).await;
    }
    println!("HBase was slow in {slow} of {reads} reads");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_locks_survive_muted_connections_and_never_overlap() {
    const TEST: &str = "locks_muted";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, Sort::OursAlone).await;
    let (proxy, mut proxies_of_staying) = (Proxy::new(), Vec::new());
    let mut guards = Vec::new();
    for lock in LOCKS..LOCKS + STAYING {
        let config = rig.cluster.config();
        let proxy = Proxy::new();
        proxies_of_staying.push(proxy.clone());
        let connection = Connection::builder(config).connector(proxy);
        let locks = locks_of(&connection.connect().await.unwrap(), &rig.name).await;
        let guard = staying(&locks, lock).acquire().await.unwrap();
        guards.push((lock, locks, guard));
    }
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(locks_of(&rig.behind(&proxy).await, &rig.name).await);
    }
    let muted = Arc::new(AtomicUsize::new(0));
    mute(&proxy, MUTED, u32::MAX, settings.rng(u64::MAX), &muted);
    for (part, proxy) in (1..).zip(&proxies_of_staying) {
        let rng = settings.rng(u64::MAX - part);
        mute(proxy, MUTED_STAYING, MUTED_IN_A_ROW, rng, &muted);
    }
    let shared = Arc::new(Shared {
        cycles: Settings::cycles(4_000, 1_000_000),
        until: Instant::now() + 2 * LEASE,
        history: History::new(),
        acquired: AtomicUsize::new(0),
        failed: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
        starved: AtomicUsize::new(0),
        slow: Mutex::default(),
    });
    let mut owners = JoinSet::new();
    let connection = Connection::builder(rig.cluster.config()).connect().await.unwrap();
    let table = connection.table(&rig.name).unwrap();
    owners.spawn(measure(Arc::clone(&shared), table));
    for (lock, locks, guard) in guards {
        owners.spawn(stay(Arc::clone(&shared), locks, guard, lock));
    }
    for (number, locks) in (0..).zip(clients.iter().cycle().take(CLIENTS * OWNERS)) {
        let owner = come_and_go(Arc::clone(&shared), locks.clone(), settings.rng(number));
        owners.spawn(owner);
    }
    while let Some(ended) = owners.join_next().await {
        ended.unwrap();
    }
    proxy.pass_all();
    for proxy in proxies_of_staying {
        proxy.pass_all();
    }
    let holds = shared.history.check();
    let [failed, lost, starved, muted] =
        [&shared.failed, &shared.lost, &shared.starved, &muted].map(|count| count.load(Ordering::Relaxed));
    println!(
        "{TEST}: {holds} holds, {muted} connections muted, {failed} calls failed, {lost} locks lost, {starved} more while \
         HBase was slow"
    );
    assert!(muted > 0, "the network was never silent");
    assert_eq!(lost, 0);
    rig.end().await;
}
