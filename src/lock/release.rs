//! Giving a lock back, whole or in part, and taking it away.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::{
    guard::ReleaseOutcome,
    hold::{self, Hold, TRIES},
    owner::{LockToken, Millis, Owner},
    place::{Change, Place},
    renew::Resumed,
    sight::{Grip, Occupant, Sight},
    state::{LockHolder, LockLoss},
};
use crate::{
    client::{CallKind, RegionAction},
    error::{Effect, Error, Result},
    model::Mutation,
};

/// A lease of which more than this is left is deleted when it is given back, not overwritten: what is overwritten stays as
/// long as the lease would have, and a Java client's lease laid over it may be shorter (its default is 90 s).
pub(crate) const LONG_REST: Duration = Duration::from_secs(90);

/// What to do by hand when an answer was lost.
pub(super) const AGAIN: &str = "do it again: it changes nothing but this hold";
const LOOK: &str = "look who holds it now, before it is taken away again";

/// The pause before a release is sent again whose answer was lost.
const RESEND: Duration = Duration::from_millis(20);

/// What is known of a release that found a row no more as it was to be.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Nobody took the lock since it was last seen, or took it away.
    is_untouched: bool,
    /// It was sent before, and the answer was lost.
    is_unanswered: bool,
    /// The lease is over.
    is_over: bool,
}

impl Known {
    /// Whether a row, gripped like this before and seen like this now, was given back by the release itself: an answer may be
    /// that to a second copy of the request, or to a second request, which finds done what it is for.
    fn is_given_back(self, grip: &Grip, sight: &Sight) -> bool {
        // Without a cell that says so it may have been deleted, by a Java client; or it has run out.
        let is_deleted = self.is_unanswered && !self.is_over && sight.occupant().is_none();
        self.is_untouched && (sight.was_given_back(grip) || is_deleted)
    }
}

impl Place {
    /// Gives back what a token of another process has.
    ///
    /// # Errors
    ///
    /// As [`vacate`](Self::vacate).
    pub(super) async fn release(&self, token: LockToken, deadline: Instant) -> Result<ReleaseOutcome> {
        let loss = match self.resume(token, deadline).await? {
            Resumed::Held(hold) => self
                .vacate(&hold, deadline)
                .await
                .map_err(|error| error.with_hint_if_unknown(AGAIN))?,
            Resumed::Lost(loss) => Some(loss),
        };
        Ok(loss.map_or(ReleaseOutcome::Released, ReleaseOutcome::Lost))
    }

    /// Gives the lock back, if it is still held. None when it was.
    ///
    /// # Errors
    ///
    /// Those of the calls. If the outcome is unknown, the lock may still be held, until its lease is over; or an answer was
    /// lost, and the lock is not held any more, be it by that release or for another reason.
    pub(super) async fn vacate(&self, hold: &Hold, deadline: Instant) -> Result<Option<LockLoss>> {
        let mut grips: Vec<Option<Grip>> = hold.grips.iter().cloned().map(Some).collect();
        let mut given_back = vec![false; grips.len()];
        let mut unanswered: Option<Error> = None;
        let mut tries = 0;
        while tries < TRIES {
            let (actions, indexes) = self.give_back_actions(&grips, hold.since.elapsed());
            let change = Change {
                operation: "releasing the lock",
                actions,
                look_before: false,
                look_behind: None,
                kind: CallKind::Write,
                deadline,
                places: &[self],
            };
            let looks = match change.send().await {
                Ok(looks) => looks,
                // Twice is as good as once: the second one finds nothing that it is for. But who takes the lock in between
                // must not look like one who took it away.
                Err(error) if error.is_outcome_unknown() && Instant::now() + RESEND < deadline => {
                    unanswered = Some(error);
                    sleep(RESEND).await;
                    continue;
                }
                Err(error) if unanswered.is_some() => return Err(error.with_effect(Effect::Unknown)),
                Err(error) => return Err(error),
            };
            tries += 1;
            let after = looks.after;
            let known = Known {
                // Whoever takes a lock away counts its fencing cell on.
                is_untouched: after.first().and_then(|sight| sight.fencing) == Some(hold.last_fencing),
                is_unanswered: unanswered.is_some(),
                is_over: hold.is_over(),
            };
            for (index, processed) in indexes.into_iter().zip(looks.processed) {
                let gripped = grips[index].as_ref();
                given_back[index] =
                    processed || gripped.is_some_and(|grip| known.is_given_back(grip, &after[index]));
            }
            grips = after.iter().map(|sight| sight.grip(hold.token)).collect();
            if grips.iter().all(Option::is_none) {
                return match (given_back.iter().all(|given_back| *given_back), unanswered) {
                    (true, _) => Ok(None),
                    (false, Some(error)) if !hold.is_over() => Err(error),
                    (false, _) => Ok(Some(hold::loss(hold.token, hold.is_over(), &after))),
                };
            }
            // It was renewed meanwhile.
        }
        Err(hold::changed_meanwhile("released"))
    }

