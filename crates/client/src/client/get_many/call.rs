//! One call with many gets of one server, and its answer.

use std::{collections::BTreeMap, mem, sync::Arc};

use super::{Failed, Part, Placed, ReadMany, Wanted};
use crate::{
    client::Table,
    error::Effect,
    model::Row,
    rpc::CallError,
    wire::{
        cell_block::CellBlockDecoder,
        convert,
        frame::RemoteFault,
        multi::{EncodedMultiRequest, EncodedRegionAction},
        pb,
    },
};

/// The limits of one call to a server, unless a single get is larger, and the number of concurrent
/// calls.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) gets: usize,
    pub(super) bytes: usize,
    pub(super) lanes: usize,
}

impl Limits {
    /// As few calls as possible.
    pub(super) const FEW: Self = Self {
        // Servers log a warning above this number (`hbase.rpc.rows.warning.threshold`).
        gets: 5_000,
        bytes: 1 << 20,
        // While the server executes one call, the client receives the answer to another.
        lanes: 2,
    };
    /// Early answers: the first rows do not wait for the last ones.
    pub(super) const SOON: Self = Self {
        gets: 1_250,
        lanes: 4,
        ..Self::FEW
    };
}

impl Table {
    /// Groups the parts of one server into calls.
    pub(super) fn calls<'a>(
        &'a self,
        placed: Vec<Placed<'a>>,
        limits: Limits,
        operation: ReadMany,
    ) -> Vec<Vec<Placed<'a>>> {
        let mut calls = Vec::new();
        let mut call = Vec::new();
        let mut left = limits;
        for Placed { part, location } in placed {
            let mut next = Some(part);
            while let Some(mut part) = next {
                let mut fitting = 0;
                for get in &part.gets {
                    let bytes = get.message.len();
                    let first = fitting == 0 && call.is_empty();
                    if !first && (left.gets == 0 || left.bytes < bytes) {
                        break;
                    }
                    left.gets -= 1;
                    left.bytes = left.bytes.saturating_sub(bytes);
                    fitting += 1;
                }
                if fitting == 0 {
                    calls.push(mem::take(&mut call));
                    left = limits;
                    next = Some(part);
                    continue;
                }
                next = self.part(part.gets.split_off(fitting), operation);
                call.push(Placed {
                    part,
                    location: Arc::clone(&location),
                });
            }
        }
        calls.extend(Some(call).filter(|call| !call.is_empty()));
        calls
    }
}

impl<'a> Placed<'a> {
    /// Returns the failed gets of the part. Those that failed in the same way stay together.
    pub(super) fn without(self, mut failures: BTreeMap<usize, CallError>) -> Vec<Failed<'a>> {
        let Self { part, location } = self;
        let mut groups: BTreeMap<String, (CallError, Vec<Wanted>)> = BTreeMap::new();
        for (at, get) in part.gets.into_iter().enumerate() {
            if let Some(failure) = failures.remove(&at) {
                let group = groups.entry(failure.to_string());
                group.or_insert((failure, Vec::new())).1.push(get);
            }
        }
        let mut attempts = part.attempts;
        let mut groups = groups.into_values();
        let Some((failure, gets)) = groups.next() else {
            attempts.succeed();
            return Vec::new();
        };
        let with = |attempts, failure, gets| {
            let (part, location) = (Part { attempts, gets }, Arc::clone(&location));
            Failed {
                placed: Placed { part, location },
                failure,
            }
        };
        // The attempts continue with this row. The earlier rows have been read, so there is
        // progress.
        attempts.relocate_to(gets[0].row.clone());
        let others = groups.map(|(failure, gets)| with(attempts.fork(gets[0].row.clone()), failure, gets));
        let mut failed: Vec<_> = others.collect();
        failed.push(with(attempts, failure, gets));
        failed
    }
}

pub(super) fn message(call: &[Placed<'_>]) -> EncodedMultiRequest {
    let region_action = call.iter().map(|Placed { part, location }| {
        let messages = part.gets.iter().map(|get| get.message.len()).sum();
        let mut action = EncodedRegionAction::new(&location.region).with_room(part.gets.len(), messages);
        for get in &part.gets {
            action.get(&get.message);
        }
        action.finish()
    });
    EncodedMultiRequest::new(region_action.collect())
}

/// The server's answer to a part.
pub(super) struct PartAnswer {
    /// The rows, each with its index in the caller's list.
    pub(super) found: Vec<(usize, Option<Row>)>,
    /// The failures, by the index of the get in the part.
    pub(super) failures: BTreeMap<usize, CallError>,
}

/// Reads the answers to all parts of a call.
pub(super) fn read(
    call: &[Placed<'_>],
    answer: pb::MultiResponse,
    mut block: CellBlockDecoder,
) -> Result<Vec<PartAnswer>, CallError> {
    let results = answer.region_action_result;
    if results.len() != call.len() {
        let (results, parts) = (results.len(), call.len());
        return Err(bad(format!("{results} answers to {parts} region actions")));
    }
    call.iter()
        .zip(results)
        .map(|(placed, result)| read_part(&placed.part.gets, result, &mut block))
        .collect()
}

/// The exception of a get, or of a region with all its gets. Gets have no effect on the server.
fn failure(exception: &pb::NameBytesPair) -> CallError {
    CallError::Action {
        fault: Arc::new(RemoteFault::of_action(exception)),
        effect: Effect::None,
    }
}

fn bad(what: impl Into<Arc<str>>) -> CallError {
    CallError::BadAnswer(what.into())
}

fn read_part(
    gets: &[Wanted],
    result: pb::RegionActionResult,
    block: &mut CellBlockDecoder,
) -> Result<PartAnswer, CallError> {
    let mut answer = PartAnswer {
        found: Vec::with_capacity(gets.len()),
        failures: BTreeMap::new(),
    };
    if let Some(exception) = &result.exception {
        let failure = failure(exception);
        answer.failures = (0..gets.len()).map(|at| (at, failure.clone())).collect();
        return Ok(answer);
    }
    let mut answered = vec![false; gets.len()];
    // Cells are in the order of the message. The index of a result identifies its get.
    for part in result.result_or_exception {
        let at = part.index.and_then(|index| usize::try_from(index).ok());
        let (at, get) = match at.and_then(|at| Some((at, gets.get(at)?, answered.get_mut(at)?))) {
            Some((at, get, answered @ false)) => {
                *answered = true;
                (at, get)
            }
            _ => return Err(bad("a result of no get of the call, or a second one of the same")),
        };
        match (&part.exception, part.result) {
            (Some(exception), _) => {
                answer.failures.insert(at, failure(exception));
            }
            (None, Some(result)) => {
                let row = match result.exists {
                    Some(true) => Some(Row::new(get.row.clone(), Vec::new())),
                    _ => convert::row(result, block).map_err(|error| bad(error.to_string()))?,
                };
                if row.as_ref().is_some_and(|row| *row.key() != get.row) {
                    return Err(bad("another row than the one that was asked for"));
                }
                answer.found.push((get.place, row));
            }
            (None, None) => return Err(bad("no result to a get")),
        }
    }
    match answered.contains(&false) {
        true => Err(bad("a get without an answer")),
        false => Ok(answer),
    }
}
