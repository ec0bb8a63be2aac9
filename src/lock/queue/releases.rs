//! Locks that this process released while other processes waited for them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::ticket::{TICKET_TTL, Ticket};
use crate::lock::protocol::row_state::RowState;

/// The locks that tasks of this process released while other processes waited for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentReleases(Arc<Mutex<HashMap<Bytes, Release>>>);

#[derive(Debug)]
pub(in crate::lock) struct Release {
    pub(in crate::lock) at: Instant,
    pub(super) held_for: Duration,
    /// The tickets of the processes that waited.
    pub(in crate::lock) waiting: Vec<Ticket>,
}

impl RecentReleases {
    /// Records a release, with the rows of the lock as they were read after it.
    pub(in crate::lock) fn record(&self, row: &Bytes, states: &[RowState], held_for: Duration) {
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

    pub(in crate::lock) fn take(&self, row: &Bytes) -> Option<Release> {
        let release = self.releases().remove(row);
        release.filter(|release| release.at.elapsed() < TICKET_TTL)
    }

    fn releases(&self) -> MutexGuard<'_, HashMap<Bytes, Release>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
