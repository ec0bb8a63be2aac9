//! Futures that are dropped and threads that give up, at every point, including the moment of the
//! hand-over.

use std::sync::Barrier;

use super::*;

/// Polls a future up to `times` times, drops it, and returns whether it acquired the key.
fn poll_and_drop(locks: &IdLock, times: usize) -> bool {
    let mut acquire = locks.lock(7);
    (0..times).any(|_| poll(&mut acquire).is_some())
}

#[test]
fn a_future_that_is_dropped_after_any_poll_leaves_nothing() {
    let locks = IdLock::new();
    for times in 0..5 {
        assert_eq!(poll_and_drop(&locks, times), times > 0);
        assert!(locks.is_empty());
        let guard = locks.try_lock(7).unwrap();
        assert!(!poll_and_drop(&locks, times));
        assert_eq!(locks.waiters(7), 0);
        drop(guard);
        assert!(locks.is_empty());
    }
}

#[test]
fn future_dropped_after_the_handover_passes_the_key_on() {
    let locks = IdLock::new();
    for followers in 0..3 {
        let guard = locks.try_lock(7).unwrap();
        let mut dropped = locks.lock(7);
        assert!(poll(&mut dropped).is_none());
        let wakes: Arc<Wakes> = Default::default();
        let mut waiting: Vec<_> = (0..followers).map(|_| locks.lock(7)).collect();
        for waiting in &mut waiting {
            assert!(poll_with(waiting, &wakes).is_pending());
        }
        drop(guard);
        assert_eq!(wakes.count(), 0);
        drop(dropped);
        assert_eq!(wakes.count(), followers.min(1));
        for mut waiting in waiting {
            drop(poll(&mut waiting).unwrap());
        }
        assert!(locks.is_empty());
    }
}

#[test]
fn cancelled_waiter_leaves_the_queue_intact() {
    let locks = IdLock::new();
    for leaves in 0..5 {
        let guard = locks.try_lock(7).unwrap();
        let mut waiting: Vec<_> = (0..5).map(|_| locks.lock(7)).collect();
        assert!(waiting.iter_mut().all(|waiting| poll(waiting).is_none()));
        drop(waiting.remove(leaves));
        assert_eq!(locks.waiters(7), 4);
        drop(guard);
        for mut waiting in waiting {
            drop(poll(&mut waiting).unwrap());
        }
        assert!(locks.is_empty());
    }
}

/// The only waiter leaves while the holder releases. Afterwards the key is free and can be acquired
/// (HBASE-21292).
fn race(rounds: usize, wait_in_vain: impl Fn(&IdLock, &Barrier) + Sync) {
    let (locks, start) = (IdLock::new(), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                wait_in_vain(&locks, &start);
                start.wait();
            }
        });
        for round in 0..rounds {
            let guard = locks.lock(7).blocking();
            // The waiter has joined the queue; now both leave at the same time.
            start.wait();
            start.wait();
            for _ in 0..round % 64 {
                std::hint::spin_loop();
            }
            drop(guard);
            start.wait();
            assert!(locks.is_empty(), "round {round}");
            assert!(locks.try_lock(7).is_some(), "round {round}");
        }
    });
    assert!(locks.is_empty());
}

#[test]
fn the_only_waiter_is_dropped_at_the_moment_of_release() {
    race(20_000, |locks, start| {
        let mut acquire = locks.lock(7);
        start.wait();
        assert!(poll(&mut acquire).is_none());
        start.wait();
        drop(acquire);
    });
}

#[test]
fn the_only_waiter_times_out_at_the_moment_of_release() {
    let timed_out = AtomicUsize::new(0);
    race(5_000, |locks, start| {
        start.wait();
        start.wait();
        let deadline = Instant::now() + Duration::from_nanos(fastrand::u64(0..5_000));
        // Acquiring the key at the last moment is also correct.
        if locks.lock(7).blocking_until(deadline).is_err() {
            timed_out.fetch_add(1, Ordering::Relaxed);
        }
    });
    println!("{} of 5000 waited in vain", timed_out.into_inner());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_are_aborted_anywhere_leave_the_others_their_turn() {
    let locks = IdLock::new();
    for _ in 0..200 {
        let guard = locks.lock(7).await;
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let locks = locks.clone();
                tokio::spawn(async move { drop(locks.lock(7).await) })
            })
            .collect();
        for task in tasks.iter().step_by(2) {
            task.abort();
        }
        drop(guard);
        for (number, task) in tasks.into_iter().enumerate() {
            let ended = tokio::time::timeout(LONG, task)
                .await
                .expect("somebody is forgotten");
            assert!(ended.is_ok() || number % 2 == 0);
        }
        assert!(locks.is_empty());
    }
}
