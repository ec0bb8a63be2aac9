//! Paused owners, lost requests, moving regions, killed servers.

use std::{sync::mpsc, thread, time::Duration};

use fastrand::Rng;
use hbase_txn::{
    Level,
    client::Connection,
    lock::{LockLoss, ReleaseOutcome},
};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Rig, Sort,
    contest::{Contest, Terms, highest, prepare, write_fenced},
    locks_of, request,
};
use crate::{
    cluster::{PATIENCE, until},
    proxy::{Action, Proxy},
    regions::Shuffler,
    settings::Settings,
};

const SORTS: [Sort; 2] = [Sort::OursAlone, Sort::WithCompanions];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_paused_past_its_lease_sees_the_loss_and_does_no_harm() {
    const TEST: &str = "lock_paused";
    const LEASE: Duration = Duration::from_secs(5);
    let settings = Settings::of(TEST);
    for sort in settings.variants(SORTS) {
        let rig = Rig::new(TEST, &settings, sort).await;
        let data = rig.connection.table(rig.name.clone()).unwrap();
        prepare(&data, 1).await;
        // A separate runtime, which stops as a whole: its guard does not notice the time, and
        // nothing renews the lease.
        let (config, name) = (rig.cluster.config(), rig.name.clone());
        let (acquired, when_acquired) = oneshot::channel();
        let (wake, sleep) = mpsc::channel::<()>();
        let paused = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let connection = Connection::builder(config).connect().await.unwrap();
                let locks = locks_of(&connection, &name).await;
                let guard = request(&locks, "lock-0", LEASE)
                    .auto_renew()
                    .acquire()
                    .await
                    .unwrap();
                let fencing = guard.fencing();
                acquired.send(fencing).unwrap();
                sleep.recv().unwrap();
                assert!(!guard.is_held() && guard.remaining().is_zero());
                assert_eq!(guard.lost().await, LockLoss::Expired);
                let data = connection.table(name).unwrap();
                assert!(!write_fenced(&data, 0, fencing).await.unwrap(), "a stale write");
                let outcome = guard.release().await.unwrap();
                assert!(
                    matches!(outcome, ReleaseOutcome::Lost(LockLoss::Taken(_))),
                    "{outcome}"
                );
            });
        });
        let stale = when_acquired.await.unwrap();
        let locks = rig.locks().await;
        let guard = request(&locks, "lock-0", PATIENCE)
            .wait(PATIENCE)
            .acquire()
            .await
            .unwrap();
        assert!(guard.fencing() > stale);
        assert!(write_fenced(&data, 0, guard.fencing()).await.unwrap());
        wake.send(()).unwrap();
        tokio::task::spawn_blocking(|| paused.join())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(highest(&data, 0).await, guard.fencing());
        // The release of the former holder did not affect this lock.
        assert!(guard.release().await.unwrap().is_released());
        rig.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_is_reported_before_the_next_holder_despite_silence() {
    const TEST: &str = "lock_silence";
    const LEASE: Duration = Duration::from_secs(2);
    let settings = Settings::of(TEST);
    for sort in settings.variants(SORTS) {
        let rig = Rig::new(TEST, &settings, sort).await;
        let proxy = Proxy::new();
        let behind = rig.behind(&proxy).await;
        let (locks, others) = (locks_of(&behind, &rig.name).await, rig.locks().await);
        for renewed in [false, true] {
            let mine = request(&locks, "silent", LEASE);
            let mine = if renewed { mine.auto_renew() } else { mine };
            let guard = mine.wait(2 * LEASE).acquire().await.unwrap();
            proxy.rule(|_| Action::Blackhole);
            let silent = Instant::now();
            let told = async {
                let loss = guard.lost().await;
                (loss, Instant::now())
            };
            let next = async {
                // The next holder releases the lock within its lease, also on a busy machine.
                let next = request(&others, "silent", PATIENCE)
                    .wait(PATIENCE)
                    .acquire()
                    .await;
                (next.unwrap(), Instant::now())
            };
            let ((loss, told), (next, in_at)) = tokio::join!(told, next);
            assert_eq!(loss, LockLoss::Expired);
            assert!(told < in_at, "told {:?} late", told - in_at);
            assert!(told - silent < LEASE, "told after {:?}", told - silent);
            assert!(!guard.is_held());
            proxy.pass_all();
            assert!(next.release().await.unwrap().is_released());
            // The connections stay silent until a call on them has timed out, for `hbase:meta` too.
            until("answer", PATIENCE, async || {
                locks.show(Level::Dc, "silent").await.ok()
            })
            .await;
            assert!(!guard.release().await.unwrap().is_released());
        }
        behind.close().await;
        rig.end().await;
    }
}

