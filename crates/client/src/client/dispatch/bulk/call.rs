//! One call with mutations of several regions of a server, and its answer.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    load::{self, ReportedLoad},
    queues::Part,
};
use crate::{
    client::dispatch::results::{self, OperationResults},
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
    let (results, sent) = (results::of_actions(results, parts.len())?, parts.len());
    let loads = load::reported(region_statistics, sent);
    let read = parts.iter().zip(results).map(|(placed, result)| {
        if let Some(exception) = &result.exception {
            let fault = RemoteFault::of_action(exception);
            let effect = Classification::of_fault(&fault).effect;
            return Ok(Err(CallError::Action {
                fault: Arc::new(fault),
                effect,
            }));
        }
        let mut answered = OperationResults::new(placed.part.mutations.mutations().len());
        for part in result.result_or_exception {
            if let Some(exception) = part.exception {
                let RemoteFault { class, message, .. } = RemoteFault::of_action(&exception);
                return Err(results::bad(format!(
                    "an exception for one of several mutations that are atomic: {class}: {message}"
                )));
            }
            *answered.place(part.index)?.1 = Some(());
        }
        answered.all()?;
        let load = loads.get(&placed.location.region.name);
        Ok(Ok(load.copied().unwrap_or_default()))
    });
    read.collect()
}
