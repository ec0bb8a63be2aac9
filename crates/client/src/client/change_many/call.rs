//! One call with increments and appends of a server, and its answer.

use std::sync::Arc;

use super::{Change, Placed};
use crate::{
    client::row_mutations::sorted_row,
    error::Effect,
    model::{Cell, Row},
    rpc::{CallError, Classification},
    wire::{
        cell_block::CellBlockDecoder,
        convert,
        frame::RemoteFault,
        multi::{EncodedMultiRequest, EncodedRegionAction},
        pb,
    },
};

pub(super) fn message(call: &[Placed<'_>], nonce_group: u64) -> EncodedMultiRequest {
    let region_action = call.iter().map(|Placed { part, location }| {
        let action = EncodedRegionAction::new(&location.region);
        let mut action = match part.changes.len() {
            0 | 1 => action,
            _ => action.atomic(),
        };
        for change in &part.changes {
            action.mutation(&change.message);
        }
        action.finish()
    });
    EncodedMultiRequest {
        region_action: region_action.collect(),
        nonce_group: Some(nonce_group),
    }
}

/// Reads the answers to all actions of a call: the rows of each, in the order of its changes.
pub(super) fn read(
    call: &[Placed<'_>],
    answer: pb::MultiResponse,
    mut block: CellBlockDecoder,
) -> Result<Vec<Result<Vec<Row>, CallError>>, CallError> {
    let results = answer.region_action_result;
    let (answered, sent) = (results.len(), call.len());
    if answered != sent {
        return Err(bad(format!("{answered} answers to {sent} region actions")));
    }
    let results = call.iter().zip(results).map(|(Placed { part, .. }, result)| {
        let is_repeated = part.attempts.effect() == Effect::Unknown;
        read_action(&part.changes, is_repeated, result, &mut block)
    });
    results.collect()
}

pub(super) fn read_action(
    changes: &[Change],
    is_repeated: bool,
    result: pb::RegionActionResult,
    block: &mut CellBlockDecoder,
) -> Result<Result<Vec<Row>, CallError>, CallError> {
    if let Some(exception) = &result.exception {
        return Ok(Err(failure(exception)));
    }
    if result.processed == Some(false) {
        return Err(bad("a condition failed where there was none"));
    }
    let mut answered = vec![false; changes.len()];
    let mut rows: Vec<Vec<Cell>> = vec![Vec::new(); changes.len()];
    let mut failed = None;
    for part in result.result_or_exception {
        let index = part.index.and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| answered.get_mut(index)) {
            Some(answered @ false) => *answered = true,
            _ => {
                return Err(bad(
                    "a result of no change of the call, or a second one of the same",
                ));
            }
        }
        match (part.exception, part.result) {
            (Some(exception), _) if changes.len() == 1 => failed = Some(failure(&exception)),
            (Some(exception), _) => {
                let RemoteFault { class, message, .. } = RemoteFault::of_action(&exception);
                return Err(bad(format!(
                    "an exception for one of several changes that are atomic: {class}: {message}"
                )));
            }
            (None, result) => {
                // The first result of an atomic action has the cells of all changes.
                let cells = convert::cells(result.unwrap_or_default(), block)
                    .map_err(|error| bad(error.to_string()))?;
                for cell in cells {
                    let at = changes.binary_search_by(|change| change.mutation.row().cmp(&cell.row));
                    let at = at.map_err(|_| bad("a cell of another row than those of the changes"))?;
                    // Those of a repeated change may have been read after later changes.
                    if !is_repeated {
                        rows[at].push(cell);
                    }
                }
            }
        }
    }
    if answered.contains(&false) {
        return Err(bad("a change without an answer"));
    }
    Ok(match failed {
        Some(failure) => Err(failure),
        None => Ok(changes
            .iter()
            .zip(rows)
            .map(|(change, cells)| sorted_row(change.mutation.row().clone(), cells))
            .collect()),
    })
}

fn failure(exception: &pb::NameBytesPair) -> CallError {
    let fault = RemoteFault::of_action(exception);
    CallError::Action {
        effect: Classification::of_fault(&fault).effect,
        fault: Arc::new(fault),
    }
}

fn bad(what: impl Into<Arc<str>>) -> CallError {
    CallError::BadAnswer(what.into())
}
