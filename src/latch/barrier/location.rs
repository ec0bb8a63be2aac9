//! The calls that read and change one barrier.

use bytes::Bytes;
use hbase_client::{
    Effect, Row, Table,
    low_level::{ActionAnswer, CallKind, MultiCall, RegionAction, RegionCall, TableCalls},
};
use tokio::time::Instant;

use super::{
    observation::{self, BarrierObservation},
    plan::{self, Plan},
};
use crate::error::{Result, unknown_if};

/// One barrier in its table.
#[derive(Clone)]
pub(super) struct BarrierLocation {
    pub(super) table: Table,
    pub(super) row: Bytes,
}

impl BarrierLocation {
    pub(super) async fn read(&self, deadline: Instant) -> Result<BarrierObservation> {
        BarrierObservation::of(self.read_row(deadline).await?.as_ref())
    }

    pub(super) async fn read_row(&self, deadline: Instant) -> Result<Option<Row>> {
        let get = vec![RegionAction::Get(observation::get(&self.row))];
        Ok(row_of(self.send(get, CallKind::Read, deadline).await?))
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

    /// Ends the generation if its time is over. Returns the barrier as it is then.
    pub(super) async fn end_if_over(
        &self,
        seen: BarrierObservation,
        deadline: Instant,
    ) -> Result<BarrierObservation> {
        let Some(plan) = plan::end(&self.row, &seen) else {
            return Ok(seen);
        };
        // The last arrival may be in the log and not visible yet. The server applies one of the two.
        let ending = self.make(&plan, CallKind::IdempotentWrite, deadline).await;
        // To try again is as good as to know.
        let (_, seen) = ending.map_err(|error| error.with_effect(Effect::None))?;
        Ok(seen)
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
