//! One call with mutations of several regions of a server, and its answer.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    load::{self, ReportedLoad},
    queues::Part,
};
use crate::{
    cluster::RegionLocation,
    rpc::{CallError, Classification},
    wire::{
        frame::RemoteFault,
        multi::{EncodedMultiRequest, MutationsResponse},
    },
};

/// A part, the first row of its queue, and the location of its region.
pub(super) struct Placed<'a> {
    pub(super) queue: Bytes,
    pub(super) part: Part<'a>,
    pub(super) location: Arc<RegionLocation>,
}

/// Returns the request, and the cells behind it.
pub(super) fn request(parts: &[Placed<'_>]) -> (EncodedMultiRequest, Bytes) {
    let cells_len = parts.iter().map(|placed| placed.part.mutations.cells_len());
    let mut cells = Vec::with_capacity(cells_len.sum());
    let region_action = parts
        .iter()
        .map(|placed| {
            placed.part.mutations.region_action(
                &placed.location.region,
                placed.part.stamping.stamp(),
                &mut cells,
            )
        })
        .collect();
    (EncodedMultiRequest::new(region_action), cells.into())
}

/// Reads the answer: the result of each part, all of which is applied or nothing, and the load of its
/// region.
pub(super) fn read(
    parts: &[Placed<'_>],
    answer: MutationsResponse,
) -> Result<Vec<Result<ReportedLoad, CallError>>, CallError> {
    let MutationsResponse {
        region_action_result: results,
        region_statistics,
    } = answer;
    let (answered, sent) = (results.len(), parts.len());
    if answered != sent {
        return Err(bad(format!("{answered} answers to {sent} region actions")));
    }
    let loads = load::reported(region_statistics, sent);
    let results = parts.iter().zip(results).map(|(placed, result)| {
        if let Some(exception) = &result.exception {
            let fault = RemoteFault::of_action(exception);
            let effect = Classification::of_fault(&fault).effect;
            return Ok(Err(CallError::Action {
                fault: Arc::new(fault),
                effect,
            }));
        }
        let mut answered = vec![false; placed.part.mutations.mutations().len()];
        for part in result.result_or_exception {
            if let Some(exception) = part.exception {
                let RemoteFault { class, message, .. } = RemoteFault::of_action(&exception);
                return Err(bad(format!(
                    "an exception for one of several mutations that are atomic: {class}: {message}"
                )));
            }
            let index = part.index.and_then(|index| usize::try_from(index).ok());
            match index.and_then(|index| answered.get_mut(index)) {
                Some(answered @ false) => *answered = true,
                _ => {
                    return Err(bad(
                        "a result of no mutation of the call, or a second one of the same",
                    ));
                }
            }
        }
        match answered.contains(&false) {
            true => Err(bad("a mutation without an answer")),
            false => {
                let load = loads.get(&placed.location.region.name);
                Ok(Ok(load.copied().unwrap_or_default()))
            }
        }
    });
    results.collect()
}

fn bad(what: impl Into<Arc<str>>) -> CallError {
    CallError::BadAnswer(what.into())
}
