//! A single get or mutation, and the answer to it.

use bytes::Bytes;
use prost::Message;

use crate::{
    model::{Get, Mutation, Row},
    rpc::CallError,
    wire::{convert, mutation::MutationMessage},
};

/// A get or a mutation, encoded once for all attempts. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::client) struct Operation {
    pub(super) row: Bytes,
    pub(super) message: Bytes,
    pub(super) is_get: bool,
    /// Whether it needs a call of its own. In an atomic action, the server drops a mutation with an
    /// invalid visibility expression and reports success (`VisibilityController.preBatchMutate`). Of
    /// increments and appends it remembers one nonce for each action.
    pub(super) is_alone: bool,
    /// The group of its nonce, if it has one.
    pub(super) nonce_group: Option<u64>,
}

impl Operation {
    pub(in crate::client) fn get(get: &Get) -> Self {
        Self {
            row: get.row.clone(),
            message: convert::get_message(get).encode_to_vec().into(),
            is_get: true,
            is_alone: false,
            nonce_group: None,
        }
    }

    pub(in crate::client) fn mutation(mutation: &Mutation) -> Self {
        Self {
            row: mutation.row().clone(),
            message: MutationMessage::new(mutation, mutation.durability()).to_bytes(),
            is_get: false,
            is_alone: mutation.has_visibility()
                || matches!(mutation, Mutation::Increment(_) | Mutation::Append(_)),
            nonce_group: None,
        }
    }

    /// Returns an increment or append with a nonce, by which a server recognises it if it comes
    /// again.
    pub(in crate::client) fn with_nonce(mutation: &Mutation, group: u64, nonce: u64) -> Self {
        let message = MutationMessage::new(mutation, mutation.durability()).with_nonce(nonce);
        Self {
            row: mutation.row().clone(),
            message: message.to_bytes(),
            is_get: false,
            is_alone: true,
            nonce_group: Some(group),
        }
    }

    pub(in crate::client) fn is_get(&self) -> bool {
        self.is_get
    }

    /// Returns what may share a call with it, as a word for metrics.
    pub(super) fn kind(&self) -> &'static str {
        if self.is_get { "get" } else { "mutation" }
    }
}

/// The result of one attempt: the row of a get, if it has requested cells.
pub(super) type Attempted = Result<Option<Row>, CallError>;

/// The answer to an operation in a shared call.
#[derive(Debug)]
pub(super) enum Answer {
    Attempted(Attempted),
    /// Nothing was applied, and another operation of the call may be the cause.
    Alone,
}
