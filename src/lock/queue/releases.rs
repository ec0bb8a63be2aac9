//! Locks that this process released, and rows of which it acquired holds, while other processes waited.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::ticket::{TICKET_TTL, Ticket};

/// The rows for which other processes waited when tasks of this process released or acquired them.
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
    /// Records the tickets in a row. A hold of it takes about this long.
    pub(in crate::lock) fn record(&self, row: &Bytes, waiting: Vec<Ticket>, held_for: Duration) {
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

    /// Records how long a hold of a row took whose tickets were recorded before.
    pub(in crate::lock) fn record_hold(&self, row: &Bytes, held_for: Duration) {
        if let Some(release) = self.releases().get_mut(row) {
            release.held_for = held_for;
        }
    }

    pub(in crate::lock) fn take(&self, row: &Bytes) -> Option<Release> {
        let release = self.releases().remove(row);
        release.filter(|release| release.at.elapsed() < TICKET_TTL)
    }

    fn releases(&self) -> MutexGuard<'_, HashMap<Bytes, Release>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
