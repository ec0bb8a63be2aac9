#[path = "../../examples/fenced_partitions.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hbase_txn::{
    PartitionedTable,
    lock::{LockGuard, PartitionLocks},
};

use self::example::{Edition, LOCK, Publisher, checked, run};
use crate::{Pattern, side_by_side, watched};

const EDITIONS: usize = 60;
const SHOPS: [&str; 3] = ["load-a", "load-b", "load-c"];

async fn acquire(table: &PartitionedTable, holder: &str, lease: Duration) -> LockGuard {
    let locks = PartitionLocks::open_as(table, holder).await.unwrap();
    let request = locks.lock(LOCK.0, LOCK.1).unwrap().ttl(lease);
    request.wait(Duration::from_secs(30)).acquire().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn edition_has_one_price_everywhere_while_publishers_fail() {
    let pattern = Pattern::new("fenced_partitions", run).await;
    let clients = Arc::new(pattern.clients().await);
    let published = Arc::new(AtomicUsize::new(0));
    let late = Arc::new(AtomicUsize::new(0));
    let work = side_by_side(6, |worker| {
        let (clients, published, late) = (Arc::clone(&clients), Arc::clone(&published), Arc::clone(&late));
        async move {
            let client = &clients[worker % 4];
            let locks = PartitionLocks::open(client).await.unwrap();
            // Suspensions are random: the publishers continue until one came too late.
            while published.load(Ordering::Relaxed) < EDITIONS || late.load(Ordering::Relaxed) == 0 {
                // The lease is not renewed: a publisher that is suspended loses it.
                let lease = Duration::from_millis(600);
                let guard = acquire(client, &format!("worker {worker}"), lease).await;
                let Some(mut publisher) = Publisher::take_over(client, &SHOPS, guard).await.unwrap() else {
                    late.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                for _ in 0..fastrand::usize(1..8) {
                    match fastrand::u8(..20) {
                        0 => tokio::time::sleep(lease * 3 / 2).await,
                        1 => {
                            locks.force_release(LOCK.0, LOCK.1).await.unwrap();
                        }
                        _ => {}
                    }
                    if publisher
                        .publish(fastrand::i64(1..1_000))
                        .await
                        .unwrap()
                        .is_none()
                    {
                        late.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    published.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    watched(work, async || {
        checked(&clients[3], &SHOPS).await.unwrap();
    })
    .await;
    let guard = acquire(&clients[0], "last", Duration::from_secs(30)).await;
    let last = Publisher::take_over(&clients[0], &SHOPS, guard).await.unwrap();
    assert!(last.is_some());
    let editions = checked(&clients[0], &SHOPS).await.unwrap();
    assert!(
        editions
            .iter()
            .all(|number| *number == editions[0] && *number >= EDITIONS),
        "{editions:?}"
    );
}

#[tokio::test]
async fn stale_holder_is_refused_in_every_partition() {
    const SHOPS: [&str; 3] = ["small-a", "small-b", "small-c"];
    let pattern = Pattern::new("fenced_stale", run).await;
    let clients = pattern.clients().await;
    let edition = |number, cents| Edition { number, cents };
    let lease = Duration::from_secs(30);
    let guard = acquire(&clients[0], "first", lease).await;
    let mut first = Publisher::take_over(&clients[0], &SHOPS, guard)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first.publish(100).await.unwrap(), Some(edition(1, 100)));
    // The first publisher stops after one shop, and does not learn that its lock is revoked.
    assert!(first.write(SHOPS[0], edition(2, 200)).await.unwrap());
    let locks = PartitionLocks::open(&clients[1]).await.unwrap();
    assert!(locks.force_release(LOCK.0, LOCK.1).await.unwrap().is_some());
    let guard = acquire(&clients[1], "second", lease).await;
    let mut second = Publisher::take_over(&clients[1], &SHOPS, guard)
        .await
        .unwrap()
        .unwrap();
    // The second publisher has completed the edition.
    assert_eq!(checked(&clients[1], &SHOPS).await.unwrap(), [2, 2, 2]);
    for shop in SHOPS {
        assert!(!first.write(shop, edition(3, 300)).await.unwrap(), "{shop}");
    }
    assert_eq!(first.publish(300).await.unwrap(), None);
    assert_eq!(checked(&clients[1], &SHOPS).await.unwrap(), [2, 2, 2]);
    assert_eq!(second.publish(400).await.unwrap(), Some(edition(3, 400)));
    assert_eq!(checked(&clients[1], &SHOPS).await.unwrap(), [3, 3, 3]);
}

#[tokio::test]
async fn partition_with_a_higher_fence_is_not_taken_over() {
    let pattern = Pattern::new("fenced_higher", run).await;
    let clients = pattern.clients().await;
    let lease = Duration::from_secs(30);
    let stale = acquire(&clients[0], "first", lease).await;
    let locks = PartitionLocks::open(&clients[1]).await.unwrap();
    assert!(locks.force_release(LOCK.0, LOCK.1).await.unwrap().is_some());
    let guard = acquire(&clients[1], "second", lease).await;
    let second = Publisher::take_over(&clients[1], &SHOPS[1..], guard)
        .await
        .unwrap();
    assert!(second.is_some());
    let first = Publisher::take_over(&clients[0], &SHOPS, stale).await.unwrap();
    assert!(first.is_none());
}
