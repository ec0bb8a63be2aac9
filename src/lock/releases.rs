//! Locks that this process released while other processes waited for them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    row_state::RowState,
    ticket::{TICKET_TTL, Ticket},
};

/// The locks that tasks of this process released while other processes waited for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentReleases(Arc<Mutex<HashMap<Bytes, Release>>>);

#[derive(Debug)]
pub(super) struct Release {
    pub(super) at: Instant,
    pub(super) held_for: Duration,
    /// The tickets of the processes that waited.
    pub(super) waiting: Vec<Ticket>,
}

impl RecentReleases {
    /// Records a release, with the rows of the lock as they were read after it.
    pub(super) fn record(&self, row: &Bytes, states: &[RowState], held_for: Duration) {
        let waiting = states
            .first()
            .map(|state| state.tickets.clone())
            .unwrap_or_default();
        let mut releases = self.releases();
        if waiting.is_empty() {
            releases.remove(row);
            return;
        }
        releases.retain(|_, release| release.at.elapsed() < TICKET_TTL);
        let release = Release {
            at: Instant::now(),
            held_for,
            waiting,
        };
        releases.insert(row.clone(), release);
    }

    pub(super) fn take(&self, row: &Bytes) -> Option<Release> {
        let release = self.releases().remove(row);
        release.filter(|release| release.at.elapsed() < TICKET_TTL)
    }

    fn releases(&self) -> MutexGuard<'_, HashMap<Bytes, Release>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
