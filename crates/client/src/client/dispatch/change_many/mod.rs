//! Many increments and appends at once, with one call for each server.
//!
//! The changes of a region that share a call are one atomic action, as in the module of `lanes`: the
//! server syncs its log once for all of them, while it would do so after each of them otherwise. An
//! action has at most one change of a row, because the server would base a second one on the old
//! value.
//!
//! Each change carries a nonce, of which a server remembers the last one of an atomic action. So an
//! action that may have been applied is sent again as it is, to the same server, or not at all.

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    ActionResult, Dispatch, Ended, Item, Kind,
    flow::{FlowLimits, LANES},
    results::{OperationResults, bad},
};
use crate::{
    client::{CallKind, Table, row_mutations::sorted_row},
    error::Result,
    model::{BytesBinary, Cell, Mutation, RegionInfo, Row},
    rpc::{CallError, Classification},
    wire::{
        cell_block::{CellBlockDecoder, Codec},
        convert,
        frame::RemoteFault,
        multi::EncodedRegionAction,
        mutation::MutationMessage,
        pb,
    },
};

/// The maximum number of changes in an atomic action: the server reads all their cells, perhaps from
/// the disk, before it unlocks any of their rows.
const MOST_TOGETHER: usize = 100;
/// The limits of a call.
const LIMITS: FlowLimits = FlowLimits {
    lanes: LANES,
    operations: 1_000,
    bytes: 1 << 20,
};
/// The weight of a value that an append returns, in bytes. Its real size is not known before, and no
/// server limits the size of an answer to atomic actions. So a call has few such values, each of at
/// most 10 MiB (`hbase.server.keyvalue.maxsize`).
const APPENDED_VALUE: usize = 64 << 10;

/// Increments and appends.
#[derive(Clone, Copy)]
struct Changes {
    nonce_group: Option<u64>,
}

/// An increment or append.
#[derive(Debug)]
struct Change {
    message: Bytes,
    /// Whether it is an action of its own.
    is_alone: bool,
}

impl Table {
    /// Executes increments and appends, and returns the result of each with its number.
    pub(in crate::client) async fn change_each(
        &self,
        name: &'static str,
        mutations: Vec<(usize, Mutation)>,
        deadline: Instant,
    ) -> Vec<(usize, Result<Row>)> {
        let (mut answers, mut changes) = (Vec::new(), Vec::new());
        for (place, mutation) in &mutations {
            match self.check(mutation) {
                Ok(()) => changes.push(self.change_of(*place, mutation)),
                Err(error) => answers.push((*place, Err(error.at_operation(name).at_table(&self.name)))),
            }
        }
        if changes.is_empty() {
            return answers;
        }
        self.wait_out_deletes(mutations.iter().map(|(_, mutation)| mutation))
            .await;
        let nonces = self.connection.config().nonces();
        let nonce_group = nonces.then(|| self.connection.nonce());
        let mut changing = Dispatch::new(self, Changes { nonce_group }, name, deadline, changes);
        while let Some(ended) = changing.next().await {
            match ended {
                Ended::Done(rows) => {
                    answers.extend(rows.into_iter().map(|(change, row)| (change.place, Ok(row))));
                }
                Ended::Failed(changes, error) => answers.extend(changes.into_iter().map(|change| {
                    let error = error.clone().of_row(&BytesBinary(&change.row));
                    (change.place, Err(error))
                })),
            }
        }
        answers
    }

    fn change_of(&self, place: usize, mutation: &Mutation) -> Item<Change> {
        let message = MutationMessage::new(mutation, mutation.durability());
        let message = if self.connection.config().nonces() {
            message.with_nonce(self.connection.nonce()).to_bytes()
        } else {
            message.to_bytes()
        };
        let returned = match mutation {
            Mutation::Append(append) if mutation.returns_result() => append.cells.len(),
            _ => 0,
        };
        Item {
            place,
            row: mutation.row().clone(),
            weight: message.len() + returned * APPENDED_VALUE,
            payload: Change {
                message,
                // Of an atomic action, the server drops a mutation with an invalid expression, and it
                // returns no times of expiry.
                is_alone: mutation.has_visibility() || self.options.call.codec == Codec::KeyValueWithTags,
            },
        }
    }
}

