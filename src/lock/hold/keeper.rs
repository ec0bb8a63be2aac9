//! The task that renews one lock if requested, and ends it when its lease expires.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::timeout_at;

use super::{CallSharing, Held, HeldLocation, clock::Moment};
use crate::error::{ErrorKind, Result};

/// A renewal is due after this fraction of the lease that was left after the last one.
const RENEW_AFTER: u32 = 3;
/// A renewal that is due later than this is due at its process's part of a second, as others are.
const MIN_ALIGNED: Duration = Duration::from_secs(2);
/// A failed renewal is tried again after about this fraction of it.
const RETRY_AFTER: u32 = 10;

pub(in crate::lock) async fn keep<L: HeldLocation>(held: Arc<Held<L>>) {
    keep_until_lost(&held).await;
    held.term.leave_session();
}

async fn keep_until_lost<L: HeldLocation>(held: &Held<L>) {
    let (clock, term) = (held.term.clock(), &held.term);
    // By this process's count, which is shorter than the lease by the margin.
    let mut span = term.left();
    let mut due = next_renewal(held, span);
    while let Some(until) = term.until() {
        if clock.has_reached(until) {
            term.end_if_over();
            continue;
        }
        let is_renewed = term.is_renewed();
        if !is_renewed || !clock.has_reached(due) {
            let next = if is_renewed { due.min(until) } else { until };
            // The session that ended is noticed at the loop's start.
            let _ = timeout_at(clock.slice(next), term.session_ended()).await;
            continue;
        }
        due = match renewal(held, until).await {
            Some(Ok(())) => {
                span = term.left();
                next_renewal(held, span)
            }
            Some(Err(error)) if error.kind() == ErrorKind::LockLost => break,
            Some(Err(error)) => {
                tracing::warn!(lock = %held.name, %error, "could not renew a lock");
                clock
                    .now()
                    .after((span / RETRY_AFTER).mul_f64(0.5 + fastrand::f64()))
            }
            None => until,
        };
    }
    term.end_if_over();
    let _tracked = held.location.begin_task();
    held.release_remains().await;
}

/// Returns when the renewal of a lease with this remaining time is due.
fn next_renewal<L: HeldLocation>(held: &Held<L>, span: Duration) -> Moment {
    let pause = span / RENEW_AFTER;
    let due = held.term.clock().now().after(pause);
    match held.location.renewal_phase() {
        Some(phase) if pause >= MIN_ALIGNED => due.aligned(phase),
        _ => due,
    }
}

/// Renews the lock. Returns `None` if its lease expired or its session ended first. The call has the
/// lease's deadline itself, but a delay of the call must not delay the end of the lease.
async fn renewal<L: HeldLocation>(held: &Held<L>, until: Moment) -> Option<Result<()>> {
    let clock = held.term.clock();
    let mut renewal = pin!(held.renew(clock.timer(until), CallSharing::Shared));
    while !clock.has_reached(until) {
        tokio::select! {
            biased;
            () = held.term.session_ended() => return None,
            renewed = timeout_at(clock.slice(until), &mut renewal) => {
                if let Ok(renewed) = renewed {
                    return Some(renewed);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use hbase_client::Environment;
    use tokio::{
        runtime::Handle,
        time::{Instant, sleep_until},
    };

    use super::*;
    use crate::{
        error::{ClientErrorKind, Error},
        lock::{
            LockLoss, LockToken, ReleaseOutcome,
            hold::{
                Hold,
                background::TrackedTask,
                clock::{Clock, simulated::Virtual},
                term::Term,
            },
        },
    };

    const LEASE: Duration = Duration::from_secs(30);
    const HELD_FOR: Duration = Duration::from_secs(300);

    /// A lock whose server answers for the first five minutes.
    struct Location {
        runtime: Handle,
        environment: Arc<Virtual>,
        clock: Clock,
        start: Moment,
        renewals: Arc<AtomicUsize>,
    }

    impl HeldLocation for Location {
        type Claim = ();

        fn environment(&self) -> &dyn Environment {
            &*self.environment
        }

        fn runtime(&self) -> &Handle {
            &self.runtime
        }

        fn deadline(&self) -> Instant {
            Instant::now() + LEASE
        }

        async fn renew(
            &self,
            (): &mut (),
            lease: Duration,
            deadline: Instant,
            _: CallSharing,
        ) -> Result<Result<Moment, LockLoss>> {
            let sent = self.clock.now();
            if sent.since(self.start) > HELD_FOR {
                sleep_until(deadline).await;
                return Err(Error::new(ClientErrorKind::DeadlineExceeded, "no answer"));
            }
            self.renewals.fetch_add(1, Ordering::Relaxed);
            Ok(Ok(sent.after(lease)))
        }

        async fn vacate(&self, (): &(), _: Instant) -> Result<ReleaseOutcome> {
            Ok(ReleaseOutcome::Released)
        }

        fn latest_end(&self, (): &()) -> Moment {
            self.start
        }

        fn is_renewed((): &()) -> bool {
            true
        }

        fn begin_task(&self) -> Option<TrackedTask> {
            None
        }

        fn in_context(&self, _: &str, error: Error) -> Error {
            error
        }
    }

    #[tokio::test(start_paused = true)]
    async fn minutes_of_renewals_take_no_real_time() {
        let real = std::time::Instant::now();
        let environment = Virtual::start();
        let clock = Clock::new(Arc::clone(&environment) as Arc<_>);
        let start = clock.now();
        let location = Location {
            runtime: Handle::current(),
            environment: Arc::clone(&environment),
            clock: clock.clone(),
            start,
            renewals: Arc::default(),
        };
        let renewals = Arc::clone(&location.renewals);
        let term = Term::new(clock.clone(), start, LEASE, Duration::ZERO, true);
        let token = LockToken::unique(&*environment);
        let hold = Hold::new("lock".to_owned(), location, (), (token, 1), term);
        hold.held.term.lost().await;
        // Renewed every 10 s, and lost one lease after the last renewal.
        assert_eq!(renewals.load(Ordering::Relaxed), 30);
        assert_eq!(clock.now().since(start), HELD_FOR + LEASE);
        // Timers have slices of a second.
        assert!(environment.readings() < 4_000, "{}", environment.readings());
        assert!(real.elapsed() < Duration::from_secs(1), "{:?}", real.elapsed());
    }
}
