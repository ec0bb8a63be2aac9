//! The row of one latch, and the calls that read and change it.
//!
//! Each call is one `Multi`: the server does its actions in their order. What a change did is judged by the read behind it.

use tokio::time::Instant;

use super::{
    layout::Cells,
    plan::{self, Step},
    sight::{self, Count, Participants, Sight},
};
use crate::{
    client::{ActionAnswer, AnyRegion, CallKind, MultiCall, RegionAction, Table},
    error::{Effect, Error, Result},
    model::Durability,
};

/// One latch in its table.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its cells say when they expire.
    pub(super) table: Table,
    pub(super) cells: Cells,
}

/// What a change came to.
#[derive(Debug)]
pub(super) struct Made {
    /// What the server says. It may have written what nobody sees.
    pub(super) processed: bool,
    pub(super) after: Sight,
}

impl Place {
    /// Reads the latch.
    pub(super) async fn look(&self, participants: Participants<'_>, deadline: Instant) -> Result<Sight> {
        let get = sight::get(&self.cells, participants);
        let answers = self
            .send(
                "reading the latch",
                vec![RegionAction::Get(get)],
                CallKind::Read,
                deadline,
            )
            .await?;
        self.sight(answers)
    }

    /// Makes a change, if nothing has changed of what it was planned on, and reads the latch behind it.
    pub(super) async fn make(
        &self,
        steps: &[Step],
        participants: Participants<'_>,
        deadline: Instant,
    ) -> Result<Made> {
        let steps = steps.iter().map(|step| RegionAction::Conditional {
            mutations: step.mutations.clone(),
            condition: step.condition.clone(),
        });
        let look = RegionAction::Get(sight::get(&self.cells, participants));
        let actions = steps.chain([look]).collect();
        let answers = self
            .send("changing the latch", actions, CallKind::Write, deadline)
            .await?;
        let made = answers.iter().filter_map(|answer| match answer {
            ActionAnswer::Processed { processed, .. } => Some(*processed),
            _ => None,
        });
        let processed = made.last().unwrap_or(false);
        let after = self.sight(answers).map_err(|error| match processed {
            // Made, and what a stranger wrote behind it can't be read.
            true => error.with_effect(Effect::Unknown),
            false => error,
        })?;
        Ok(Made { processed, after })
    }

    /// Deletes one count as it was seen, and nothing later.
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
            // Whatever the table says: a count that a crash forgets would be counted twice.
            durability: Durability::SyncWal,
            kind,
        };
        self.table
            .multi_where(operation, &call, &AnyRegion, deadline)
            .await
    }

    fn sight(&self, answers: Vec<ActionAnswer>) -> Result<Sight> {
        let row = answers.into_iter().find_map(|answer| match answer {
            ActionAnswer::Row(row) => Some(row),
            _ => None,
        });
        let row = row.ok_or_else(|| Error::invalid("a call that reads nothing"))?;
        Sight::of(&self.cells, row.as_ref())
    }
}
