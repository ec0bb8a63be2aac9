//! No cell on a lock's rows expires before the cells below it, whichever client held the lock
//! before, and whatever is flushed in between.

use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::{
    Level,
    admin::Admin,
    client::{Connection, Scan},
    lock::{LockLoss, LockManager, LockToken, ReleaseOutcome},
    thrift::ThriftLockManager,
};

use super::{GATEWAY, gateway, locks_of, scale};
use crate::support::{
    connect, eventually,
    lock_rows::{lock_manager, lock_row, lock_table},
    rows,
};

/// Short and long leases: a short lease must not reveal a long one that it covers.
const LEASES: [Duration; 3] = [
    Duration::from_millis(700),
    Duration::from_millis(1_500),
    Duration::from_secs(4),
];
const LATER: Duration = Duration::from_millis(500);
const SEQUENCES: usize = 24;
const HOLDS: usize = 3;

/// Both kinds of clients.
struct Clients {
    connection: Connection,
    native: LockManager,
    visitor: ThriftLockManager,
}

/// How a hold ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// The lease expires.
    Left,
    ByGuard,
    /// Released by token, natively or through the gateway.
    Natively,
    ThroughGateway,
}

const ENDINGS: [Ending; 4] = [
    Ending::Left,
    Ending::ByGuard,
    Ending::Natively,
    Ending::ThroughGateway,
];

/// Ends a hold of which only the token is left.
async fn end(
    clients: &Clients,
    id: &str,
    token: LockToken,
    ending: Ending,
) -> Option<hbase_txn::Result<ReleaseOutcome>> {
    match ending {
        Ending::Natively => Some(clients.native.release(Level::Dc, id, token).await),
        Ending::ThroughGateway => Some(clients.visitor.release(Level::Dc, id, token).await),
        Ending::Left | Ending::ByGuard => None,
    }
}

/// Fails with all cells of its rows if the lock is held.
async fn check_free(clients: &Clients, id: &str, story: &[String]) {
    let info = clients.native.show(Level::Dc, id).await.unwrap();
    if info.holder.is_some() {
        let table = clients.connection.table(clients.native.table().clone()).unwrap();
        let key = lock_row("over", id);
        let rows = rows(&table, Scan::new().raw()).await;
        let rows = rows.iter().filter(|row| row.key().starts_with(&key));
        panic!("{info:?}\n{story:#?}\n{:#?}", rows.collect::<Vec<_>>());
    }
}

/// Fails if a release reports anything else than success, or a loss although the lease cannot be
/// over.
fn check_told(told: Option<&ReleaseOutcome>, may_be_over: bool, story: &[String]) {
    match told {
        None | Some(ReleaseOutcome::Released) => {}
        // A guard releases what it renewed too late.
        Some(ReleaseOutcome::Lost(LockLoss::Expired | LockLoss::Removed)) if may_be_over => {}
        // A renewal that was cut short between its calls leaves a marker without an owner until the
        // renewed lease is over.
        Some(ReleaseOutcome::Lost(LockLoss::Taken(holder))) if may_be_over && holder.name.is_none() => {}
        other => panic!("{other:?}\n{story:#?}"),
    }
}

/// Whether a client may regard a lease as over: a tenth of it earlier than the server.
fn may_be_over(asked: Instant, lease: Duration) -> bool {
    asked.elapsed() >= lease - lease / 10
}

