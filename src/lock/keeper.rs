//! The task that renews one lock if requested, and ends it when its lease expires.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::clock::{Clock, Moment};
use crate::error::{ErrorKind, Result};

/// A renewal is due after this fraction of the lease that was left after the last one.
const RENEW_AFTER: u32 = 3;
/// A failed renewal is tried again after about this fraction of it.
const RETRY_AFTER: u32 = 10;

/// A hold with a keeper.
pub(crate) trait Renewable: Send + Sync + 'static {
    /// Returns the name of the lock.
    fn name(&self) -> &str;

    /// Returns the clock that counts its lease.
    fn clock(&self) -> &Clock;

    /// Returns when the lock is lost unless it is renewed. `None` if it is lost already, or
    /// released.
    fn until(&self) -> Option<Moment>;

    /// Returns whether it is renewed in the background.
    fn is_renewed(&self) -> bool;

    /// Renews it. The call ends by the deadline.
    fn renew(&self, deadline: Instant) -> impl Future<Output = Result<()>> + Send;

    /// Marks the lock as expired, unless it was renewed at this moment.
    fn expire(&self);

    /// Releases what the server may keep of a lock that has expired here: a renewal that was answered
    /// too late, or not at all, may have prolonged its lease.
    fn release_renewed(&self) -> impl Future<Output = ()> + Send;
}

pub(crate) async fn keep(held: Arc<impl Renewable>) {
    let clock = held.clock();
    // By this process's count, which is shorter than the lease by the margin.
    let left = || held.until().map_or(Duration::ZERO, |until| clock.left(until));
    let mut span = left();
    let mut due = clock.now().after(span / RENEW_AFTER);
    while let Some(until) = held.until() {
        if clock.has_reached(until) {
            held.expire();
            continue;
        }
        let is_renewed = held.is_renewed();
        if !is_renewed || !clock.has_reached(due) {
            let next = if is_renewed { due.min(until) } else { until };
            sleep_until(clock.slice(next)).await;
            continue;
        }
        due = match renewal(&*held, until).await {
            Some(Ok(())) => {
                span = left();
                clock.now().after(span / RENEW_AFTER)
            }
            Some(Err(error)) if error.kind() == ErrorKind::LockLost => return,
            Some(Err(error)) => {
                tracing::warn!(lock = %held.name(), %error, "could not renew a lock");
                clock
                    .now()
                    .after((span / RETRY_AFTER).mul_f64(0.5 + fastrand::f64()))
            }
            None => until,
        };
    }
    held.release_renewed().await;
}

/// Renews the lock. Returns `None` if its lease expired first. The call has that deadline itself,
/// but a delay of the call must not delay the end of the lease.
async fn renewal(held: &impl Renewable, until: Moment) -> Option<Result<()>> {
    let clock = held.clock();
    let mut renewal = pin!(held.renew(clock.timer(until)));
    while !clock.has_reached(until) {
        if let Ok(ended) = timeout_at(clock.slice(until), &mut renewal).await {
            return Some(ended);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::lock::clock::simulated::Virtual;

    const LEASE: Duration = Duration::from_secs(30);
    const HELD_FOR: Duration = Duration::from_secs(300);

    /// A lock whose server answers for the first five minutes.
    struct Held {
        clock: Clock,
        start: Moment,
        until: Mutex<Option<Moment>>,
        renewals: AtomicUsize,
    }

    impl Renewable for Held {
        fn name(&self) -> &'static str {
            "lock"
        }

        fn clock(&self) -> &Clock {
            &self.clock
        }

        fn until(&self) -> Option<Moment> {
            *self.until.lock().unwrap()
        }

        fn is_renewed(&self) -> bool {
            true
        }

        async fn renew(&self, _: Instant) -> Result<()> {
            if self.clock.now().since(self.start) > HELD_FOR {
                return std::future::pending().await;
            }
            self.renewals.fetch_add(1, Ordering::Relaxed);
            *self.until.lock().unwrap() = Some(self.clock.now().after(LEASE));
            Ok(())
        }

        fn expire(&self) {
            *self.until.lock().unwrap() = None;
        }

        async fn release_renewed(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn minutes_of_renewals_take_no_real_time() {
        let real = std::time::Instant::now();
        let environment = Virtual::start();
        let clock = Clock::new(Arc::clone(&environment) as Arc<_>);
        let start = clock.now();
        let held = Arc::new(Held {
            until: Mutex::new(Some(start.after(LEASE))),
            start,
            clock: clock.clone(),
            renewals: AtomicUsize::new(0),
        });
        keep(Arc::clone(&held)).await;
        // Renewed every 10 s, and lost one lease after the last renewal.
        assert_eq!(held.renewals.load(Ordering::Relaxed), 30);
        assert_eq!(clock.now().since(start), HELD_FOR + LEASE);
        // Timers have slices of a second.
        assert!(environment.readings() < 3_000, "{}", environment.readings());
        assert!(real.elapsed() < Duration::from_secs(1), "{:?}", real.elapsed());
    }
}
