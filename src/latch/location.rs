//! The row of one latch, and the calls that read and change it.
//!
//! Each call is one `Multi`: the server applies its actions in order. The read at its end decides
//! what a change did.

use bytes::Bytes;
use hbase_client::{
    Cell, Row, Scan, Table,
    low_level::{ActionAnswer, CallKind, MultiCall, RegionAction, RegionCall, TableCalls},
};
use tokio::time::Instant;

use super::{
    layout::Cells,
    observation::{self, Count, LatchObservation, Participants},
    plan::{self, Step},
};
use crate::error::{ClientErrorKind, Error, Result, unknown_if};

/// The maximum size of the row of a latch in a read with all versions and delete markers.
const MAX_RAW_BYTES: usize = 32 << 20;

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

    /// Returns from which timestamp on the next cells of a change are visible: the first count of this
    /// farm, and a participant's arrival. Delete markers of an earlier latch may lie above the
    /// timestamps of this one, if a farm counted on a server whose clock was ahead. The other cells
    /// replace cells that are visible.
    pub(super) async fn visible_from(
        &self,
        observation: &LatchObservation,
        participants: Participants<'_>,
        deadline: Instant,
    ) -> Result<u64> {
        let cells = &self.cells;
        let counts = observation
            .own(cells)
            .is_none()
            .then_some((&cells.counts, &cells.own));
        let arrival = match participants {
            Participants::One(column) if observation.arrived.is_empty() => Some((&cells.state, column)),
            _ => None,
        };
        let new: Vec<_> = counts.into_iter().chain(arrival).collect();
        if new.is_empty() {
            return Ok(0);
        }
        const OPERATION: &str = "reading what hides a count";
        let scan = Scan::new().raw().start_row(cells.row.clone());
        let scan = scan.stop_row_inclusive(cells.row.clone());
        let scan = new
            .iter()
            .fold(scan, |scan, (family, _)| scan.family((*family).clone()));
        let mut attempts = RegionCall::new(&self.table, OPERATION, &cells.row, CallKind::Read, deadline);
        let found = loop {
            let location = attempts.locate().await?;
            match attempts.attempt(&location).scan(&scan, MAX_RAW_BYTES).await {
                Ok(found) => break found,
                Err(failed) => attempts.recover(failed).await?,
            }
        };
        let found = found.ok_or_else(|| {
            let text =
                format!("the row of the latch has more than {MAX_RAW_BYTES} bytes before a compaction");
            Error::new(ClientErrorKind::LimitExceeded, text).at_operation(OPERATION)
        })?;
        // A marker of the whole family or row names no column.
        let hides = |cell: &&Cell| {
            let is_of = |(family, column): &(&Bytes, &Bytes)| {
                cell.family == **family && (cell.qualifier.is_empty() || cell.qualifier == **column)
            };
            new.iter().any(is_of)
        };
        let last = found
            .iter()
            .flat_map(Row::cells)
            .filter(hides)
            .map(|cell| cell.timestamp)
            .max();
        Ok(last.map_or(0, |last| last.saturating_add(1)))
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
        };
        let attempts = RegionCall::new(&self.table, operation, &call.row, kind, deadline);
        Ok(attempts.multi(&call).await?)
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
