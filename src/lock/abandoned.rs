//! Locks that nobody wants any more, and that may be held all the same: given back in the background.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{acquire::Bid, hold::Hold, place::Place};
use crate::client::Pauses;

/// How long an attempt whose answer was lost is waited for. A server drops a call that has waited longer than its client
/// would, and that of a client that is gone; behind this there is the lease.
pub(crate) const WATCH: Duration = Duration::from_secs(120);

/// Gives a hold back, until its lease is over.
pub(super) async fn vacate(place: &Place, hold: &Hold) {
    let mut pauses = Pauses::after_lost_answers();
    while !hold.is_over() {
        match place.vacate(hold, place.table.deadline()).await {
            Ok(_) => return,
            Err(error) => tracing::debug!(%error, "could not give a lock back"),
        }
        sleep(pauses.next()).await;
    }
}

/// Waits for an attempt whose answer was lost, and gives back what it won.
pub(super) async fn watch(bid: &Bid) {
    let end = Instant::now() + WATCH;
    let mut pauses = Pauses::after_lost_answers();
    while Instant::now() < end {
        match bid.place.give_back(bid.held.token, end).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "could not look for a lock that may have been won"),
        }
        sleep(pauses.next()).await;
    }
}
