//! Changes of a latch: plan on the observed row, write if it is unchanged, and judge by the row as
//! it was read after that.

use hbase_client::{Effect, low_level::Pauses};
use tokio::time::{Instant, sleep_until};

use super::{
    layout::Cells,
    location::{LatchChangeOutcome, LatchLocation},
    note::NewChange,
    observation::{Count, LatchObservation, Participants},
    plan::{self, LatchOperation, Leaves, Plan, Step},
    state::LatchCount,
};
use crate::{
    error::{Error, ErrorKind, Result, unknown},
    java_layout::Level,
};

/// What is known about a change that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Applied,
    /// It was not applied, and no copy of it in flight can be.
    NotApplied,
    /// The row is unchanged since the change was planned, so it may be sent again: at most one of
    /// all copies is applied.
    Open,
    /// Too many changes followed.
    Unknown,
}

impl LatchLocation {
    /// Applies an operation. Returns also the number of the latch, if it has one.
    ///
    /// # Errors
    ///
    /// Returns an error if the state of the latch does not allow the operation, and the errors of
    /// the calls. If the outcome is unknown, the change may have been applied.
    pub(super) async fn change(
        &self,
        operation: &LatchOperation,
        deadline: Instant,
    ) -> Result<(LatchCount, Option<u64>)> {
        let participants = operation.participants();
        let change = NewChange::new(self.table.connection().environment());
        let mut pauses = Pauses::after_conflicts();
        let mut lost = None;
        let mut observation = self.read(participants, deadline).await?;
        loop {
            if let Some(step) = plan::settle(&self.cells, &observation) {
                observation = self.settle(step, participants, deadline).await?;
                if !pauses.wait_before(deadline).await {
                    return Err(lost.unwrap_or_else(contended));
                }
                continue;
            }
            if self.cells.level == Level::Xdc && observation.deadline(Level::Xdc).is_some() {
                observation.visible_from = self.visible_from(&observation, participants, deadline).await?;
            }
            let Some(plan) = plan::plan(&self.cells, operation, change, &observation)? else {
                return Ok((counted(&observation, false)?, observation.latch()));
            };
            let (verdict, after) = self
                .carry_out(&plan, &observation, participants, &mut lost, deadline)
                .await?;
            if matches!(verdict, Verdict::Applied) {
                // The latch may have ended meanwhile, and another one of its name may have begun.
                let is_there = after.deadline(self.cells.level).is_some() && after.latch() == plan.latch;
                let count = if is_there {
                    counted(&after, true).map_err(unknown)?
                } else {
                    LatchCount {
                        left: plan.left,
                        counted: true,
                    }
                };
                return Ok((count, plan.latch));
            }
            observation = after;
            let now = Instant::now();
            if now >= deadline {
                return Err(lost.unwrap_or_else(contended));
            }
            sleep_until(deadline.min(now + pauses.next_pause())).await;
        }
    }

    /// Creates the latch. Returns its number, if it has one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`change`](Self::change).
    pub(super) async fn init(&self, operation: &LatchOperation, deadline: Instant) -> Result<Option<u64>> {
        let (_, latch) = self.change(operation, deadline).await?;
        if self.cells.level == Level::Dc || self.cells.note.is_some() {
            return Ok(latch);
        }
        // Two farms that create the latch at the same moment write no common cell. Each writes and
        // then reads, so at least one of them sees the other.
        let observation = self.read(Participants::None, deadline).await;
        let observation = observation.map_err(unknown)?;
        let is_contested = |count: &Count| count.qualifier != self.cells.own && count.value >= 0;
        match (
            observation.counts.iter().any(is_contested),
            observation.own(&self.cells),
        ) {
            (true, Some(own)) => {
                self.forget(own, deadline).await.map_err(unknown)?;
                Err(Error::new(
                    ErrorKind::LatchExists,
                    "another farm created the latch at the same moment; this call withdrew its count, and the other may have too",
                )
                .with_retryable(true))
            }
            _ => Ok(None),
        }
    }

    /// Writes a count that another client has noted, if it is still waiting, and reads the latch
    /// after that.
    async fn settle(
        &self,
        step: Step,
        participants: Participants<'_>,
        deadline: Instant,
    ) -> Result<LatchObservation> {
        match self.make(&[step], participants, deadline).await {
            Ok(made) => Ok(made.after),
            // It does not matter which client writes it: nothing of this change was written yet.
            Err(error) => Err(error.with_effect(Effect::None)),
        }
    }

