//! Several actions of one region in one call, which the server executes in order.
//!
//! Each region action is separate: one may be applied and the next fail. To other clients, a read
//! and a write in one call are still two steps. The call saves a round trip and guarantees the
//! order.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use prost::Message;

use crate::{
    error::{Effect, Result},
    model::{Cell, Durability, Get, Mutation, QueryMetrics, RegionInfo, Row},
    rpc::{CallError, Classification, Recovery},
    wire::{
        cell_block::CellBlockDecoder,
        convert::{self, ConvertError},
        frame::RemoteFault,
        multi::{EncodedMultiRequest, EncodedRegionAction},
        mutation::MutationMessage,
        pb,
    },
};

/// Actions on rows of one region, sent in one call and executed in order.
#[derive(Clone, Debug)]
pub struct MultiCall {
    /// A row of the region that is called. The row need not exist.
    pub row: Bytes,
    /// The actions. All their rows must be in that region.
    pub actions: Vec<RegionAction>,
    /// The durability of all mutations. Overrides the durability that a mutation specifies.
    pub durability: Durability,
}

/// A part of a [`MultiCall`] that succeeds or fails as a whole.
#[derive(Clone, Debug)]
pub enum RegionAction {
    /// Reads a row.
    Get(Get),
    /// Applies all mutations or none, on any rows of the region. HBase's own clients restrict the
    /// mutations to one row; the server does not check that.
    Atomic(Vec<Mutation>),
    /// Applies all mutations if the condition holds, and none otherwise. The mutations and the
    /// condition must name the same row. A server before 2.4 ignores the condition, so this client
    /// sends it only to servers that honour it.
    Conditional {
        /// The mutations, all of the condition's row.
        mutations: Vec<Mutation>,
        /// The condition, as one of the functions in [`condition`](crate::low_level::condition)
        /// returns it.
        condition: pb::Condition,
    },
}

/// The answer to a [`RegionAction`]. Answers are in the order of the actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionAnswer {
    /// The answer to a get: the row, or `None` if the row has no requested cell.
    Row(Option<Row>),
    /// The answer to atomic mutations: all were applied. Contains the cells that increments and
    /// appends wrote, of all rows.
    Applied(Vec<Cell>),
    /// The answer to conditional mutations.
    Processed {
        /// Whether the condition held, and all mutations were applied.
        processed: bool,
        /// The cells that increments and appends wrote.
        cells: Vec<Cell>,
        /// What the server has read for the condition, if that was requested.
        metrics: Option<QueryMetrics>,
    },
}

impl MultiCall {
    /// Returns whether an action has a condition.
    pub(super) fn has_conditions(&self) -> bool {
        let is_conditional = |action: &RegionAction| matches!(action, RegionAction::Conditional { .. });
        self.actions.iter().any(is_conditional)
    }

    /// Returns the mutations of all actions.
    pub(in crate::client) fn mutations(&self) -> impl Iterator<Item = &Mutation> {
        self.actions.iter().flat_map(|action| match action {
            RegionAction::Get(_) => &[][..],
            RegionAction::Atomic(mutations) | RegionAction::Conditional { mutations, .. } => mutations,
        })
    }

    pub(in crate::client) fn message(&self, region: &RegionInfo) -> EncodedMultiRequest {
        let region_action = together(&self.actions)
            .map(|actions| RegionAction::message(actions, region, self.durability))
            .collect();
        EncodedMultiRequest::new(region_action)
    }
}

/// Groups the actions into those of the message. Consecutive gets are one action, because each
/// action costs the server a region lookup, quotas and an answer; any other action is separate.
fn together(actions: &[RegionAction]) -> impl Iterator<Item = &[RegionAction]> {
    actions.chunk_by(|one, next| matches!((one, next), (RegionAction::Get(_), RegionAction::Get(_))))
}

impl RegionAction {
    /// Returns the number of its answers.
    fn len(&self) -> usize {
        match self {
            Self::Get(_) => 1,
            Self::Atomic(mutations) | Self::Conditional { mutations, .. } => mutations.len(),
        }
    }

    /// Returns the message of actions that are sent [together].
    pub(in crate::client) fn message(
        together: &[Self],
        region: &RegionInfo,
        durability: Durability,
    ) -> Bytes {
        let mut message = EncodedRegionAction::new(region);
        for action in together {
            match action {
                Self::Get(get) => message.get(&convert::get_message(get).encode_to_vec()),
                Self::Atomic(mutations) => {
                    message = message.atomic();
                    add_sorted(&mut message, mutations, durability);
                }
                Self::Conditional { mutations, condition } => {
                    message = message.atomic();
                    add_sorted(&mut message, mutations, durability);
                    message = message.under(condition);
                }
            }
        }
        message.finish()
    }
}

/// Adds mutations in the order of their rows. The server locks rows in the order of the request, so
/// two calls with the same rows in different orders would wait for each other until they time out.
fn add_sorted(message: &mut EncodedRegionAction, mutations: &[Mutation], durability: Durability) {
    let mut sorted: Vec<&Mutation> = mutations.iter().collect();
    sorted.sort_by_key(|mutation| mutation.row());
    for mutation in sorted {
        message.mutation(&MutationMessage::new(mutation, durability).to_bytes());
    }
}

/// Reads the answers to all actions; one failed action fails the call.
pub(in crate::client) fn read(
    actions: &[RegionAction],
    answer: pb::MultiResponse,
    mut block: CellBlockDecoder,
) -> Result<Vec<ActionAnswer>, CallError> {
    read_results(actions, answer.region_action_result, &mut block)
}

