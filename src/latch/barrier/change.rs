//! Changes of a barrier: plan on the observed cells, write if they are unchanged, and judge by the
//! cells as they were read after that.

use hbase_client::{
    Row,
    low_level::{ActionAnswer, CallKind, MultiCall, Pauses, RegionAction, RegionCall, TableCalls},
};
use tokio::time::{Instant, sleep_until};

use super::{
    Barrier,
    observation::{self, BarrierObservation},
    plan::Plan,
};
use crate::{
    error::{Error, ErrorKind, Result, unknown_if},
    latch::note::NewChange,
};

impl Barrier {
    /// Plans a change and applies it, again until it is applied or there is nothing to do.
    pub(super) async fn change<T>(
        &self,
        planned: impl Fn(NewChange<'_>, &BarrierObservation) -> Result<(T, Option<Plan>)>,
    ) -> Result<T> {
        let deadline = self.table.deadline();
        let changed = self.change_until(planned, deadline).await;
        changed.map_err(|error| self.in_context(error))
    }

    async fn change_until<T>(
        &self,
        planned: impl Fn(NewChange<'_>, &BarrierObservation) -> Result<(T, Option<Plan>)>,
        deadline: Instant,
    ) -> Result<T> {
        let mut change = NewChange::new(self.table.connection().environment());
        let mut pauses = Pauses::after_conflicts();
        let mut lost: Option<Error> = None;
        let mut observation = self.read(deadline).await?;
        loop {
            let (answer, plan) = planned(change, &observation)?;
            let Some(plan) = plan else {
                return Ok(answer);
            };
            let begins = plan.begins.clone();
            let (processed, mut seen) = match self.make(plan, CallKind::Write, deadline).await {
                Ok(made) => made,
                Err(error) if error.is_outcome_unknown() => {
                    lost.get_or_insert(error);
                    match self.read(deadline).await {
                        Ok(seen) => (false, seen),
                        Err(error) => return Err(lost.unwrap_or(error)),
                    }
                }
                Err(error) => return Err(lost.unwrap_or(error)),
            };
            let before = observation.state.as_ref().map(|(state, _)| &state.note);
            // `None` if the note does not remember it, or if a delete marker of the same moment
            // hides the created cell.
            let made = match &seen.state {
                Some(_) if processed => Some(true),
                Some((state, _)) => state.note.has(change.id, before),
                None => None,
            };
            match made {
                // If the first arrival of a generation is hidden, no other party is in that
                // generation. Either the cell of an earlier generation hides it, or a delete marker
                // of the same millisecond.
                Some(true) if begins.is_some_and(|arrival| seen.is_broken(&arrival)) => {
                    (change, lost) = (NewChange::new(self.table.connection().environment()), None);
                    seen.hides = seen.arrivals.is_some();
                }
                Some(true) => return Ok(answer),
                None if before.is_some() && lost.is_some() => return Err(lost.unwrap_or_else(contended)),
                _ => {}
            }
            observation = seen;
            let now = Instant::now();
            if now >= deadline {
                return Err(lost.unwrap_or_else(contended));
            }
            sleep_until(deadline.min(now + pauses.next_pause())).await;
        }
    }

    /// Applies a change if the cells are unchanged since it was planned. Returns whether the server
    /// applied it, and the barrier as it was read after that.
    pub(super) async fn make(
        &self,
        plan: Plan,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<(bool, BarrierObservation)> {
        let change = RegionAction::Conditional {
            mutations: plan.mutations,
            condition: plan.condition,
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

fn contended() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "other clients changed the barrier at each attempt",
    )
    .with_retryable(true)
    .with_hint("try again; where many arrive at once, allow more time")
}
