//! Several keys at once.

use super::*;

#[test]
fn all_keys_are_held_each_once_and_released_together() {
    let locks = IdLock::new();
    let all = locks.try_lock_all([3, 1, 2, 3, 1]).unwrap();
    assert_eq!((all.len(), locks.len()), (3, 3));
    assert!((1..=3).all(|id| locks.is_locked(id)));
    drop(all.into_owned());
    assert!(locks.is_empty());
    let none = locks.try_lock_all([]).unwrap();
    assert!(none.is_empty());
}

#[test]
fn none_is_held_when_one_is_not_there_in_time() {
    let locks = IdLock::new();
    let busy = locks.try_lock(2).unwrap();
    assert!(locks.try_lock_all([1, 2, 3]).is_none());
    let error = locks.lock_all([1, 2, 3]).blocking_until(soon()).unwrap_err();
    assert_eq!(error.to_string(), "one of the keys was held until the deadline");
    assert_eq!((locks.len(), locks.waiters(2)), (1, 0));
    drop(busy);
    drop(locks.lock_all([1, 2, 3]).blocking());
    assert!(locks.is_empty());
}

#[tokio::test]
async fn one_deadline_is_for_all_keys_together() {
    let locks = IdLock::new();
    let (first, last) = (locks.lock(1).await, locks.lock(2).await);
    let deadline = Instant::now() + Duration::from_millis(100);
    let (got, ()) = tokio::join!(locks.lock_all([1, 2]).until(deadline), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(first);
    });
    assert!(got.is_err() && Instant::now() >= deadline);
    assert_eq!(locks.len(), 1);
    drop(last);
    drop(locks.lock_all([1, 2]).until(soon()).await.unwrap());
    assert!(locks.is_empty());
}

#[test]
fn a_future_that_is_dropped_at_any_point_leaves_nothing() {
    let locks = IdLock::new();
    for polls in 0..4 {
        let mut others: Vec<_> = (1..=3).rev().map(|id| locks.try_lock(id).unwrap()).collect();
        let mut acquire = locks.lock_all([1, 2, 3]);
        for _ in 0..polls {
            assert!(poll(&mut acquire).is_none());
            others.pop();
        }
        drop(acquire);
        assert_eq!(locks.len(), others.len());
        drop(others);
        assert!(locks.is_empty());
    }
}

#[test]
fn keys_are_taken_in_their_order_and_nobody_waits_in_a_circle() {
    let locks = IdLock::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let mut ids: Vec<u64> = (0..6).collect();
                    fastrand::shuffle(&mut ids);
                    ids.truncate(fastrand::usize(1..=4));
                    let deadline = Instant::now() + LONG;
                    let all = locks.lock_all(ids.clone()).blocking_until(deadline).unwrap();
                    assert!(ids.iter().all(|id| locks.try_lock(*id).is_none()));
                    drop(all);
                }
            });
        }
    });
    assert!(locks.is_empty());
}
