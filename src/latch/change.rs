//! Changes of a latch.

use hbase_client::Effect;
use tokio::time::Instant;

use super::{
    layout::Cells,
    location::{LatchChangeOutcome, LatchLocation},
    note::NewChange,
    observation::{Count, LatchObservation, Participants},
    optimistic::{Change, Planned, Verdict, apply},
    plan::{self, LatchOperation, Leaves, Plan},
    state::LatchCount,
};
use crate::{
    error::{Error, ErrorKind, Result, unknown},
    java_layout::Level,
};

/// A change of one latch.
struct LatchChange<'a> {
    location: &'a LatchLocation,
    operation: &'a LatchOperation,
    change: NewChange<'a>,
    deadline: Instant,
}

impl Change for LatchChange<'_> {
    type Row = LatchObservation;
    type Plan = Plan;
    type Answer = (LatchCount, Option<u64>);

    async fn read(&self) -> Result<LatchObservation> {
        self.location
            .read(self.operation.participants(), self.deadline)
            .await
    }

    async fn plan(&self, observation: &mut LatchObservation) -> Result<Planned<Plan, Self::Answer>> {
        let (cells, participants) = (&self.location.cells, self.operation.participants());
        // A count that another client has noted, and that is still waiting.
        if let Some(step) = plan::settle(cells, observation) {
            let settled = self.location.make(&[step], participants, self.deadline).await;
            // It does not matter which client writes it: nothing of this change was written yet.
            *observation = settled.map_err(|error| error.with_effect(Effect::None))?.after;
            if plan::settle(cells, observation).is_some() {
                return Ok(Planned::Later);
            }
        }
        if cells.level == Level::Xdc && observation.deadline(Level::Xdc).is_some() {
            let visible_from = self
                .location
                .visible_from(observation, participants, self.deadline);
            observation.visible_from = visible_from.await?;
        }
        let plan = plan::plan(cells, self.operation, self.change, observation)?;
        Ok(match plan {
            Some(plan) => Planned::Write(plan),
            None => Planned::Done((counted(observation, false)?, observation.latch())),
        })
    }

    async fn write(&self, plan: &Plan, base: &LatchObservation) -> Result<(Verdict, LatchObservation)> {
        let participants = self.operation.participants();
        let made = self.location.make(&plan.steps, participants, self.deadline);
        let LatchChangeOutcome { processed, after } = made.await?;
        let verdict = match self.judge(plan, base, &after) {
            // No other copy was applied before this one, and none can be applied after it, but the
            // cells may be hidden.
            Verdict::Open | Verdict::Unknown if processed => {
                if is_visible(&self.location.cells, plan, &after) {
                    Verdict::Applied
                } else {
                    Verdict::NotApplied
                }
            }
            verdict => verdict,
        };
        Ok((verdict, after))
    }

    fn judge(&self, plan: &Plan, base: &LatchObservation, observation: &LatchObservation) -> Verdict {
        judge(&self.location.cells, plan, base, observation)
    }

    async fn complete(&mut self, plan: Plan, after: LatchObservation) -> Result<Option<Self::Answer>> {
        // The latch may have ended meanwhile, and another one of its name may have begun.
        let is_there = after.deadline(self.location.cells.level).is_some() && after.latch() == plan.latch;
        let count = if is_there {
            counted(&after, true).map_err(unknown)?
        } else {
            LatchCount {
                left: plan.left,
                counted: true,
            }
        };
        Ok(Some((count, plan.latch)))
    }

    fn contended() -> Error {
        contended()
    }
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
        let mut change = LatchChange {
            location: self,
            operation,
            change: NewChange::new(self.table.connection().environment()),
            deadline,
        };
        apply(&mut change, deadline).await
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
        return if before.is_none() && base.counts == seen.counts {
            Verdict::Open
        } else {
            Verdict::Unknown
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

pub(crate) fn contended() -> Error {
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
