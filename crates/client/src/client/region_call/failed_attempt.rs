//! Why an attempt failed.

use std::sync::Arc;

use crate::{
    cluster::RegionLocation,
    error::{Effect, Error, ErrorKind, is_no_counter},
    rpc::{CallError, Classification, Recovery},
};

/// The purpose of the probe of [`MultiCall`](crate::client::MultiCall)s with conditions.
pub(super) const PROVING_CONDITIONS: &str = "proving conditions";

/// A failed attempt, for [`recover`](crate::client::RegionCall::recover).
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    pub(in crate::client) cause: Cause,
    pub(in crate::client) location: Arc<RegionLocation>,
    /// The purpose of a probe.
    pub(in crate::client) probe: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(in crate::client) enum Cause {
    /// The call failed.
    Call(CallError),
    /// No further attempt can help.
    Final(Box<Error>),
}

impl FailedAttempt {
    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.cause {
            Cause::Call(error) => error.classify().kind,
            Cause::Final(error) => error.kind(),
        }
    }

    /// Returns whether the server refused to increment a cell whose value is not 8 bytes long.
    #[must_use]
    pub fn is_no_counter(&self) -> bool {
        let exception = match self.call_error() {
            Some(CallError::Remote(fault) | CallError::Action { fault, .. }) => Some(fault),
            _ => None,
        };
        exception.is_some_and(|fault| is_no_counter(&fault.message))
    }

    /// Returns the failure of the call, unless the server cannot execute such calls at all.
    pub(in crate::client) fn call_error(&self) -> Option<&CallError> {
        match &self.cause {
            Cause::Call(error) => Some(error),
            Cause::Final(_) => None,
        }
    }

    /// Returns whether the server has refused an action for good, and nothing of it was applied.
    pub(in crate::client) fn is_refusal(&self) -> bool {
        self.call_error().is_some_and(is_refusal)
    }

    /// Returns the same failure at another region of the server.
    pub(in crate::client) fn at(&self, location: &Arc<RegionLocation>) -> Self {
        Self {
            location: Arc::clone(location),
            ..self.clone()
        }
    }
}

/// Returns whether the server has refused an action for good, and nothing of it was applied.
pub(in crate::client) fn is_refusal(failure: &CallError) -> bool {
    let Classification { recovery, effect, .. } = failure.classify();
    matches!(failure, CallError::Action { .. }) && recovery == Recovery::Fail && effect == Effect::None
}

impl From<CallError> for Cause {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::Final(Box::new(error))
    }
}