/// Reads the results of actions, of which one failed one fails all.
pub(in crate::client) fn read_results(
    actions: &[RegionAction],
    results: Vec<pb::RegionActionResult>,
    block: &mut CellBlockDecoder,
) -> Result<Vec<ActionAnswer>, CallError> {
    let sent = together(actions).count();
    if results.len() != sent {
        return Err(bad(format!("{} answers to {sent} region actions", results.len())));
    }
    let mut answers = Vec::with_capacity(actions.len());
    let mut failed: Option<(RemoteFault, Recovery)> = None;
    let mut effect = Effect::None;
    for (actions, result) in together(actions).zip(results) {
        let fault = match read_together(actions, result, block) {
            Ok(read) => {
                if read.iter().any(ActionAnswer::says_applied) {
                    effect = Effect::Unknown;
                }
                answers.extend(read);
                continue;
            }
            Err(ActionError::Bad(what)) => return Err(bad(what)),
            Err(ActionError::Failed(fault)) => fault,
        };
        let classification = Classification::of_fault(&fault);
        if !are_gets(actions) && classification.effect == Effect::Unknown {
            effect = Effect::Unknown;
        }
        // The first failure decides how to continue, unless another one is final.
        match &failed {
            Some((_, recovery))
                if *recovery == Recovery::Fail || classification.recovery != Recovery::Fail => {}
            _ => failed = Some((fault, classification.recovery)),
        }
    }
    match failed {
        None => Ok(answers),
        Some((fault, _)) => Err(CallError::Action {
            fault: Arc::new(fault),
            effect,
        }),
    }
}

enum ActionError {
    /// The answer violates the protocol.
    Bad(String),
    Failed(RemoteFault),
}

impl From<ConvertError> for ActionError {
    fn from(error: ConvertError) -> Self {
        Self::Bad(error.to_string())
    }
}

fn bad(what: String) -> CallError {
    CallError::BadAnswer(what.into())
}

fn are_gets(together: &[RegionAction]) -> bool {
    matches!(together, [RegionAction::Get(_), ..])
}

/// Reads the answers to actions that were sent [together].
fn read_together(
    actions: &[RegionAction],
    result: pb::RegionActionResult,
    block: &mut CellBlockDecoder,
) -> Result<Vec<ActionAnswer>, ActionError> {
    let bad = |what: &str| Err(ActionError::Bad(what.to_owned()));
    if let Some(exception) = &result.exception {
        return Err(ActionError::Failed(RemoteFault::of_action(exception)));
    }
    let number = actions.iter().map(RegionAction::len).sum();
    let mut answers: Vec<Option<Vec<Cell>>> = vec![None; number];
    let mut metrics = BTreeMap::new();
    let mut failed = None;
    // Cells are in the order of the message. The index of a result identifies its action.
    for part in result.result_or_exception {
        let index = part.index.and_then(|index| usize::try_from(index).ok());
        let Some((index, answer @ None)) = index.and_then(|index| Some((index, answers.get_mut(index)?)))
        else {
            return bad("a result of no action of the call, or a second one of the same");
        };
        let of_result = part.result.as_ref().and_then(|result| result.metrics);
        let reported = of_result.or(part.metrics).map(convert::query_metrics);
        metrics.extend(reported.map(|reported| (index, reported)));
        *answer = Some(match (&part.exception, part.result) {
            (Some(exception), _) => {
                failed = Some(RemoteFault::of_action(exception));
                Vec::new()
            }
            (None, Some(result)) => convert::cells(result, block)?,
            (None, None) if are_gets(actions) => return bad("no result to a get"),
            (None, None) => Vec::new(),
        });
    }
    let answers: Option<Vec<Vec<Cell>>> = answers.into_iter().collect();
    let Some(cells) = answers else {
        return bad("an action without an answer");
    };
    match (actions, failed, result.processed) {
        ([RegionAction::Get(_), ..], Some(fault), _) => Err(ActionError::Failed(fault)),
        (_, Some(fault), _) => Err(ActionError::Bad(format!(
            "an exception for one of several mutations that are atomic: {}: {}",
            fault.class, fault.message
        ))),
        ([RegionAction::Get(_), ..], None, _) => {
            let rows = cells.into_iter().enumerate().map(|(index, cells)| {
                let metrics = metrics.get(&index).copied();
                let row = convert::row_of(cells)?;
                Ok(ActionAnswer::Row(row.map(|row| row.with_query_metrics(metrics))))
            });
            rows.collect()
        }
        ([RegionAction::Conditional { .. }], None, Some(processed)) => Ok(vec![ActionAnswer::Processed {
            processed,
            cells: cells.concat(),
            metrics: metrics.into_values().map(Some).fold(None, QueryMetrics::sum),
        }]),
        ([RegionAction::Conditional { .. }], None, None) => bad("no word on whether the condition held"),
        (_, None, None | Some(true)) => Ok(vec![ActionAnswer::Applied(cells.concat())]),
        (_, None, Some(false)) => bad("a condition failed where there was none"),
    }
}

impl ActionAnswer {
    fn says_applied(&self) -> bool {
        match self {
            Self::Row(_) => false,
            Self::Applied(_) => true,
            Self::Processed { processed, .. } => *processed,
        }
    }
}

#[cfg(test)]
mod tests;
