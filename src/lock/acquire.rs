//! Taking a lock.

use futures::future::try_join_all;
use tokio::time::Instant;

use super::{
    clock::Moment,
    hold::Hold,
    layout::HELD,
    owner::{HeldBy, LockToken, Owner},
    place::{Change, Place},
    sight::{Grip, Sight},
};
use crate::{
    client::CallKind,
    error::{Effect, Result},
    model::{Get, Row},
};

/// How an attempt to take a lock ended.
#[derive(Debug)]
pub(super) enum Attempt {
    Won(Hold),
    /// Somebody has it, or will not say: the rows that are not this attempt's own.
    Lost(Vec<Sight>),
}

impl Attempt {
    /// What was seen of it, but for what the attempt itself had of it and gave back.
    fn lost(token: LockToken, mut sights: Vec<Sight>) -> Self {
        for sight in &mut sights {
            if sight.grip(token).is_some() {
                *sight = Sight::default();
            }
        }
        Self::Lost(sights)
    }
}

/// Who wants which lock.
#[derive(Clone, Debug)]
pub(super) struct Bid {
    pub(super) place: Place,
    /// What is to stand in its rows. The token is used for this one attempt.
    pub(super) held: HeldBy,
}

/// Tries to take locks that are in one region, each for itself, in one call, and tells what else was to be read behind
/// that. What was won in part is given back.
///
/// # Errors
///
/// Those of the calls. If the outcome is unknown, a bid's token may have its lock, or still take it.
pub(super) async fn attempt(
    bids: &[Bid],
    look_behind: Option<Get>,
    deadline: Instant,
) -> Result<(Vec<Attempt>, Option<Row>)> {
    let since = Moment::now();
    let places: Vec<_> = bids.iter().map(|bid| &bid.place).collect();
    let actions = bids
        .iter()
        .flat_map(|Bid { place, held }| (0..place.rows.rows.len()).map(|index| place.take(index, held)));
    let change = Change {
        operation: "acquiring the lock",
        actions: actions.collect(),
        // What is appended says itself what it lies on.
        look_before: bids.iter().any(|bid| !bid.place.rows.appended),
        look_behind,
        kind: CallKind::Write,
        deadline,
        places: &places,
    };
    let looks = change.send().await?;
    let (mut before, mut after) = (
        looks.before.unwrap_or_default().into_iter(),
        looks.after.into_iter(),
    );
    let settled = bids.iter().map(|bid| {
        let rows = bid.place.rows.rows.len();
        let before: Vec<_> = before.by_ref().take(rows).collect();
        let after: Vec<_> = after.by_ref().take(rows).collect();
        bid.settle(since, before, after, deadline)
    });
    // However harmless a failure is itself, rows may have been won before it.
    let attempts = try_join_all(settled)
        .await
        .map_err(|error| error.with_effect(Effect::Unknown))?;
    Ok((attempts, looks.behind))
}

impl Bid {
    async fn settle(
        &self,
        since: Moment,
        before: Vec<Sight>,
        after: Vec<Sight>,
        deadline: Instant,
    ) -> Result<Attempt> {
        match Hold::won(&self.held, since, &after) {
            Some(hold) => self.place.lay_bare(hold, &before, deadline).await,
            None => {
                self.place
                    .give_back_part(self.held.token, Some(&before), &after, deadline)
                    .await?;
                Ok(Attempt::lost(self.held.token, after))
            }
        }
    }
}

impl Place {
    /// Looks for what a transaction has won, that was sent since then.
    ///
    /// # Errors
    ///
    /// Those of the calls. What it won may be there all the same.
    pub(super) async fn claim(&self, held: &HeldBy, since: Moment, deadline: Instant) -> Result<Attempt> {
        let sights = self.look(deadline).await?;
        match Hold::won(held, since, &sights) {
            Some(hold) => self.lay_bare(hold, &[], deadline).await,
            None => Ok(Attempt::Lost(sights)),
        }
    }

    /// What lay on a row before it was gripped: what was appended says it itself, else it is what was seen there. None when
    /// nobody knows.
    pub(super) fn before(&self, grip: &Grip, seen: Option<&Sight>) -> Option<Sight> {
        match self.rows.appended {
            true => Some(grip.before()),
            false => seen.cloned(),
        }
    }

    /// Sees to it that nothing outlives the hold that lies under it: when the hold is over, the lock must be free.
    ///
    /// A row that was given back keeps what it had under the cells that say so, and those live as long. A flush may drop
    /// them from under a hold, and then a shorter hold would end with the old one in sight again.
    async fn lay_bare(&self, mut hold: Hold, before: &[Sight], deadline: Instant) -> Result<Attempt> {
        let mut actions = Vec::new();
        for (index, grip) in hold.grips.iter().enumerate() {
            let Some(before) = self.before(grip, before.get(index)) else {
                continue;
            };
            let Some(remains) = grip.outlived_by(&before) else {
                continue;
            };
            let mutation = if remains.timestamp < grip.timestamp {
                self.clear(index, remains.timestamp)
            } else {
                // A delete would take the hold itself along. So it lives as long as what it lies on.
                hold.longest = hold.longest.max(grip.depth(&before));
                hold.renewals += 1;
                let held = HeldBy {
                    ttl: hold.longest,
                    renewal: hold.renewals,
                    ..grip.held.clone()
                };
                self.rewrite(index, grip, HELD, &Owner::Held(held), hold.longest)
            };
            actions.push(self.if_held(index, grip, vec![mutation]));
        }
        if actions.is_empty() {
            return Ok(Attempt::Won(hold));
        }
        let after = self
            .change("clearing what lies under the lock", actions, deadline)
            .await?;
        match hold.look_again(&after) {
            true => Ok(Attempt::Won(hold)),
            false => {
                self.give_back_part(hold.token, Some(before), &after, deadline)
                    .await?;
                Ok(Attempt::lost(hold.token, after))
            }
        }
    }
}
