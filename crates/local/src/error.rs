//! Errors of local clusters.

use hbase_client::{ErrorKind as ClientErrorKind, Failure, FailureKind, WrapsClient};

/// The error of a call of this crate.
pub type Error = Failure<ErrorKind>;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A local cluster could not be started, stopped or examined.
    Cluster,
    /// The cluster does not exist or does not run.
    NotRunning,
    /// The cluster was started without a Thrift gateway.
    NoGateway,
    /// The cluster exists with another version or shape than the requested one.
    Mismatch,
    /// The cluster runs with other settings than the requested ones.
    OtherSettings,
    /// The files of the cluster are damaged, or another version of this crate wrote them.
    Unusable,
    /// A failure of the client, or invalid input.
    Client(ClientErrorKind),
}

impl From<ClientErrorKind> for ErrorKind {
    fn from(kind: ClientErrorKind) -> Self {
        Self::Client(kind)
    }
}

impl FailureKind for ErrorKind {
    const INVALID_INPUT: Self = Self::Client(ClientErrorKind::InvalidInput);

    fn hint(self, remote: bool) -> Option<&'static str> {
        match self {
            Self::Cluster | Self::Mismatch | Self::OtherSettings => None,
            Self::NotRunning => Some("start it"),
            Self::NoGateway => Some("start one"),
            Self::Unusable => Some("delete the cluster and its data"),
            Self::Client(kind) => kind.hint(remote),
        }
    }
}

impl WrapsClient for ErrorKind {}
