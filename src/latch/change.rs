//! Changing a latch: plan on what was seen, write if nothing has changed, judge by what is seen then.

use tokio::time::{Instant, sleep_until};

use super::{
    name::LatchLevel,
    note::ChangeId,
    place::{Made, Place},
    plan::{self, Leaves, Plan, Wish},
    sight::{Count, Participants, Sight},
    state::Counted,
};
use crate::{
    client::Pauses,
    error::{Error, ErrorKind, Result},
};

/// What is known of a change that was sent.
#[derive(Debug)]
enum Verdict {
    Made,
    /// It was not, and no copy of it that is still on its way can be.
    NotMade,
    /// Nothing was changed yet since it was planned, so it may be sent again: of all copies one at most is made.
    Open,
    /// Too much has happened since.
    Unknown,
}

impl Place {
    /// Makes the change that is wished for.
    ///
    /// # Errors
    ///
    /// When what is there does not allow it, and those of the calls. If the outcome is unknown, it may have been made.
    pub(super) async fn change(&self, wish: &Wish, deadline: Instant) -> Result<Counted> {
        let participants = wish.participants();
        let change = ChangeId::unique();
        let mut pauses = Pauses::after_conflicts();
        let mut lost = None;
        let mut sight = self.look(participants, deadline).await?;
        loop {
            let Some(plan) = plan::plan(&self.cells, wish, change, &sight)? else {
                return counted(&sight, false);
            };
            let (verdict, after) = self
                .carry_out(&plan, &sight, participants, &mut lost, deadline)
                .await?;
            if matches!(verdict, Verdict::Made) {
                return counted(&after, true);
            }
            sight = after;
            let now = Instant::now();
            if now >= deadline {
                return Err(lost.unwrap_or_else(contended));
            }
            sleep_until(deadline.min(now + pauses.next())).await;
        }
    }

    /// Makes the latch.
    ///
    /// # Errors
    ///
    /// As [`change`](Self::change).
    pub(super) async fn init(&self, wish: &Wish, deadline: Instant) -> Result<()> {
        self.change(wish, deadline).await?;
        if self.cells.level == LatchLevel::Dc || self.cells.note.is_some() {
            return Ok(());
        }
        // Nothing that both write tells one farm of another that begins at the same moment. Each writes and then looks, so one
        // of them at least sees the other.
        let sight = self.look(Participants::None, deadline).await?;
        let is_contested = |count: &Count| count.qualifier != self.cells.own && count.value >= 0;
        match (sight.counts.iter().any(is_contested), sight.own(&self.cells)) {
            (true, Some(own)) => {
                self.forget(own, deadline).await?;
                Err(Error::new(
                    ErrorKind::LatchExists,
                    "another farm began the latch at the same moment; this one gave way, and the other may have, too",
                )
                .with_retryable(true))
            }
            _ => Ok(()),
        }
    }

    /// Makes one planned change, and sends it again as long as nobody knows whether it was made; and what was seen last.
    async fn carry_out(
        &self,
        plan: &Plan,
        base: &Sight,
        participants: Participants<'_>,
        lost: &mut Option<Error>,
        deadline: Instant,
    ) -> Result<(Verdict, Sight)> {
        let mut pauses = Pauses::after_conflicts();
        loop {
            let error = match self.make(plan, participants, deadline).await {
                Ok(Made { processed, after }) => {
                    let verdict = match (self.judge(plan, base, &after), &*lost) {
                        // No other copy was made before this one, and none can be behind it; but what was written may be hidden.
                        (Verdict::Open | Verdict::Unknown, _) if processed => {
                            match self.is_in_sight(plan, &after) {
                                true => Verdict::Made,
                                false => Verdict::NotMade,
                            }
                        }
                        (Verdict::Unknown, None) => Verdict::NotMade,
                        (Verdict::Unknown, Some(_)) => return Err(lost.take().unwrap_or_else(contended)),
                        (verdict, _) => verdict,
                    };
                    return Ok((verdict, after));
                }
                Err(error) if error.is_outcome_unknown() => error,
                Err(error) => return Err(lost.take().unwrap_or(error)),
            };
            tracing::debug!(%error, "the answer to a change of a latch was lost");
            lost.get_or_insert(error);
            sleep_until(deadline.min(Instant::now() + pauses.next())).await;
            let Ok(seen) = self.look(participants, deadline).await else {
                return Err(lost.take().unwrap_or_else(contended));
            };
            match self.judge(plan, base, &seen) {
                Verdict::Open if Instant::now() < deadline => {}
                Verdict::Open | Verdict::Unknown => return Err(lost.take().unwrap_or_else(contended)),
                verdict => return Ok((verdict, seen)),
            }
        }
    }

    /// Whether the count is there that this change has written, or one that was written on it. A delete marker of the same
    /// moment may hide it.
    fn is_in_sight(&self, plan: &Plan, seen: &Sight) -> bool {
        match (plan.leaves, seen.own(&self.cells)) {
            (Leaves::Nothing, _) | (Leaves::Count, Some(_)) => true,
            (Leaves::CountFrom(timestamp), Some(own)) => own.seen.timestamp >= timestamp,
            (Leaves::Count | Leaves::CountFrom(_), None) => false,
        }
    }

    /// Judges a change by what was seen behind it; copies of it may be on their way.
    fn judge(&self, plan: &Plan, base: &Sight, seen: &Sight) -> Verdict {
        let before = base.note.as_ref().map(|(note, _)| note);
        let now = seen.note.as_ref().map(|(note, _)| note);
        let Some(now) = now else {
            return match before.is_none() && base.counts == seen.counts {
                true => Verdict::Open,
                false => Verdict::Unknown,
            };
        };
        match now.has(plan.change, before) {
            Some(true) if self.is_in_sight(plan, seen) => Verdict::Made,
            Some(false) if before == Some(now) => Verdict::Open,
            Some(_) => Verdict::NotMade,
            None => Verdict::Unknown,
        }
    }
}

fn counted(sight: &Sight, counted: bool) -> Result<Counted> {
    Ok(Counted {
        left: sight.left()?,
        counted,
    })
}

fn contended() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "others changed the latch each time it was tried",
    )
    .with_retryable(true)
}
