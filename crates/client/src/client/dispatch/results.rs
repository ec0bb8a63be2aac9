//! The results in the answer to a call of several actions, matched with what was sent.

use std::sync::Arc;

use crate::rpc::CallError;

/// Checks that there is a result for each region action.
pub(super) fn of_actions<T>(results: Vec<T>, sent: usize) -> Result<Vec<T>, CallError> {
    let answered = results.len();
    if answered == sent {
        Ok(results)
    } else {
        Err(bad(format!("{answered} answers to {sent} region actions")))
    }
}

/// The results of the operations of an action. The server names each by its index, in any order.
pub(super) struct OperationResults<T> {
    results: Vec<Option<T>>,
}

impl<T> OperationResults<T> {
    /// Expects one result for each of so many operations.
    pub(in crate::client) fn new(operations: usize) -> Self {
        let results = (0..operations).map(|_| None).collect();
        Self { results }
    }

    /// Returns the place of a result that is expected, and its index.
    pub(in crate::client) fn place(
        &mut self,
        index: Option<u32>,
    ) -> Result<(usize, &mut Option<T>), CallError> {
        let index = index.and_then(|index| usize::try_from(index).ok());
        let place = index.and_then(|index| Some((index, self.results.get_mut(index)?)));
        match place {
            Some((index, place @ None)) => Ok((index, place)),
            _ => Err(bad(
                "a result of no operation of the call, or a second one of the same",
            )),
        }
    }

    /// Returns all results, in the order of the operations.
    pub(in crate::client) fn all(self) -> Result<Vec<T>, CallError> {
        let results: Option<Vec<T>> = self.results.into_iter().collect();
        results.ok_or_else(|| bad("an operation without an answer"))
    }
}

/// Returns the failure of a call whose answer violates the protocol.
pub(in crate::client) fn bad(what: impl Into<Arc<str>>) -> CallError {
    CallError::BadAnswer(what.into())
}
