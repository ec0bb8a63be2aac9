#[path = "../../examples/partition_owner.rs"]
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
use hbase_txn::lock::PartitionLocks;

use self::example::{OWNER, Owner, checked, run};
use crate::{Pattern, side_by_side, watched};

const ENTRIES: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn log_has_no_gap_and_no_late_entry_while_owners_fail() {
    let pattern = Pattern::new("partition_owner", run).await;
    let clients = Arc::new(pattern.clients().await);
    let written = Arc::new(AtomicUsize::new(0));
    let work = side_by_side(6, |worker| {
        let (clients, written) = (Arc::clone(&clients), Arc::clone(&written));
        async move {
            let client = &clients[worker % 4];
            let locks = PartitionLocks::open_as(client, format!("worker {worker}"))
                .await
                .unwrap();
            let (mut entries, mut late) = (0, 0);
            while written.load(Ordering::Relaxed) < ENTRIES {
                // The lease is not renewed: an owner that is suspended loses it.
                let lease = Duration::from_millis(600);
                let request = locks.lock("load", OWNER).unwrap().ttl(lease);
                let guard = request.wait(Duration::from_secs(30)).acquire().await.unwrap();
                let mut owner = Owner::with(client, "load", guard).await.unwrap();
                for _ in 0..fastrand::usize(1..12) {
                    match fastrand::u8(..40) {
                        0 => tokio::time::sleep(lease * 3 / 2).await,
                        1 => {
                            locks.force_release("load", OWNER).await.unwrap();
                        }
                        _ => {}
                    }
                    match owner.append(&format!("by {worker}")).await.unwrap() {
                        Some(_) => entries += 1,
                        None => {
                            late += 1;
                            break;
                        }
                    }
                    written.fetch_add(1, Ordering::Relaxed);
                }
                if fastrand::bool() {
                    entries += usize::from(owner.finish("goes").await.unwrap().is_some());
                }
            }
            (entries, late)
        }
    });
    let ended = watched(work, async || {
        checked(&clients[3], "load").await.unwrap();
    })
    .await;
    let (entries, late) = ended
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(checked(&clients[0], "load").await.unwrap().len(), entries);
    assert!(
        entries >= ENTRIES && late > 0,
        "{entries} entries, {late} came too late"
    );
}

#[tokio::test]
async fn moved_owner_writes_no_more_and_frees_the_shard() {
    let pattern = Pattern::new("partition_moved", run).await;
    let clients = pattern.clients().await;
    let locks = join_all(clients.iter().map(PartitionLocks::open)).await;
    let [ann, bob] = [0, 1].map(|at| (&clients[at], locks[at].as_ref().unwrap()));
    let patience = Duration::from_secs(10);
    let mut first = Owner::become_owner(ann.0, ann.1, "small", patience)
        .await
        .unwrap();
    assert_eq!(first.append("one").await.unwrap(), Some(1));
    assert!(bob.1.force_release("small", OWNER).await.unwrap().is_some());
    let mut second = Owner::become_owner(bob.0, bob.1, "small", patience)
        .await
        .unwrap();
    // The first owner has lost the lock, and its next number belongs to the second.
    assert_eq!(first.append("late").await.unwrap(), None);
    assert_eq!(second.append("two").await.unwrap(), Some(2));
    assert_eq!(first.finish("later").await.unwrap(), None);
    assert_eq!(second.finish("three").await.unwrap(), Some(3));
    let mut third = Owner::become_owner(ann.0, ann.1, "small", Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(third.append("four").await.unwrap(), Some(4));
    assert_eq!(
        checked(bob.0, "small").await.unwrap(),
        ["one", "two", "three", "four"]
    );
}