    /// The action that takes one row from a holder, as long as it is still his.
    fn evict_action(&self, index: usize, holder: &Occupant, sight: &Sight) -> Option<RegionAction> {
        if let Occupant::Ours { held, .. } = holder
            && let Some(grip) = sight.grip(held.token)
        {
            let mut mutations = self.giving_up_over(index, &grip, None);
            // So that the holder can tell it from a release of his own.
            mutations.extend(self.count(index));
            return Some(self.if_held(index, &grip, mutations));
        }
        // A stranger's, be there an owner cell beside it or not. A delete would hide whoever comes next, until the servers'
        // clocks have passed a stamp that is ahead of them. How long the marker lives is not known, so what is laid over it
        // lives for ever: an empty cell.
        let (timestamp, marker) = sight.marker_of(holder)?;
        Some(self.if_marked(index, marker, vec![self.blank(index, timestamp)]))
    }

    /// Gives back what the token has of the rows, which were seen like this before it was tried.
    pub(super) async fn give_back_part(
        &self,
        token: LockToken,
        before: Option<&[Sight]>,
        sights: &[Sight],
        deadline: Instant,
    ) -> Result<()> {
        let actions: Vec<RegionAction> = sights
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(index, sight)| {
                let before = before.and_then(|before| before.get(index));
                if let Some(grip) = sight.hidden(token) {
                    return self.unhide_action(index, &grip, before?);
                }
                let grip = sight.grip(token)?;
                let mutations = self.giving_up_over(index, &grip, before);
                Some(self.if_held(index, &grip, mutations))
            })
            .collect();
        if !actions.is_empty() {
            self.change("releasing a part of the lock", actions, deadline)
                .await?;
        }
        Ok(())
    }

    /// Says again what the row said that a hidden hold was written over, which was not to be lost.
    fn unhide_action(&self, index: usize, grip: &Grip, before: &Sight) -> Option<RegionAction> {
        grip.outlived_by(before)?;
        let say_free = self.say_free(index, grip, grip.depth(before));
        Some(self.if_held(index, grip, vec![say_free]))
    }

    /// The actions that give back what is held, the last row first, and which rows they are of.
    fn give_back_actions(&self, grips: &[Option<Grip>], age: Duration) -> (Vec<RegionAction>, Vec<usize>) {
        grips
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(index, grip)| {
                let grip = grip.as_ref()?;
                Some((self.give_back_action(index, grip, grip.whole_depth(), age), index))
            })
            .unzip()
    }

    /// The action that gives back one row, of a hold that was taken so long ago, and under which nothing lives longer than
    /// this from its timestamp on.
    fn give_back_action(&self, index: usize, grip: &Grip, ttl: Millis, age: Duration) -> RegionAction {
        self.if_held(index, grip, self.giving_up(index, grip, ttl, age))
    }

    fn giving_up(&self, index: usize, grip: &Grip, ttl: Millis, age: Duration) -> Vec<Mutation> {
        let is_long = Duration::from(ttl).saturating_sub(age) > LONG_REST;
        if is_long && !self.rows.appended {
            // A flush may drop the delete marker from under two later holds, so it stays known what it was for.
            vec![
                self.clear(index, grip.timestamp).into(),
                self.say_free(index, grip, ttl),
            ]
        } else {
            // At the marker's own timestamp, so that a client with a slower clock is not hidden behind it; and for as long
            // as anything below would live.
            vec![self.giving_back(index, grip, ttl)]
        }
    }

    /// Gives up a row that was seen like this before it was taken; none when nobody knows what was there.
    fn giving_up_over(&self, index: usize, grip: &Grip, before: Option<&Sight>) -> Vec<Mutation> {
        match self.before(grip, before) {
            Some(before) => self.giving_up(index, grip, grip.depth(&before), Duration::ZERO),
            // What lies under it may live longer than anybody knows.
            None => vec![self.wipe(index, grip).into()],
        }
    }

    /// Overwrites a hold under which nothing lives longer than this from its timestamp on.
    pub(super) fn giving_back(&self, index: usize, grip: &Grip, ttl: Millis) -> Mutation {
        self.rewrite(index, grip, Bytes::new(), &Owner::Free { ttl }, ttl)
    }

    /// Gives back what the token has of the rows. Whether it had all of them; with less, the rest may still come.
    pub(super) async fn give_back(&self, token: LockToken, deadline: Instant) -> Result<bool> {
        let sights = self.look(deadline).await?;
        self.give_back_part(token, None, &sights, deadline).await?;
        Ok(sights.iter().all(|sight| sight.grip(token).is_some()))
    }

    /// Takes the lock from whoever has it. None when nobody had it.
    pub(super) async fn evict(&self, deadline: Instant) -> Result<Option<LockHolder>> {
        let found = self.look(deadline).await?;
        let holders: Vec<_> = found.iter().map(Sight::occupant).collect();
        let Some(hit) = holders.iter().flatten().next() else {
            return Ok(None);
        };
        let mut sights = found;
        for _ in 0..TRIES {
            let actions: Vec<_> = (0..holders.len())
                .rev()
                .filter_map(|index| self.evict_action(index, holders[index].as_ref()?, &sights[index]))
                .collect();
            if actions.is_empty() {
                return Ok(Some(LockHolder::of(hit.clone())));
            }
            sights = self
                .change("taking the lock away", actions, deadline)
                .await
                .map_err(|error| error.with_hint_if_unknown(LOOK))?;
        }
        Err(hold::changed_meanwhile("taken away"))
    }
}
