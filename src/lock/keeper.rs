//! Watches one lock: ends it with its lease, and renews it if that is requested.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::clock::{Moment, slice};
use crate::error::{ErrorKind, Result};

/// Renewals are due when this part of what was left of the lease is over.
const RENEW_AFTER: u32 = 3;
/// A renewal that failed is tried again after this part of it.
const RETRY_AFTER: u32 = 10;

/// A hold that a keeper watches.
pub(crate) trait Renewable: Send + Sync + 'static {
    /// Returns the name of the lock.
    fn name(&self) -> &str;

    /// When it is lost unless it is renewed; none when it is lost already, or released.
    fn until(&self) -> Option<Moment>;

    /// Whether it is renewed in the background.
    fn is_renewed(&self) -> bool;

    /// Renews it, until then.
    fn renew(&self, deadline: Instant) -> impl Future<Output = Result<()>> + Send;

    /// Its lease is over, unless it was renewed in this moment.
    fn expire(&self);
}

pub(crate) async fn keep(held: Arc<impl Renewable>) {
    // By this side's count, which is shorter than the lease by the margin.
    let left = || held.until().map_or(Duration::ZERO, Moment::left);
    let mut span = left();
    let mut due = Moment::now().after(span / RENEW_AFTER);
    while let Some(until) = held.until() {
        if until.left().is_zero() {
            held.expire();
            continue;
        }
        let is_renewed = held.is_renewed();
        if !is_renewed || !due.left().is_zero() {
            let next = if is_renewed { due.min(until) } else { until };
            sleep_until(slice(next)).await;
            continue;
        }
        due = match renewal(&*held, until).await {
            Some(Ok(())) => {
                span = left();
                Moment::now().after(span / RENEW_AFTER)
            }
            Some(Err(error)) if error.kind() == ErrorKind::LockLost => return,
            Some(Err(error)) => {
                tracing::warn!(lock = %held.name(), %error, "could not renew a lock");
                Moment::now().after((span / RETRY_AFTER).mul_f64(0.5 + fastrand::f64()))
            }
            None => until,
        };
    }
}

/// Renews the lock; none when its lease was over before that came to an end. The call has that
/// deadline itself, but whatever holds it up must not hold up the end of the lease.
async fn renewal(held: &impl Renewable, until: Moment) -> Option<Result<()>> {
    let mut renewal = pin!(held.renew(until.timer()));
    while !until.left().is_zero() {
        if let Ok(ended) = timeout_at(slice(until), &mut renewal).await {
            return Some(ended);
        }
    }
    None
}
