//! Changes of a barrier.

use hbase_client::low_level::{CallKind, TableCalls};
use tokio::time::Instant;

use super::{Barrier, location::BarrierLocation, observation::BarrierObservation, plan::Plan};
use crate::{
    error::{Error, ErrorKind, Result},
    latch::{
        note::NewChange,
        observation::ObservedCell,
        optimistic::{Change, Planned, Verdict, apply},
        shared::turn,
    },
};

/// A change of one barrier.
struct BarrierChange<'a, F> {
    location: &'a BarrierLocation,
    planned: F,
    change: NewChange<'a>,
    /// The cell of an earlier generation that hid the cell of a later one.
    hides: Option<ObservedCell>,
    deadline: Instant,
}

impl<T, F> Change for BarrierChange<'_, F>
where
    T: Send + Sync,
    F: Fn(NewChange<'_>, &BarrierObservation) -> Result<(T, Option<Plan>)> + Send + Sync,
{
    type Row = BarrierObservation;
    type Plan = (T, Plan);
    type Answer = T;

    async fn read(&self) -> Result<BarrierObservation> {
        self.location.read(self.deadline).await
    }

    async fn plan(&self, observation: &mut BarrierObservation) -> Result<Planned<(T, Plan), T>> {
        let arrivals = observation.arrivals.as_ref().map(|(_, cell)| cell);
        observation.hides = arrivals.is_some() && arrivals == self.hides.as_ref();
        let (answer, plan) = (self.planned)(self.change, observation)?;
        Ok(match plan {
            Some(plan) => Planned::Write((answer, plan)),
            None => Planned::Done(answer),
        })
    }

    async fn write(
        &self,
        planned: &(T, Plan),
        base: &BarrierObservation,
    ) -> Result<(Verdict, BarrierObservation)> {
        let made = self.location.make(&planned.1, CallKind::Write, self.deadline);
        let (processed, after) = made.await?;
        let verdict = if processed && after.state.is_some() {
            Verdict::Applied
        } else {
            self.judge(planned, base, &after)
        };
        Ok((verdict, after))
    }

    fn judge(&self, _: &(T, Plan), base: &BarrierObservation, row: &BarrierObservation) -> Verdict {
        let Some((before, _)) = &base.state else {
            // A creation. The barrier has its number even if the note has forgotten the change.
            return match (self.planned)(self.change, row) {
                Ok((_, None)) => Verdict::Applied,
                Ok((_, Some(_))) => Verdict::Open,
                Err(_) => Verdict::NotApplied,
            };
        };
        let Some((now, _)) = &row.state else {
            return Verdict::Unknown;
        };
        match now.note.has(self.change.id, Some(&before.note)) {
            Some(true) => Verdict::Applied,
            Some(false) if now.note == before.note => Verdict::Open,
            Some(false) => Verdict::NotApplied,
            None => Verdict::Unknown,
        }
    }

    async fn complete(&mut self, (answer, plan): (T, Plan), after: BarrierObservation) -> Result<Option<T>> {
        // If the first arrival of a generation is hidden, no other party is in that generation.
        // Either the cell of an earlier generation hides it, or a delete marker of the same
        // millisecond.
        if plan.begins.is_some_and(|arrival| after.is_broken(&arrival)) {
            self.change = NewChange::new(self.location.table.connection().environment());
            self.hides = after.arrivals.map(|(_, cell)| cell);
            return Ok(None);
        }
        Ok(Some(answer))
    }

    fn contended() -> Error {
        Error::new(
            ErrorKind::Conflict,
            "other clients changed the barrier at each attempt",
        )
        .with_retryable(true)
        .with_hint("try again; where many arrive at once, allow more time")
    }
}

impl Barrier {
    /// Plans a change and applies it, again until it is applied or there is nothing to do.
    pub(super) async fn change<T: Send + Sync>(
        &self,
        planned: impl Fn(NewChange<'_>, &BarrierObservation) -> Result<(T, Option<Plan>)> + Send + Sync,
    ) -> Result<T> {
        let table = &self.location.table;
        let deadline = table.deadline();
        let changed = async {
            let _turn = turn(&self.shared.turns, &self.location.row, deadline).await?;
            let mut change = BarrierChange {
                location: &self.location,
                planned,
                change: NewChange::new(table.connection().environment()),
                hides: None,
                deadline,
            };
            let changed = apply(&mut change, deadline).await;
            self.shared.barriers.poll_now(&self.location.row);
            changed
        };
        changed.await.map_err(|error| self.in_context(error))
    }
}