impl Kind for Changes {
    type Payload = Change;
    type Output = Row;

    const CALL_KIND: CallKind = CallKind::Write;

    fn limits(self) -> FlowLimits {
        LIMITS
    }

    fn nonce_group(self) -> Option<u64> {
        self.nonce_group
    }

    /// Those with the same row are in the order of the caller's list.
    fn actions(self, changes: Vec<Item<Change>>) -> Vec<Vec<Item<Change>>> {
        // The first change of each row, then the second ones, and so on.
        let mut rounds: Vec<Vec<Item<Change>>> = Vec::new();
        let mut round = 0;
        let mut row = None;
        for change in changes {
            round = if row.as_ref() == Some(&change.row) {
                round + 1
            } else {
                0
            };
            row = Some(change.row.clone());
            if rounds.len() <= round {
                rounds.push(Vec::new());
            }
            rounds[round].push(change);
        }
        let mut actions: Vec<Vec<Item<Change>>> = Vec::new();
        for round in rounds {
            let (mut weight, mut is_open) = (0, false);
            for change in round {
                weight += change.weight;
                let fits = is_open && !change.payload.is_alone && weight <= LIMITS.bytes;
                match actions.last_mut() {
                    Some(action) if fits && action.len() < MOST_TOGETHER => action.push(change),
                    _ => {
                        (weight, is_open) = (change.weight, !change.payload.is_alone);
                        actions.push(vec![change]);
                    }
                }
            }
        }
        actions
    }

    fn message(self, region: &RegionInfo, changes: &[Item<Change>]) -> Bytes {
        let mut action = EncodedRegionAction::new(region);
        if changes.len() > 1 {
            action = action.atomic();
        }
        for change in changes {
            action.mutation(&change.payload.message);
        }
        action.finish()
    }

    fn read(
        self,
        changes: &[Item<Change>],
        is_repeated: bool,
        result: pb::RegionActionResult,
        block: &mut CellBlockDecoder,
    ) -> Result<ActionResult<Row>, CallError> {
        if let Some(exception) = &result.exception {
            return Ok(Err(failure(exception)));
        }
        if result.processed == Some(false) {
            return Err(bad("a condition failed where there was none"));
        }
        let mut answered = OperationResults::new(changes.len());
        let mut rows: Vec<Vec<Cell>> = vec![Vec::new(); changes.len()];
        for part in result.result_or_exception {
            let (_, answer) = answered.place(part.index)?;
            match part.exception {
                None => *answer = Some(()),
                Some(exception) if changes.len() == 1 => return Ok(Err(failure(&exception))),
                Some(exception) => {
                    let RemoteFault { class, message, .. } = RemoteFault::of_action(&exception);
                    return Err(bad(format!(
                        "an exception for one of several changes that are atomic: {class}: {message}"
                    )));
                }
            }
            // The first result of an atomic action has the cells of all changes.
            let cells = convert::cells(part.result.unwrap_or_default(), block)
                .map_err(|error| bad(error.to_string()))?;
            for cell in cells {
                let at = changes.binary_search_by(|change| change.row.cmp(&cell.row));
                let at = at.map_err(|_| bad("a cell of another row than those of the changes"))?;
                // Those of a repeated change may have been read after later changes.
                if !is_repeated {
                    rows[at].push(cell);
                }
            }
        }
        answered.all()?;
        let rows = changes.iter().zip(rows);
        Ok(Ok(rows
            .map(|(change, cells)| Ok(sorted_row(change.row.clone(), cells)))
            .collect()))
    }
}

fn failure(exception: &pb::NameBytesPair) -> CallError {
    let fault = RemoteFault::of_action(exception);
    CallError::Action {
        effect: Classification::of_fault(&fault).effect,
        fault: fault.into(),
    }
}

#[cfg(test)]
mod tests;
