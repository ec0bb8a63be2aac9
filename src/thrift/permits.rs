//! The number of connections that a gateway's calls may have open.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// The connections that a call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// The connections for all calls.
    Common,
    /// The connections for all calls and, if these are in use, those reserved for renewals.
    Renewals,
    /// The connections for all calls and, if these are in use, those reserved for releases.
    Releases,
}

/// The permits of all lanes. A permit is given to a call that takes it, never to one that waits: the
/// runtime of a waiting call may be stopped, and would keep the permit. So calls that wait are not
/// served in their order.
pub(super) struct Permits {
    /// By lane.
    free: Mutex<[usize; 3]>,
    returned: Notify,
}

/// The permission to use a connection, until it is dropped.
pub(super) struct Permit {
    permits: Arc<Permits>,
    lane: Lane,
}

impl Permits {
    /// Creates so many permits for each lane.
    pub(super) fn new(each: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new([each; 3]),
            returned: Notify::new(),
        })
    }

    /// Waits for a permit of a lane.
    pub(super) async fn take(self: &Arc<Self>, lane: Lane) -> Permit {
        loop {
            let mut returned = pin!(self.returned.notified());
            // From here on, no return is missed.
            returned.as_mut().enable();
            if let Some(permit) = self.try_take(lane) {
                return permit;
            }
            returned.await;
        }
    }

    fn try_take(self: &Arc<Self>, lane: Lane) -> Option<Permit> {
        let mut free = self.free();
        let lane = [Lane::Common, lane]
            .into_iter()
            .find(|lane| free[*lane as usize] > 0)?;
        free[lane as usize] -= 1;
        Some(Permit {
            permits: Arc::clone(self),
            lane,
        })
    }

    fn free(&self) -> MutexGuard<'_, [usize; 3]> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.free()[self.lane as usize] += 1;
        self.permits.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn reserved_permits_are_taken_last() {
        let permits = Permits::new(1);
        let common = permits.take(Lane::Common).await;
        let renewal = permits.take(Lane::Renewals).await;
        let release = permits.take(Lane::Releases).await;
        for lane in [Lane::Common, Lane::Renewals, Lane::Releases] {
            assert!(permits.try_take(lane).is_none(), "{lane:?}");
        }
        drop(common);
        let again = permits.take(Lane::Renewals).await;
        assert_eq!(again.lane, Lane::Common);
        drop((renewal, release));
        assert!(permits.try_take(Lane::Common).is_none());
    }

    /// As in a runtime that is not driven any more.
    #[tokio::test]
    async fn call_that_is_never_polled_again_keeps_no_permit() {
        let permits = Permits::new(1);
        let taken = permits.take(Lane::Common).await;
        let mut stopped = pin!(permits.take(Lane::Common));
        assert!(stopped.as_mut().now_or_never().is_none());
        let waiting = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.take(Lane::Common).await.lane }
        });
        tokio::task::yield_now().await;
        drop(taken);
        assert_eq!(waiting.await.unwrap(), Lane::Common);
        drop(stopped.await);
    }
}