/// Acquires a lock three times, by either kind of client, and checks each time that it is free
/// afterwards.
async fn live(clients: &Clients, id: String, mut random: Rng) {
    let mut longest_end = Instant::now();
    let mut story = Vec::new();
    for number in 0..HOLDS {
        let lease = LEASES[random.usize(..LEASES.len())];
        // The hold in the middle always goes through the gateway: the test is about what it leaves
        // to the next.
        let is_native = number % 2 == 0 && random.bool();
        let (renewed, ending) = (random.bool(), ENDINGS[random.usize(..ENDINGS.len())]);
        let wait = Duration::from_secs(10);
        let asked = Instant::now();
        // Each kind of client waits for a free lock, which must come.
        let (renewal, release) = if is_native {
            let request = clients.native.lock(Level::Dc, &id).unwrap();
            let guard = request.ttl(lease).wait(wait).acquire().await.unwrap();
            let renewal = if renewed { Some(guard.renew().await) } else { None };
            match ending {
                Ending::ByGuard => (renewal, Some(guard.release().await)),
                ending => (renewal, end(clients, &id, guard.detach(), ending).await),
            }
        } else {
            let request = clients.visitor.lock(Level::Dc, &id).unwrap();
            let guard = request.ttl(lease).wait(wait).acquire().await.unwrap();
            let renewal = if renewed { Some(guard.renew().await) } else { None };
            match ending {
                Ending::ByGuard => (renewal, Some(guard.release().await)),
                ending => (renewal, end(clients, &id, guard.detach(), ending).await),
            }
        };
        let who = if is_native {
            "native"
        } else {
            "through the gateway"
        };
        story.push(format!(
            "{who}, {lease:?}, renewed: {renewal:?}, {ending:?}: {release:?}"
        ));
        let told = release
            .transpose()
            .unwrap_or_else(|error| panic!("{error}\n{story:#?}"));
        // A renewal that was cut short leaves a marker without an owner.
        let is_cut_short = matches!(renewal, Some(Err(_)));
        check_told(told.as_ref(), may_be_over(asked, lease) || is_cut_short, &story);
        longest_end = longest_end.max(Instant::now() + lease);
        if ending == Ending::Left || is_cut_short {
            // The server counts from its own write, which on a busy machine is later than the
            // request.
            let over = Instant::now() + lease + LATER;
            eventually("the lease is over", async || {
                (Instant::now() > over).then_some(())
            })
            .await;
        }
        check_free(clients, &id, &story).await;
    }
    // Until the longest lease would have ended, any of them could become visible again.
    while Instant::now() < longest_end + LATER {
        check_free(clients, &id, &story).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn released_long_lease_does_not_show_under_short_ones() {
    // The note of its release outlives its delete marker.
    const LONG: Duration = Duration::from_secs(100);
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    for without_java_clients in [false, true] {
        let table = lock_table(&connection, "thrift-long", 1, without_java_clients).await;
        let clients = Clients {
            connection: connection.clone(),
            native: lock_manager(&connection, &table.name, "over").await,
            visitor: locks_of(&gateway, &table.name, "over", without_java_clients).await,
        };
        let admin = Admin::new(&connection);
        let mut story = Vec::new();
        // Two of each, so that whichever client flushes, several versions lie above the long lease.
        for (lease, is_native) in [
            (LONG, false),
            (LEASES[1], false),
            (LEASES[0], false),
            (LEASES[1], true),
            (LEASES[0], true),
        ] {
            let asked = Instant::now();
            let wait = Duration::from_secs(10);
            let told = if is_native {
                let request = clients.native.lock(Level::Dc, "long").unwrap();
                let guard = request.ttl(lease).wait(wait).acquire().await.unwrap();
                guard.release().await.unwrap()
            } else {
                let request = clients.visitor.lock(Level::Dc, "long").unwrap();
                let guard = request.ttl(lease).wait(wait).acquire().await.unwrap();
                guard.release().await.unwrap()
            };
            story.push(format!("native: {is_native}, {lease:?}: {told:?}"));
            check_told(Some(&told), may_be_over(asked, lease), &story);
            admin.flush_table(&table.name).await.unwrap();
            check_free(&clients, "long", &story).await;
            // Until everything has expired except the note of the long lease.
            let over = asked + lease.min(LEASES[1]) + LATER;
            eventually("the short ones are over", async || {
                check_free(&clients, "long", &story).await;
                (Instant::now() > over).then_some(())
            })
            .await;
            admin.flush_table(&table.name).await.unwrap();
        }
        admin.major_compact_table(&table.name).await.unwrap();
        check_free(&clients, "long", &story).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn expired_lock_does_not_come_back() {
    let _gateway = GATEWAY.read().await;
    let (connection, gateway) = (connect().await, gateway().await);
    for without_java_clients in [false, true].repeat(scale() as usize) {
        let table = lock_table(&connection, "thrift-over", 1, without_java_clients).await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let clients = Clients {
            connection: connection.clone(),
            native: lock_manager(&connection, &table.name, "over").await,
            visitor: locks_of(&gateway, &table.name, "over", without_java_clients).await,
        };
        let mut random = Rng::with_seed(seed);
        let lives = (0..SEQUENCES).map(|number| live(&clients, format!("lock-{number}"), random.fork()));
        let admin = Admin::new(&connection);
        // Flushes drop the cells between two holds.
        let flushes = async {
            loop {
                admin.flush_table(&table.name).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            _ = join_all(lives) => {}
            () = flushes => {}
        }
    }
}
