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
        let region_action = self
            .actions
            .iter()
            .map(|action| action.message(region, self.durability))
            .collect();
        pb::MultiRequest {
            region_action,
            ..pb::MultiRequest::default()
        }
    }
}

impl RegionAction {
    /// How many answers it gets, one for each of its actions.
    fn len(&self) -> usize {
        match self {
            Self::Get(_) => 1,
            Self::Atomic(mutations) | Self::Conditional { mutations, .. } => mutations.len(),
        }
    }

    fn message(&self, region: &RegionInfo, durability: Durability) -> pb::RegionAction {
        let message = pb::RegionAction {
            region: convert::region_specifier(region),
            ..pb::RegionAction::default()
        };
        match self {
            Self::Get(get) => pb::RegionAction {
                action: vec![pb::Action {
                    index: Some(0),
                    get: Some(convert::get_message(get)),
                    ..pb::Action::default()
                }],
                ..message
            },
            Self::Atomic(mutations) => pb::RegionAction {
                atomic: Some(true),
                action: mutation_actions(mutations, durability),
                ..message
            },
            Self::Conditional { mutations, condition } => pb::RegionAction {
                atomic: Some(true),
                action: mutation_actions(mutations, durability),
                condition: Some(condition.clone()),
                ..message
            },
        }
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
    if results.len() != actions.len() {
        return Err(bad(format!(
            "{} answers to {} region actions",
            results.len(),
            actions.len()
        )));
    }
    let mut answers = Vec::with_capacity(actions.len());
    let mut failed: Option<(RemoteFault, Recovery)> = None;
    let mut effect = Effect::None;
    for (action, result) in actions.iter().zip(results) {
        let fault = match read_action(action, result, &mut block) {
            Ok(answer) => {
                if answer.says_applied() {
                    effect = Effect::Unknown;
                }
                answers.push(answer);
                continue;
            }
            Err(ActionError::Bad(what)) => return Err(bad(what)),
            Err(ActionError::Failed(fault)) => fault,
        };
        let ruling = Ruling::of(&fault.class, &fault.message, fault.do_not_retry);
        if !matches!(action, RegionAction::Get(_)) && ruling.effect == Effect::Unknown {
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

fn read_action(
    action: &RegionAction,
    result: pb::RegionActionResult,
    block: &mut CellBlockDecoder,
) -> Result<ActionAnswer, ActionError> {
    let bad = |what: &str| Err(ActionError::Bad(what.to_owned()));
    if let Some(exception) = &result.exception {
        return Err(ActionError::Failed(RemoteFault::of_action(exception)));
    }
    let mut answered = vec![false; action.len()];
    let mut cells = Vec::new();
    let mut failed = None;
    // In the order of the message, in which the cells are too; which action a result is of, its index says.
    for part in result.result_or_exception {
        let index = part.index.and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| answered.get_mut(index)) {
            Some(answered @ false) => *answered = true,
            _ => return bad("a result of no action of the call, or a second one of the same"),
        }
        if let Some(exception) = &part.exception {
            failed = Some(RemoteFault::of_action(exception));
            continue;
        }
        match part.result {
            Some(result) => cells.extend(convert::cells(result, block)?),
            None if matches!(action, RegionAction::Get(_)) => return bad("no result to a get"),
            None => {}
        }
    }
    if answered.contains(&false) {
        return bad("an action without an answer");
    }
    match (action, failed, result.processed) {
        (RegionAction::Get(_), Some(fault), _) => Err(ActionError::Failed(fault)),
        (_, Some(fault), _) => Err(ActionError::Bad(format!(
            "an exception for one of several mutations that are atomic: {}: {}",
            fault.class, fault.message
        ))),
        (RegionAction::Get(_), None, _) => Ok(ActionAnswer::Row(convert::row_of(cells)?)),
        (RegionAction::Atomic(_), None, None | Some(true)) => Ok(ActionAnswer::Applied(cells)),
        (RegionAction::Atomic(_), None, Some(false)) => bad("a condition failed where there was none"),
        (RegionAction::Conditional { .. }, None, Some(processed)) => {
            Ok(ActionAnswer::Processed { processed, cells })
        }
        (RegionAction::Conditional { .. }, None, None) => bad("no word on whether the condition held"),
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