/// Chooses the treatment of a request by chance.
pub(crate) fn misfortune(rng: &mut Rng) -> Action {
    let late = Duration::from_millis(rng.u64(1..1_500));
    match rng.u8(..100) {
        0..1 => Action::DropAnswer,
        1..2 => Action::DropRequest,
        2..3 => Action::Detour(late),
        3..6 => Action::Again(late),
        6..7 => Action::DelayRequest(late),
        7..12 => Action::DelayAnswer(late),
        12..13 => Action::CutBeforeAnswer,
        13..14 => Action::Duplicate,
        _ => Action::Pass,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_has_one_holder_under_region_moves_and_server_kills() {
    const TEST: &str = "lock_servers";
    let settings = Settings::of(TEST);
    for sort in settings.variants(SORTS) {
        let rig = Rig::new(TEST, &settings, sort).await;
        let mut connections = Vec::new();
        for _ in 0..6 {
            let config = rig
                .cluster
                .config()
                .with_operation_timeout(Duration::from_secs(5));
            connections.push(Connection::builder(config).connect().await.unwrap());
        }
        let terms = Terms {
            locks: 3,
            lease: Duration::from_millis(1_500),
        };
        let mut contest = Contest::start(&connections, &rig.name, terms, |owner| settings.rng(owner)).await;
        let mut shuffler = Shuffler::new(&rig.connection, &rig.name, settings.rng(77));
        for _ in 0..settings.rounds {
            for _ in 0..6 {
                shuffler.move_one().await;
                contest.goes_on(5, PATIENCE).await;
            }
            let server = shuffler.rng.u16(1..=3);
            rig.cluster.kill(server).await;
            contest.goes_on(10, PATIENCE).await;
            rig.cluster.start(server).await;
            contest.goes_on(10, PATIENCE).await;
        }
        contest.loses(PATIENCE).await;
        assert!(shuffler.done.moved > 0);
        rig.cluster.settle(&rig.connection).await;
        contest.stop(TEST).await;
        for connection in connections {
            connection.close().await;
        }
        rig.end().await;
    }
}

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lock_has_one_holder_under_lost_late_and_repeated_requests() {
        const TEST: &str = "lock_faults";
        let settings = Settings::of(TEST);
        for sort in settings.variants(SORTS) {
            let rig = Rig::new(TEST, &settings, sort).await;
            let proxy = Proxy::new();
            let mut connections = Vec::new();
            for _ in 0..8 {
                connections.push(rig.behind(&proxy).await);
            }
            let terms = Terms {
                locks: 3,
                lease: Duration::from_millis(1_000),
            };
            let mut contest =
                Contest::start(&connections, &rig.name, terms, |owner| settings.rng(owner)).await;
            let mut rng = settings.rng(99);
            proxy.rule(move |request| match request.method.as_str() {
                "Multi" => misfortune(&mut rng),
                _ => Action::Pass,
            });
            contest.goes_on(60 * settings.rounds as usize, PATIENCE).await;
            // The faults have caused failures and losses.
            contest.fails(PATIENCE).await;
            contest.loses(PATIENCE).await;
            proxy.pass_all();
            contest.stop(TEST).await;
            for connection in connections {
                connection.close().await;
            }
            rig.end().await;
        }
    }
}
