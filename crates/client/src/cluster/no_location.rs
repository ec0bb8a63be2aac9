//! Why a row has no usable location.

use crate::{
    error::{Error, ErrorKind},
    model::{RegionInfo, ServerName, TableName},
    rpc::{CallError, Recovery},
};

/// The state of a row without a usable region in `hbase:meta`.
#[derive(Clone, Debug)]
pub(super) enum NoLocation {
    /// The table does not exist, according to this server of `hbase:meta`.
    NoTable(ServerName),
    /// The row's region is in transition: a split, a merge or a move, according to this server of
    /// `hbase:meta`. Includes the region if it is known.
    InTransition(&'static str, ServerName, Option<Box<RegionInfo>>),
    /// The call for `hbase:meta` failed.
    Call(CallError, ServerName),
    /// The registry failed, and has never answered before.
    Registry(Error),
    /// The registry failed, and answered before.
    RegistryLost(Error),
}

impl NoLocation {
    /// Whether another attempt is useless.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::NoTable(_) | Self::Registry(_) => true,
            Self::InTransition(..) => false,
            Self::RegistryLost(error) => !error.is_retryable(),
            Self::Call(error, _) => error.classify().recovery == Recovery::Fail,
        }
    }

    /// Returns the reason as a word for logs and metrics, one of a few.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoTable(_) => "no_table",
            Self::InTransition(..) => "region_in_transition",
            Self::Call(error, _) => error.reason(),
            Self::Registry(_) | Self::RegistryLost(_) => "registry",
        }
    }

    pub(super) fn into_error(self, table: &TableName) -> Error {
        match self {
            Self::NoTable(meta) => Error::new(ErrorKind::TableNotFound, "no such table")
                .at_table(table)
                .at_stage("finding the region")
                .at_server(&meta.address()),
            Self::InTransition(what, meta, _) => Error::new(ErrorKind::Server, what)
                .with_retryable(true)
                .at_stage("finding the region")
                .at_server(&meta.address()),
            Self::Call(error, server) => {
                let cause = error.into_error();
                Error::new(cause.kind(), "hbase:meta can't be read")
                    .with_retryable(cause.is_retryable())
                    .at_stage("finding the region")
                    .at_server(&server.address())
                    .with_source(cause)
            }
            Self::Registry(error) | Self::RegistryLost(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_registry_is_retried_unless_it_reports_a_cause() {
        let silent = Error::new(ErrorKind::Unreachable, "no answer in time").with_retryable(true);
        assert!(!NoLocation::RegistryLost(silent).is_final());
        let closed = Error::new(ErrorKind::Closed, "the client is closed");
        assert!(NoLocation::RegistryLost(closed).is_final());
    }
}
