//! Changes of a barrier.

use hbase_client::{
    Row,
    low_level::{ActionAnswer, CallKind, MultiCall, RegionAction, RegionCall, TableCalls},
};
use tokio::time::Instant;

use super::{
    Barrier,
    observation::{self, BarrierObservation},
    plan::Plan,
};
use crate::{
    error::{Error, ErrorKind, Result, unknown_if},
    latch::{
        note::NewChange,
        observation::ObservedCell,
        optimistic::{Change, Planned, Verdict, apply},
    },
};

/// A change of one barrier.
struct BarrierChange<'a, F> {
    barrier: &'a Barrier,
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
        self.barrier.read(self.deadline).await
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
        let made = self.barrier.make(&planned.1, CallKind::Write, self.deadline);
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
            self.change = NewChange::new(self.barrier.table.connection().environment());
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
        let deadline = self.table.deadline();
        let mut change = BarrierChange {
            barrier: self,
            planned,
            change: NewChange::new(self.table.connection().environment()),
            hides: None,
            deadline,
        };
        let changed = apply(&mut change, deadline).await;
        changed.map_err(|error| self.in_context(error))
    }

    /// Applies a change if the cells are unchanged since it was planned. Returns whether the server
    /// applied it, and the barrier as it was read after that.
    pub(super) async fn make(
        &self,
        plan: &Plan,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<(bool, BarrierObservation)> {
        let change = RegionAction::Conditional {
            mutations: plan.mutations.clone(),
            condition: plan.condition.clone(),
        };
        let actions = vec![change, RegionAction::Get(observation::get(&self.row))];
        let answers = self.send(actions, kind, deadline).await?;
        let processed = matches!(
            answers.first(),
            Some(ActionAnswer::Processed { processed: true, .. })
        );
        let seen = BarrierObservation::of(row_of(answers).as_ref());
        Ok((processed, seen.map_err(unknown_if(processed))?))
    }

    pub(super) async fn read(&self, deadline: Instant) -> Result<BarrierObservation> {
        BarrierObservation::of(self.read_row(deadline).await?.as_ref())
    }

    pub(super) async fn read_row(&self, deadline: Instant) -> Result<Option<Row>> {
        let get = vec![RegionAction::Get(observation::get(&self.row))];
        Ok(row_of(self.send(get, CallKind::Read, deadline).await?))
    }

    pub(super) async fn send(
        &self,
        actions: Vec<RegionAction>,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<Vec<ActionAnswer>> {
        let call = MultiCall {
            row: self.row.clone(),
            actions,
            durability: self.table.durable(),
        };
        let operation = match kind {
            CallKind::Read => "reading the barrier",
            _ => "changing the barrier",
        };
        let attempts = RegionCall::new(&self.table, operation, &call.row, kind, deadline);
        Ok(attempts.multi(&call).await?)
    }
}

/// Returns the row that was read, if it exists.
fn row_of(answers: Vec<ActionAnswer>) -> Option<Row> {
    answers.into_iter().find_map(|answer| match answer {
        ActionAnswer::Row(row) => row,
        _ => None,
    })
}
