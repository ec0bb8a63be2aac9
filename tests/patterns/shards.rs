#[path = "../../examples/shards.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use tokio::time::{sleep, timeout};

use self::example::{SHARDS, Worker, open, owner, run, share_out_all, workers};
use crate::{LIMIT, Pattern, side_by_side};

/// The workers of each shard at one moment, and how often there were two, or a lock was lost.
#[derive(Default)]
struct Tally {
    working: [AtomicUsize; SHARDS as usize],
    worked: AtomicUsize,
    conflicts: AtomicUsize,
    lapses: AtomicUsize,
}

impl Tally {
    /// Works on each shard of a worker for a moment.
    async fn work(&self, worker: &Worker) {
        for (shard, lock) in &worker.shards {
            let working = &self.working[*shard as usize];
            let others = working.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(3)).await;
            let most = working.fetch_sub(1, Ordering::SeqCst).max(others + 1);
            self.worked.fetch_add(1, Ordering::Relaxed);
            self.conflicts.fetch_add(usize::from(most > 1), Ordering::Relaxed);
            self.lapses
                .fetch_add(usize::from(!lock.is_held()), Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_shard_has_one_owner_while_workers_come_and_go() {
    let pattern = Pattern::new("shards", run).await;
    let table = pattern.table.name.to_string();
    let opened = pattern
        .connections
        .iter()
        .map(async |connection| open(connection, &table).await.unwrap());
    let locks = Arc::new(join_all(opened).await);
    let tally = Arc::new(Tally::default());
    side_by_side(6, |number| {
        let (locks, tally) = (Arc::clone(&locks), Arc::clone(&tally));
        async move {
            let locks = &locks[number % 4];
            for life in 0..4 {
                let name = format!("worker {number}, life {life}");
                let mut worker = Worker::start(locks, &name).await.unwrap();
                for _ in 0..fastrand::usize(5..20) {
                    let members = workers(locks).unwrap().members().await.unwrap();
                    worker.share_out(&members).await.unwrap();
                    tally.work(&worker).await;
                }
                match fastrand::u8(..3) {
                    0 => worker.die(),
                    1 => drop(worker),
                    _ => drop(worker.session.clone().close().await.unwrap()),
                }
            }
        }
    })
    .await;
    let [worked, conflicts, lapses] =
        [&tally.worked, &tally.conflicts, &tally.lapses].map(|count| count.load(Ordering::Relaxed));
    println!("{worked} pieces of work, {lapses} locks lost");
    assert!(conflicts <= lapses, "{conflicts} times two workers had a shard");
    assert!(worked > 50, "{worked} pieces of work");

    // When nothing changes any more, each shard is at the member to which it belongs.
    let mut team = Vec::new();
    for (number, locks) in locks.iter().enumerate() {
        let name = format!("last {number}");
        team.push(Worker::start(locks, &name).await.unwrap());
    }
    let group = workers(&locks[0]).unwrap();
    let sharing = async {
        // The dead are listed until their leases have expired.
        while group.members().await.unwrap().len() > team.len() {
            sleep(Duration::from_millis(100)).await;
        }
        share_out_all(&group, &mut team).await.unwrap();
    };
    timeout(LIMIT, sharing).await.expect("all shards are shared out");
    let members = group.members().await.unwrap();
    for shard in 0..SHARDS {
        let owner = owner(&members, shard).unwrap().holder.name.clone();
        let owns = |worker: &&Worker| worker.shards.contains_key(&shard);
        let owners: Vec<_> = team
            .iter()
            .filter(owns)
            .map(|worker| worker.session.name())
            .collect();
        assert_eq!(owners, [owner.unwrap()], "shard {shard}");
    }
}