    /// Applies one planned change, and sends it again while its outcome is unknown. Returns the
    /// verdict and the last observation.
    async fn carry_out(
        &self,
        plan: &Plan,
        base: &LatchObservation,
        participants: Participants<'_>,
        lost: &mut Option<Error>,
        deadline: Instant,
    ) -> Result<(Verdict, LatchObservation)> {
        let mut pauses = Pauses::after_conflicts();
        loop {
            let error = match self.make(&plan.steps, participants, deadline).await {
                Ok(LatchChangeOutcome { processed, after }) => {
                    let verdict = match (judge(&self.cells, plan, base, &after), &*lost) {
                        // No other copy was applied before this one, and none can be applied after
                        // it, but the cells may be hidden.
                        (Verdict::Open | Verdict::Unknown, _) if processed => {
                            match is_visible(&self.cells, plan, &after) {
                                true => Verdict::Applied,
                                false => Verdict::NotApplied,
                            }
                        }
                        (Verdict::Unknown, None) => Verdict::NotApplied,
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
            sleep_until(deadline.min(Instant::now() + pauses.next_pause())).await;
            let Ok(seen) = self.read(participants, deadline).await else {
                return Err(lost.take().unwrap_or_else(contended));
            };
            match judge(&self.cells, plan, base, &seen) {
                Verdict::Open if Instant::now() < deadline => {}
                Verdict::Open | Verdict::Unknown => return Err(lost.take().unwrap_or_else(contended)),
                verdict => return Ok((verdict, seen)),
            }
        }
    }
}

/// Returns whether the count that this change wrote is visible, or a later one, or the latch has
/// ended since. A delete marker of the same moment may hide the count.
fn is_visible(cells: &Cells, plan: &Plan, seen: &LatchObservation) -> bool {
    match (plan.leaves, seen.own(cells)) {
        (Leaves::Nothing, _) | (Leaves::Count, Some(_)) => true,
        (Leaves::CountFrom(timestamp), Some(own)) => own.seen.timestamp >= timestamp,
        (Leaves::CountFrom(_), None) => seen.deadline(cells.level).is_none(),
        (Leaves::Count, None) => false,
    }
}

/// Judges a change by what was read after it. Copies of it may be in flight.
fn judge(cells: &Cells, plan: &Plan, base: &LatchObservation, seen: &LatchObservation) -> Verdict {
    let before = base.note.as_ref().map(|(note, _)| note);
    let now = seen.note.as_ref().map(|(note, _)| note);
    let Some(now) = now else {
        return match before.is_none() && base.counts == seen.counts {
            true => Verdict::Open,
            false => Verdict::Unknown,
        };
    };
    let before = plan.begun.as_ref().or(before);
    match now.has(plan.change, before) {
        Some(true) if is_visible(cells, plan, seen) => Verdict::Applied,
        Some(false) if before == Some(now) => Verdict::Open,
        Some(false) => Verdict::NotApplied,
        // The applied change may have been hidden immediately, or the latch may have ended before
        // this read.
        Some(true) | None => Verdict::Unknown,
    }
}

fn counted(observation: &LatchObservation, counted: bool) -> Result<LatchCount> {
    Ok(LatchCount {
        left: observation.left()?,
        counted,
    })
}

fn contended() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "other clients changed the latch at each attempt",
    )
    .with_retryable(true)
    .with_hint(
        "try again; where many count at once, let each process add up what it counts, or allow more time",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::latch::note::new_change;
    use crate::latch::{note::Note, observation::ObservedCell};

    const BEGAN: u64 = 1_000;

    fn seen(timestamp: u64, value: Bytes) -> ObservedCell {
        ObservedCell {
            value,
            timestamp,
            expires: Some(BEGAN + 60_000),
        }
    }

    fn cells(has_state: bool) -> Cells {
        Cells::new("r".into(), Level::Dc, "fra", has_state)
    }

    fn count(timestamp: u64, value: i64) -> Count {
        Count {
            qualifier: "count_fra".into(),
            seen: seen(timestamp, Bytes::copy_from_slice(&value.to_be_bytes())),
            value,
        }
    }

    fn observation(counts: &[Count], note: Option<&Note>) -> LatchObservation {
        LatchObservation {
            counts: counts.to_vec(),
            note: note.map(|note| (note.clone(), seen(BEGAN, note.encode()))),
            arrived: Vec::new(),
            visible_from: 0,
        }
    }

    fn plan_of(cells: &Cells, operation: &LatchOperation, base: &LatchObservation) -> Plan {
        plan::plan(cells, operation, new_change(), base).unwrap().unwrap()
    }

    #[test]
    fn a_count_whose_answer_was_lost_is_judged_by_the_note() {
        let cells = cells(true);
        let note = Note::first(new_change());
        let base = observation(&[count(BEGAN, 3)], Some(&note));
        let plan = plan_of(&cells, &LatchOperation::CountDown(1), &base);
        let judged =
            |counts: &[Count], note: Option<&Note>| judge(&cells, &plan, &base, &observation(counts, note));
        assert_eq!(judged(&base.counts, Some(&note)), Verdict::Open);
        let mine = note.next(plan.change, 0);
        let other = note.next(new_change().id, 0);
        assert_eq!(judged(&[count(BEGAN, 2)], Some(&mine)), Verdict::Applied);
        assert_eq!(judged(&[count(BEGAN, 2)], Some(&other)), Verdict::NotApplied);
        // A Java client has counted since.
        assert_eq!(judged(&[count(BEGAN + 9, 1)], Some(&mine)), Verdict::Applied);
        assert_eq!(
            judged(&[count(BEGAN + 9, 1)], Some(&note)),
            Verdict::Open,
            "the note alone changes with ours"
        );
        // The latch has ended since: it expired, or was deleted.
        assert_eq!(judged(&[], Some(&mine)), Verdict::Applied);
        let deleted = mine.next(new_change().id, 0).of_deleted();
        assert_eq!(judged(&[], Some(&deleted)), Verdict::Applied);
        assert_eq!(judged(&[], Some(&other)), Verdict::NotApplied);
        // Too many other changes, an unrelated note, and no note.
        let mut many = mine;
        for _ in 0..20 {
            many = many.next(new_change().id, 0);
        }
        assert_eq!(judged(&[count(BEGAN, 1)], Some(&many)), Verdict::Unknown);
        let new = Note::first(new_change());
        assert_eq!(judged(&[count(BEGAN, 1)], Some(&new)), Verdict::Unknown);
        assert_eq!(judged(&base.counts, None), Verdict::Unknown);
    }

    #[test]
    fn without_a_note_only_what_is_as_it_was_may_be_sent_again() {
        let cells = cells(false);
        let base = observation(&[count(BEGAN, 3)], None);
        let plan = plan_of(&cells, &LatchOperation::CountDown(1), &base);
        let judged = |counts: &[Count]| judge(&cells, &plan, &base, &observation(counts, None));
        assert_eq!(judged(&base.counts), Verdict::Open);
        assert_eq!(judged(&[count(BEGAN + 1, 2)]), Verdict::Unknown);
        assert_eq!(
            judged(&[count(BEGAN + 2, 3)]),
            Verdict::Unknown,
            "it was something else in between"
        );
        assert_eq!(judged(&[]), Verdict::Unknown);
    }

    #[test]
    fn a_beginning_of_which_one_half_is_there_may_be_sent_again() {
        let cells = cells(true);
        let operation = LatchOperation::Init {
            count: 3,
            ttl: Duration::from_secs(60),
        };
        let base = observation(&[], None);
        let plan = plan_of(&cells, &operation, &base);
        assert_eq!(plan.steps.len(), 2);
        let begun = plan.begun.clone().unwrap();
        let judged =
            |counts: &[Count], note: Option<&Note>| judge(&cells, &plan, &base, &observation(counts, note));
        assert_eq!(judged(&[], None), Verdict::Open);
        assert_eq!(judged(&[], Some(&begun)), Verdict::Open);
        assert_eq!(
            observation(&[], Some(&begun)).state(Level::Dc).unwrap(),
            crate::latch::LatchState::Absent
        );
        let made = begun.next(plan.change, 0);
        assert_eq!(judged(&[count(BEGAN, 3)], Some(&made)), Verdict::Applied);
        assert_eq!(judged(&[], Some(&made)), Verdict::Unknown, "hidden, or over");
        let other = begun.next(new_change().id, 0);
        assert_eq!(judged(&[count(BEGAN, 3)], Some(&other)), Verdict::NotApplied);
        let stranger = Note::first(new_change());
        assert_eq!(judged(&[count(BEGAN, 3)], Some(&stranger)), Verdict::Unknown);
        // A latch that existed before and has expired is continued from its note.
        let base = observation(&[], Some(&stranger));
        let plan = plan_of(&cells, &operation, &base);
        assert!(plan.steps.len() == 1 && plan.begun.is_none());
        let made = observation(&[count(BEGAN, 3)], Some(&stranger.of_next_latch(plan.change)));
        assert_eq!(judge(&cells, &plan, &base, &made), Verdict::Applied);
    }
}
