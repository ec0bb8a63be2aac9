//! The guarantees of exclusive locks on single keys, and helpers for the other tests. Tests named
//! i1 to i6 cover bugs of HBase's own `IdLock`.

mod cancel;
mod load;
mod name;
mod read_write;
mod several;

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use super::{
    sync::{Arc, Instant},
    *,
};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(30);

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(20)
}

/// Yields until the condition holds.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::yield_now();
    }
}

/// Counts its wake-ups.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn poll_with<F: Future + Unpin>(future: &mut F, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(wakes));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match poll_with(future, &Arc::default()) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn a_key_has_one_holder_and_is_gone_afterwards() {
    let locks = IdLock::new();
    assert!(locks.is_empty() && !locks.is_locked(7));
    let guard = locks.try_lock(7).unwrap();
    assert!(locks.is_locked(7) && !locks.is_locked(8));
    assert!(locks.try_lock(7).is_none());
    let other = locks.try_lock(8).unwrap();
    assert_eq!(locks.len(), 2);
    assert!(locks.try_lock(7).is_none() && locks.try_lock(8).is_none());
    drop(guard);
    assert!(!locks.is_locked(7) && locks.is_locked(8));
    drop(other);
    assert!(locks.is_empty());
}

#[test]
fn any_number_of_ids_can_be_held_at_once() {
    let locks = IdLock::new();
    let mut guards: Vec<_> = (0..10_000).map(|id| locks.try_lock(id).unwrap()).collect();
    assert_eq!(locks.len(), 10_000);
    assert!((0..10_000).all(|id| locks.is_locked(id) && locks.try_lock(id).is_none()));
    fastrand::shuffle(&mut guards);
    guards.truncate(5_000);
    assert_eq!(locks.len(), 5_000);
    drop(guards);
    assert!(locks.is_empty());
    assert!((0..10_000).all(|id| locks.try_lock(id).is_some()));
    assert!(locks.is_empty());
}

#[test]
fn a_key_may_be_anything_that_can_be_hashed() {
    let locks: KeyedLock<String> = KeyedLock::new();
    let guard = locks.lock("orders".into()).blocking();
    assert!(locks.try_lock("orders".into()).is_none());
    assert!(locks.try_lock("invoices".into()).is_some());
    drop(guard);
    assert!(locks.try_lock("orders".into()).is_some());
    assert!(locks.is_empty());
}

#[test]
fn a_clone_is_the_same_map() {
    let locks = IdLock::new();
    let guard = locks.try_lock(7).unwrap();
    assert!(locks.clone().try_lock(7).is_none());
    drop(guard);
    assert!(locks.is_empty());
}

#[test]
fn i1_a_try_with_zero_time_returns_at_once() {
    let locks = IdLock::new();
    let guard = locks.try_lock(7).unwrap();
    let began = Instant::now();
    for passed in [began, began - Duration::from_millis(1)] {
        let error = locks.lock(7).blocking_until(passed).unwrap_err();
        assert!(error.to_string().contains("the key was held"), "{error}");
        let error = futures::executor::block_on(locks.lock(7).until(passed)).unwrap_err();
        assert!(error.to_string().contains("the key was held"), "{error}");
        assert!(locks.try_lock(7).is_none());
        assert!(locks.lock_all([7, 8]).blocking_until(passed).is_err());
    }
    assert!(began.elapsed() < LONG);
    assert_eq!(locks.waiters(7), 0);
    drop(guard);
    assert!(locks.is_empty(), "somebody got it who had given up");
    // A free key is acquired without waiting.
    drop(locks.lock(7).blocking_until(began).unwrap());
    drop(futures::executor::block_on(locks.lock(7).until(began)).unwrap());
    assert!(locks.is_empty());
}

#[test]
fn i2_a_guard_releases_once_and_never_a_later_holder() {
    let locks = IdLock::new();
    let mut waiting = locks.lock(7);
    let first = locks.try_lock(7).unwrap();
    assert!(poll(&mut waiting).is_none());
    drop(first.into_owned());
    let second = poll(&mut waiting).unwrap();
    drop(waiting);
    assert!(locks.try_lock(7).is_none(), "released twice");
    drop(second);
    assert!(locks.is_empty());
}

#[test]
fn i3_who_does_not_hold_releases_nothing() {
    let locks = IdLock::new();
    let guard = locks.try_lock(7).unwrap();
    let mut polled = locks.lock(7);
    assert!(poll(&mut polled).is_none());
    drop((polled, locks.lock(7)));
    assert!(locks.try_lock(7).is_none());
    // Only dropping the guard releases the key, even in another thread.
    thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
    assert!(locks.is_empty());
}

#[test]
fn i4_with_its_own_release_a_key_is_the_next_ones() {
    let locks = IdLock::new();
    for _ in 0..3_000 {
        let guard = locks.try_lock(7).unwrap();
        let mut waiting = locks.lock(7);
        assert!(poll(&mut waiting).is_none());
        drop(guard);
        assert!(locks.is_locked(7) && locks.waiters(7) == 0);
        assert!(locks.try_lock(7).is_none(), "somebody got between");
        drop(poll(&mut waiting).unwrap());
        assert!(locks.is_empty());
    }
}

