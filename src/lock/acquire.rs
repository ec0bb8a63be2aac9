//! Taking a lock.

use futures::future::try_join_all;
use tokio::time::Instant;

use super::{
    clock::Moment,
    hold::Hold,
    layout::HELD,
    owner::{HeldBy, LockToken, Millis, Owner},
    place::{Change, Place},
    sight::{Grip, Sight},
};
use crate::{
    client::CallKind,
    error::{Effect, Result},
    model::{Get, Mutation, Row},
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

    /// What lay on a row before it was gripped: what was appended says it itself, and so does what was written when that was
    /// cleared; else it is what was seen there. None when nobody knows.
    pub(super) fn before(&self, grip: &Grip, seen: Option<&Sight>) -> Option<Sight> {
        match self.rows.appended || grip.held.over.is_some() {
            true => Some(grip.before()),
            false => seen.cloned(),
        }
    }

    /// Sees to it that nothing outlives the hold that lies under it: when the hold is over, the lock must be free.
    ///
    /// A row that was given back keeps what it had under the cells that say so, and those live as long. A flush may drop
    /// them from under a hold, and then a shorter hold would end with the old one in sight again. A flush may also drop the delete
    /// marker, from under two holds; so the hold says what was cleared, and who releases it passes that on.
    async fn lay_bare(&self, mut hold: Hold, before: &[Sight], deadline: Instant) -> Result<Attempt> {
        let before: Vec<Sight> = hold
            .grips
            .iter()
            .enumerate()
            .map(|(index, grip)| self.before(grip, before.get(index)).unwrap_or_default())
            .collect();
        let Some(depth) = deepest(&hold.grips, &before) else {
            return Ok(Attempt::Won(hold));
        };
        // It counts from the timestamp before the hold's own: `Grip::before`.
        hold.over = Some(Millis(depth.0.saturating_add(1)));
        hold.renewals += 1;
        let mut actions = Vec::with_capacity(hold.grips.len());
        for (index, (grip, before)) in hold.grips.iter().zip(&before).enumerate() {
            let (ttl, mutations) = self.laying_bare(index, grip, before, &hold);
            actions.push(self.if_held(index, grip, mutations));
            hold.longest = hold.longest.max(ttl);
        }
        let after = self
            .change("clearing what lies under the lock", actions, deadline)
            .await?;
        match hold.look_again(&after) {
            true => Ok(Attempt::Won(hold)),
            false => {
                self.give_back_part(hold.token, None, &after, deadline).await?;
                Ok(Attempt::lost(hold.token, after))
            }
        }
    }

    /// What says on one row how deep the hold was cleared, and clears it there; and for how long it then has the row.
    fn laying_bare(&self, index: usize, grip: &Grip, before: &Sight, hold: &Hold) -> (Millis, Vec<Mutation>) {
        let remains = grip.outlived_by(before);
        // A delete would take along a hold that lies at the same time. It lives as long as what it lies on, then.
        let (ttl, clear) = match remains {
            Some(remains) if remains.timestamp < grip.timestamp => {
                (grip.held.ttl, Some(self.clear(index, remains.timestamp)))
            }
            Some(_) => (grip.depth(before), None),
            None => (grip.held.ttl, None),
        };
        let held = HeldBy {
            ttl,
            renewal: hold.renewals,
            over: hold.over,
            ..grip.held.clone()
        };
        let mut mutations = vec![self.rewrite(index, grip, HELD, &Owner::Held(held), ttl)];
        mutations.extend(clear.map(Mutation::from));
        (ttl, mutations)
    }
}

/// How long from its timestamp on something may live on a row, where that is longer than the hold of it; on the row where it is
/// longest.
fn deepest(grips: &[Grip], before: &[Sight]) -> Option<Millis> {
    let rows = grips.iter().zip(before);
    rows.filter(|(grip, before)| grip.outlived_by(before).is_some())
        .map(|(grip, before)| grip.depth(before))
        .max()
}
