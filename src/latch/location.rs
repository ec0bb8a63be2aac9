//! The row of one latch, and the calls that read and change it.
//!
//! Each call is one `Multi`: the server applies its actions in order. The read at its end decides
//! what a change did.

use hbase_client::{
    Table,
    low_level::{ActionAnswer, AnyRegion, CallKind, MultiCall, RegionAction, TableCalls},
};
use tokio::time::Instant;

use super::{
    layout::Cells,
    observation::{self, Count, LatchObservation, Participants},
    plan::{self, Step},
};
use crate::error::{Error, Result, unknown_if};

/// One latch in its table.
#[derive(Clone, Debug)]
pub(super) struct LatchLocation {
    /// Its reads return when cells expire.
    pub(super) table: Table,
    pub(super) cells: Cells,
}

/// The outcome of a change.
#[derive(Debug)]
pub(super) struct LatchChangeOutcome {
    /// What the server reported. The cells that were written may be hidden nevertheless.
    pub(super) processed: bool,
    pub(super) after: LatchObservation,
}

impl LatchLocation {
    pub(super) async fn read(
        &self,
        participants: Participants<'_>,
        deadline: Instant,
    ) -> Result<LatchObservation> {
        let get = observation::get(&self.cells, participants);
        let answers = self
            .send(
                "reading the latch",
                vec![RegionAction::Get(get)],
                CallKind::Read,
                deadline,
            )
            .await?;
        self.observation(answers)
    }

    /// Applies a change if the row is unchanged since the change was planned, and reads the latch
    /// after it.
    pub(super) async fn make(
        &self,
        steps: &[Step],
        participants: Participants<'_>,
        deadline: Instant,
    ) -> Result<LatchChangeOutcome> {
        let steps = steps.iter().map(|step| RegionAction::Conditional {
            mutations: step.mutations.clone(),
            condition: step.condition.clone(),
        });
        let look = RegionAction::Get(observation::get(&self.cells, participants));
        let actions = steps.chain([look]).collect();
        let answers = self
            .send("changing the latch", actions, CallKind::Write, deadline)
            .await?;
        let made = answers.iter().filter_map(|answer| match answer {
            ActionAnswer::Processed { processed, .. } => Some(*processed),
            _ => None,
        });
        let processed = made.last().unwrap_or(false);
        // A cell that another program wrote may not be readable.
        let after = self.observation(answers).map_err(unknown_if(processed))?;
        Ok(LatchChangeOutcome { processed, after })
    }

    /// Deletes one count as it was read, and no later one.
    pub(super) async fn forget(&self, count: &Count, deadline: Instant) -> Result<()> {
        let delete = RegionAction::Atomic(vec![plan::forget(&self.cells, count)]);
        self.send("giving way", vec![delete], CallKind::IdempotentWrite, deadline)
            .await
            .map(drop)
    }

    async fn send(
        &self,
        operation: &'static str,
        actions: Vec<RegionAction>,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<Vec<ActionAnswer>> {
        let call = MultiCall {
            row: self.cells.row.clone(),
            actions,
            // If a crash lost a count, it would be counted twice.
            durability: self.table.durable(),
            kind,
        };
        Ok(self
            .table
            .multi_where(operation, &call, &AnyRegion, deadline)
            .await?)
    }

    fn observation(&self, answers: Vec<ActionAnswer>) -> Result<LatchObservation> {
        let row = answers.into_iter().find_map(|answer| match answer {
            ActionAnswer::Row(row) => Some(row),
            _ => None,
        });
        let row = row.ok_or_else(|| Error::invalid("a call that reads nothing"))?;
        LatchObservation::of(&self.cells, row.as_ref())
    }
}