#[tokio::test]
async fn i5_who_locks_twice_is_ended_by_the_deadline() {
    let locks = IdLock::new();
    let guard = locks.lock(7).await;
    let error = locks.lock(7).until(soon()).await.unwrap_err();
    assert_eq!(error.to_string(), "the key was held until the deadline");
    assert!(locks.lock(7).blocking_until(soon()).is_err());
    drop(guard);
    assert!(locks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn i6_a_deadline_is_on_a_monotonic_clock() {
    let locks = IdLock::new();
    let guard = locks.lock(7).await;
    let began = tokio::time::Instant::now();
    let hour = Duration::from_secs(3_600);
    assert!(locks.lock(7).until((began + hour).into_std()).await.is_err());
    assert!(began.elapsed() >= hour && began.elapsed() < hour + LONG);
    drop(guard);
    assert!(locks.is_empty());
}

#[test]
fn waiting_tasks_and_threads_are_served_in_order() {
    let (locks, order) = (IdLock::new(), Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let guard = locks.try_lock(7).unwrap();
    thread::scope(|scope| {
        let (locks, order) = (&locks, &order);
        for number in 0..20 {
            let runtime = &runtime;
            scope.spawn(move || {
                let guard = match number % 3 {
                    0 => locks.lock(7).blocking(),
                    1 => locks.lock(7).blocking_until(Instant::now() + LONG).unwrap(),
                    _ => runtime.block_on(locks.lock(7)),
                };
                order.lock().unwrap().push(number);
                drop(guard);
            });
            wait_for("a place in the queue", || locks.waiters(7) == number + 1);
        }
        drop(guard);
    });
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert!(locks.is_empty());
}

#[test]
fn only_the_first_is_woken_and_by_its_latest_waker() {
    let locks = IdLock::new();
    let guard = locks.try_lock(7).unwrap();
    let (mut first, mut second) = (locks.lock(7), locks.lock(7));
    let wakes: [Arc<Wakes>; 3] = Default::default();
    assert!(poll_with(&mut first, &wakes[0]).is_pending());
    assert!(poll_with(&mut second, &wakes[2]).is_pending());
    assert!(poll_with(&mut first, &wakes[1]).is_pending());
    drop(guard);
    assert_eq!(wakes.each_ref().map(|wakes| wakes.count()), [0, 1, 0]);
    let guard = poll(&mut first).unwrap();
    drop((guard, first));
    assert_eq!(wakes.each_ref().map(|wakes| wakes.count()), [0, 1, 1]);
    drop(second);
    assert!(locks.is_empty());
}

#[test]
fn polled_waiter_keeps_its_place() {
    let locks = IdLock::new();
    for way in 0..4 {
        let guard = locks.try_lock(7).unwrap();
        let (mut first, mut second) = (locks.lock(7), locks.lock(7));
        assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
        assert_eq!(locks.waiters(7), 2);
        thread::scope(|scope| {
            let going_on = scope.spawn(move || match way {
                0 => drop(first.blocking()),
                1 => drop(first.blocking_until(Instant::now() + LONG).unwrap()),
                2 => assert!(first.blocking_until(soon()).is_err()),
                _ => assert!(futures::executor::block_on(first.until(Instant::now())).is_err()),
            });
            if way >= 2 {
                going_on.join().unwrap();
                assert_eq!(locks.waiters(7), 1);
            }
            drop(guard);
        });
        drop(poll(&mut second).unwrap());
        assert!(locks.is_empty());
    }
}

#[test]
fn a_panic_releases_and_poisons_nothing() {
    let locks = IdLock::new();
    thread::scope(|scope| {
        let guard = locks.try_lock(7).unwrap();
        let waiting = scope.spawn(|| drop(locks.lock(7).blocking()));
        wait_for("a waiter", || locks.waiters(7) == 1);
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _guard = guard;
            panic!("while holding");
        }));
        assert!(panicked.is_err());
        waiting.join().unwrap();
    });
    assert!(locks.is_empty());
    drop(locks.try_lock(7).unwrap());
}

#[test]
fn a_guard_that_is_leaked_holds_its_key_and_no_other() {
    let locks = IdLock::new();
    std::mem::forget(locks.try_lock(7).unwrap());
    assert!(locks.lock(7).blocking_until(soon()).is_err());
    drop(locks.lock(8).blocking());
    assert_eq!(locks.len(), 1);
}

#[tokio::test]
async fn an_owned_guard_outlives_the_handle_and_goes_where_it_likes() {
    let locks = IdLock::new();
    let observer = locks.clone();
    let guard = locks.lock(7).await.into_owned();
    drop(locks);
    assert!(observer.is_locked(7));
    tokio::spawn(async move { drop(guard) }).await.unwrap();
    assert!(observer.is_empty());
}

#[test]
fn guards_and_futures_are_send() {
    fn sendable<T: Send + Sync>() {}
    sendable::<(IdLock, KeyedLock<String>, KeyedRwLock<String>)>();
    sendable::<(Acquire<'static, String>, KeyedGuard<'static, String>)>();
    sendable::<(AcquireAll<'static, String>, KeyedGuards<'static, String>)>();
}

#[test]
fn a_finished_future_says_so_when_it_is_polled_again() {
    let locks = IdLock::new();
    let mut acquire = locks.lock(7);
    drop(poll(&mut acquire).unwrap());
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(poll(&mut acquire))));
    assert!(panicked.is_err());
    assert!(locks.is_empty());
}
