//! Several actions of one region in one call, done by the server in their order.
//!
//! Each region action stands for itself: one may be applied and the next fail. Read and write in one call are still two
//! steps for everybody else; what the call spares is the way, and what it adds is the order.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use tokio::time::Instant;

use super::{Table, region_call::RegionGuard};
use crate::{
    cluster::{CallKind, Operation},
    error::{Effect, Result},
    model::{Cell, Durability, Get, Mutation, RegionInfo, Row},
    rpc::{CallError, Recovery, Ruling},
    wire::{
        cell_block::CellBlockDecoder,
        convert::{self, ConvertError},
        frame::RemoteFault,
        pb,
    },
};

/// Actions of one region, done in their order.
#[derive(Clone, Debug)]
pub(crate) struct MultiCall {
    /// The row whose region is called; it need not exist.
    pub(crate) row: Bytes,
    /// What is done, on rows of that one region.
    pub(crate) actions: Vec<RegionAction>,
    /// The durability of all its mutations, whatever they say themselves.
    pub(crate) durability: Durability,
    /// What may be done when its answer is lost, or one action failed after another was applied.
    pub(crate) kind: CallKind,
}

/// A part of a [`MultiCall`] that succeeds or fails as one.
#[derive(Clone, Debug)]
pub(crate) enum RegionAction {
    /// Reads a row.
    Get(Get),
    /// Applies all mutations or none, on any rows of the region. The server does not check what HBase's own clients
    /// promise, that there is one row only.
    Atomic(Vec<Mutation>),
    /// Applies all mutations when the condition holds. They and the condition must name one and the same row. A server
    /// before 2.4 does not know the condition, and applies them without it.
    Conditional {
        mutations: Vec<Mutation>,
        condition: pb::Condition,
    },
}

/// What the server answers to a [`RegionAction`], in the same place of the answers as the action in the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ActionAnswer {
    /// To a get: the row, none when it has no cell that was asked for.
    Row(Option<Row>),
    /// To atomic mutations: all were applied. The cells that increments and appends made, of all rows.
    Applied(Vec<Cell>),
    /// To conditional ones: whether the condition held, and so all were applied; and the cells that increments and
    /// appends made.
    Processed { processed: bool, cells: Vec<Cell> },
}

impl Table {
    /// Sends the actions in one call, but only to a region that the guard lets pass. The answers are as many as the
    /// actions, each of its action's sort.
    ///
    /// # Errors
    ///
    /// When any action failed and can't be tried again. The effect is unknown as soon as any action may have been applied.
    pub(crate) async fn multi_where(
        &self,
        name: &'static str,
        call: &MultiCall,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> Result<Vec<ActionAnswer>> {
        let operation = Operation {
            name,
            table: &self.name,
            row: Cow::Borrowed(&call.row),
            kind: call.kind,
            deadline,
        };
        self.call_region_where(
            operation,
            "Multi",
            guard,
            |region| call.message(region),
            |answer, block| read(&call.actions, answer, block),
        )
        .await
    }
}

impl MultiCall {
    fn message(&self, region: &RegionInfo) -> pb::MultiRequest {
        let region_action = together(&self.actions)
            .map(|actions| RegionAction::message(actions, region, self.durability))
            .collect();
        pb::MultiRequest {
            region_action,
            ..pb::MultiRequest::default()
        }
    }
}

/// The actions that are sent as one of the message's: gets that follow each other, because each costs the server a look-up
/// of the region, quotas, and an answer; any other one by itself.
fn together(actions: &[RegionAction]) -> impl Iterator<Item = &[RegionAction]> {
    actions.chunk_by(|one, next| matches!((one, next), (RegionAction::Get(_), RegionAction::Get(_))))
}

impl RegionAction {
    /// How many answers it gets, one for each of its actions.
    fn len(&self) -> usize {
        match self {
            Self::Get(_) => 1,
            Self::Atomic(mutations) | Self::Conditional { mutations, .. } => mutations.len(),
        }
    }

    /// The message of those that are sent [together].
    fn message(together: &[Self], region: &RegionInfo, durability: Durability) -> pb::RegionAction {
        let mut message = pb::RegionAction {
            region: convert::region_specifier(region),
            ..pb::RegionAction::default()
        };
        for (index, action) in (0..).zip(together) {
            match action {
                Self::Get(get) => message.action.push(pb::Action {
                    index: Some(index),
                    get: Some(convert::get_message(get)),
                    ..pb::Action::default()
                }),
                Self::Atomic(mutations) => {
                    message.atomic = Some(true);
                    message.action = mutation_actions(mutations, durability);
                }
                Self::Conditional { mutations, condition } => {
                    message.atomic = Some(true);
                    message.action = mutation_actions(mutations, durability);
                    message.condition = Some(condition.clone());
                }
            }
        }
        message
    }
}

/// The mutations, sorted by row. The server locks rows in the order of the request, so that two calls with the same rows
/// in different orders would wait for each other until their time is up.
fn mutation_actions(mutations: &[Mutation], durability: Durability) -> Vec<pb::Action> {
    let mut sorted: Vec<&Mutation> = mutations.iter().collect();
    sorted.sort_by_key(|mutation| mutation.row());
    (0..)
        .zip(sorted)
        .map(|(index, mutation)| pb::Action {
            index: Some(index),
            mutation: Some(pb::MutationProto {
                durability: Some(convert::durability_code(durability)),
                ..convert::mutation_message(mutation)
            }),
            ..pb::Action::default()
        })
        .collect()
}

/// Reads the answers to all actions; one failed action fails the call.
fn read(
    actions: &[RegionAction],
    answer: pb::MultiResponse,
    mut block: CellBlockDecoder,
) -> Result<Vec<ActionAnswer>, CallError> {
    let results = answer.region_action_result;
    let sent = together(actions).count();
    if results.len() != sent {
        return Err(bad(format!("{} answers to {sent} region actions", results.len())));
    }
    let mut answers = Vec::with_capacity(actions.len());
    let mut failed: Option<(RemoteFault, Recovery)> = None;
    let mut effect = Effect::None;
    for (actions, result) in together(actions).zip(results) {
        let fault = match read_together(actions, result, &mut block) {
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
        let ruling = Ruling::of(&fault.class, &fault.message, fault.do_not_retry);
        if !are_gets(actions) && ruling.effect == Effect::Unknown {
            effect = Effect::Unknown;
        }
        // The first failure says how to go on, unless another one says that there is no use.
        match &failed {
            Some((_, recovery)) if *recovery == Recovery::Fail || ruling.recovery != Recovery::Fail => {}
            _ => failed = Some((fault, ruling.recovery)),
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
    /// The answer is not one that a server gives.
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
    let mut failed = None;
    // In the order of the message, in which the cells are too; which action a result is of, its index says.
    for part in result.result_or_exception {
        let index = part.index.and_then(|index| usize::try_from(index).ok());
        let Some(answer @ None) = index.and_then(|index| answers.get_mut(index)) else {
            return bad("a result of no action of the call, or a second one of the same");
        };
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
            let rows = cells
                .into_iter()
                .map(|cells| Ok(ActionAnswer::Row(convert::row_of(cells)?)));
            rows.collect()
        }
        ([RegionAction::Conditional { .. }], None, Some(processed)) => Ok(vec![ActionAnswer::Processed {
            processed,
            cells: cells.concat(),
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
