//! Watches over one lock: tells when its lease is over, and renews it where that is wanted.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::{clock::Moment, state::LockLoss};
use crate::error::{ErrorKind, Result};

/// Renewals are due when this part of the lease is over.
const RENEW_AFTER: u32 = 3;
/// A renewal that failed is tried again after this part of the lease.
const RETRY_AFTER: u32 = 10;
/// Timers stand still while the machine is suspended; the clock of leases does not. So it is looked at this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A hold that is watched over.
pub(crate) trait Kept: Send + Sync + 'static {
    /// What the lock is called.
    fn name(&self) -> &str;

    /// How long it is held without a renewal.
    fn lease(&self) -> Duration;

    /// When it is lost unless it is renewed; none when it is lost already, or released.
    fn until(&self) -> Option<Moment>;

    /// Renews it, until then.
    fn renew(&self, deadline: Instant) -> impl Future<Output = Result<()>> + Send;

    /// It is lost, for this reason.
    fn lose(&self, loss: LockLoss);
}

pub(crate) async fn keep(held: Arc<impl Kept>, renewed: bool) {
    let mut due = Moment::now().after(held.lease() / RENEW_AFTER);
    while let Some(until) = held.until() {
        if until.left().is_zero() {
            held.lose(LockLoss::Expired);
            return;
        }
        if !renewed || !due.left().is_zero() {
            let next = if renewed { due.min(until) } else { until };
            sleep_until(slice(next)).await;
            continue;
        }
        due = match renewal(&*held, until).await {
            Some(Ok(())) => Moment::now().after(held.lease() / RENEW_AFTER),
            Some(Err(error)) if error.kind() == ErrorKind::LockLost => return,
            Some(Err(error)) => {
                tracing::warn!(lock = %held.name(), %error, "could not renew a lock");
                Moment::now().after((held.lease() / RETRY_AFTER).mul_f64(0.5 + fastrand::f64()))
            }
            None => until,
        };
    }
}

/// Renews the lock; none when its lease was over before that came to an end. The call has that deadline itself, but whatever
/// holds it up must not hold up the end of the lease.
async fn renewal(held: &impl Kept, until: Moment) -> Option<Result<()>> {
    let mut renewal = pin!(held.renew(until.timer()));
    while !until.left().is_zero() {
        if let Ok(ended) = timeout_at(slice(until), &mut renewal).await {
            return Some(ended);
        }
    }
    None
}

/// A timer for this moment, or for a part of the way there.
fn slice(moment: Moment) -> Instant {
    moment.timer().min(Instant::now() + LONGEST_SLEEP)
}
