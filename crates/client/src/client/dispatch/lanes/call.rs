//! One call with the operations of several callers, and its answer.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use super::{
    operation::{Answer, Operation},
    traffic::Waiting,
};
use crate::{
    client::dispatch::results::{self, OperationResults, bad},
    error::Effect,
    model::RegionInfo,
    rpc::{CallError, Classification, Recovery},
    wire::{
        cell_block::CellBlockDecoder,
        convert,
        frame::RemoteFault,
        multi::{EncodedMultiRequest, EncodedRegionAction},
        pb,
    },
};

/// The request of a call.
pub(super) struct SharedCall {
    pub(super) request: EncodedMultiRequest,
    /// The indexes of each region's operations, in the order of the request.
    regions: Vec<Vec<usize>>,
}

impl SharedCall {
    pub(super) fn new(operations: &[Waiting]) -> Self {
        let mut regions: BTreeMap<&Bytes, (&RegionInfo, Vec<usize>)> = BTreeMap::new();
        for (index, waiting) in operations.iter().enumerate() {
            let region = &waiting.location.region;
            let (_, indexes) = regions.entry(&region.name).or_insert((region, Vec::new()));
            indexes.push(index);
        }
        let mut call = Self {
            request: EncodedMultiRequest::default(),
            regions: Vec::with_capacity(regions.len()),
        };
        for (region, mut indexes) in regions.into_values() {
            // A server locks the rows of an atomic action in this order. In another order, two
            // calls would wait for each other.
            indexes.sort_by_key(|index| operations[*index].mutated_row());
            let of_region: Vec<_> = indexes
                .iter()
                .map(|index| &operations[*index].operation)
                .collect();
            call.request.region_action.push(region_action(region, &of_region));
            call.regions.push(indexes);
        }
        call
    }

    /// Reads the answers, in the order of the operations.
    pub(super) fn read(
        &self,
        operations: &[Waiting],
        answer: pb::MultiResponse,
        mut block: CellBlockDecoder,
    ) -> Result<Vec<Answer>, CallError> {
        let results = results::of_actions(answer.region_action_result, self.regions.len())?;
        let mut answers = Vec::with_capacity(operations.len());
        for (indexes, result) in self.regions.iter().zip(results) {
            if let Some(exception) = &result.exception {
                answers.extend(indexes.iter().map(|index| {
                    let is_get = operations[*index].operation.is_get;
                    (*index, failed_region(exception, is_get, indexes.len()))
                }));
                continue;
            }
            let mut of_region = OperationResults::new(indexes.len());
            for part in result.result_or_exception {
                let (place, answer) = of_region.place(part.index)?;
                let operation = &operations[indexes[place]].operation;
                *answer = Some(read_one(operation, part, &mut block)?);
            }
            answers.extend(indexes.iter().copied().zip(of_region.all()?));
        }
        answers.sort_unstable_by_key(|(index, _)| *index);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

fn region_action(region: &RegionInfo, operations: &[&Operation]) -> Bytes {
    let messages = operations.iter().map(|operation| operation.message.len());
    let action = EncodedRegionAction::new(region).with_room(operations.len(), messages.sum());
    let mut action = if operations.iter().all(|operation| !operation.is_get) {
        action.atomic()
    } else {
        action
    };
    for operation in operations {
        if operation.is_get {
            action.get(&operation.message);
        } else {
            action.mutation(&operation.message);
        }
    }
    action.finish()
}

/// Returns the answer to an operation of a region that answered all its operations with an
/// exception.
fn failed_region(exception: &pb::NameBytesPair, is_get: bool, operations: usize) -> Answer {
    let fault = RemoteFault::of_action(exception);
    let Classification { recovery, effect, .. } = Classification::of_fault(&fault);
    if !is_get && operations > 1 && recovery == Recovery::Fail && effect == Effect::None {
        return Answer::Alone;
    }
    Answer::Attempted(Err(CallError::Action {
        fault: Arc::new(fault),
        effect: if is_get { Effect::None } else { effect },
    }))
}

fn read_one(
    operation: &Operation,
    part: pb::ResultOrException,
    block: &mut CellBlockDecoder,
) -> Result<Answer, CallError> {
    let attempted = match (operation.is_get, part.exception, part.result) {
        (true, Some(exception), _) => Err(CallError::Action {
            fault: Arc::new(RemoteFault::of_action(&exception)),
            effect: Effect::None,
        }),
        (false, Some(exception), _) => {
            let fault = RemoteFault::of_action(&exception);
            return Err(bad(format!(
                "an exception for one of several mutations that are atomic: {}: {}",
                fault.class, fault.message
            )));
        }
        (true, None, Some(result)) => {
            let row = convert::row(result, block).map_err(|error| bad(error.to_string()))?;
            if row.as_ref().is_some_and(|row| *row.key() != operation.row) {
                return Err(bad("another row than the one that was asked for"));
            }
            Ok(row)
        }
        (true, None, None) => return Err(bad("no result to a get")),
        (false, None, result) => {
            convert::row(result.unwrap_or_default(), block).map_err(|error| bad(error.to_string()))?;
            Ok(None)
        }
    };
    Ok(Answer::Attempted(attempted))
}
