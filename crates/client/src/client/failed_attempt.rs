//! Why an attempt failed.

use std::sync::Arc;

use crate::{
    cluster::RegionLocation,
    error::{Error, ErrorKind},
    rpc::CallError,
};

/// The purpose of the probe of [`MultiCall`](super::MultiCall)s with conditions.
pub(super) const PROVING_CONDITIONS: &str = "proving conditions";

/// A failed attempt, for [`recover`](super::RegionCall::recover).
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    pub(super) cause: Cause,
    pub(super) location: Arc<RegionLocation>,
    /// The purpose of a probe.
    pub(super) probe: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) enum Cause {
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

    /// Returns whether no further attempt can help, of this call and of others to the server.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.cause, Cause::Final(_))
    }
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
