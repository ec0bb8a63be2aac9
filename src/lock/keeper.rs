//! The task that renews one lock if requested, and ends it when its lease expires.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::clock::{Moment, slice};
use crate::error::{ErrorKind, Result};

/// A renewal is due after this fraction of the lease that was left after the last one.
const RENEW_AFTER: u32 = 3;
/// A failed renewal is tried again after about this fraction of it.
const RETRY_AFTER: u32 = 10;

/// A hold with a keeper.
pub(crate) trait Renewable: Send + Sync + 'static {
    /// Returns the name of the lock.
    fn name(&self) -> &str;

    /// Returns when the lock is lost unless it is renewed. `None` if it is lost already, or
    /// released.
    fn until(&self) -> Option<Moment>;

    /// Returns whether it is renewed in the background.
    fn is_renewed(&self) -> bool;

    /// Renews it. The call ends by the deadline.
    fn renew(&self, deadline: Instant) -> impl Future<Output = Result<()>> + Send;

    /// Marks the lock as expired, unless it was renewed at this moment.
    fn expire(&self);
}

pub(crate) async fn keep(held: Arc<impl Renewable>) {
    // By this process's count, which is shorter than the lease by the margin.
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

/// Renews the lock. Returns `None` if its lease expired first. The call has that deadline itself,
/// but a delay of the call must not delay the end of the lease.
async fn renewal(held: &impl Renewable, until: Moment) -> Option<Result<()>> {
    let mut renewal = pin!(held.renew(until.timer()));
    while !until.left().is_zero() {
        if let Ok(ended) = timeout_at(slice(until), &mut renewal).await {
            return Some(ended);
        }
    }
    None
}
