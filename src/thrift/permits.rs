//! The number of connections that a gateway's calls may have open.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

/// The permits of all lanes.
pub(super) struct Permits {
    common: Arc<Semaphore>,
    renewals: Arc<Semaphore>,
    releases: Arc<Semaphore>,
}

/// The permission to use a connection, until it is dropped.
pub(super) type Permit = OwnedSemaphorePermit;

impl Permits {
    /// Creates so many permits for each lane.
    pub(super) fn new(each: usize) -> Self {
        let permits = || Arc::new(Semaphore::new(each));
        Self {
            common: permits(),
            renewals: permits(),
            releases: permits(),
        }
    }

    /// Waits for a permit of a lane. Always returns one, because no semaphore is ever closed.
    pub(super) async fn take(&self, lane: Lane) -> Option<Permit> {
        let common = Arc::clone(&self.common).acquire_owned();
        let reserved = match lane {
            Lane::Common => return common.await.ok(),
            Lane::Renewals => &self.renewals,
            Lane::Releases => &self.releases,
        };
        tokio::select! {
            biased;
            permit = common => permit.ok(),
            permit = Arc::clone(reserved).acquire_owned() => permit.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn reserved_permits_are_taken_last() {
        let permits = Permits::new(1);
        let take = |lane| permits.take(lane).now_or_never().flatten();
        let common = take(Lane::Common);
        let renewal = take(Lane::Renewals);
        let release = take(Lane::Releases);
        assert!(common.is_some() && renewal.is_some() && release.is_some());
        for lane in [Lane::Common, Lane::Renewals, Lane::Releases] {
            assert!(take(lane).is_none(), "{lane:?}");
        }
        drop(common);
        let common = take(Lane::Renewals);
        drop((renewal, release));
        assert!(take(Lane::Common).is_none());
        drop(common);
        assert!(take(Lane::Common).is_some());
    }
}
