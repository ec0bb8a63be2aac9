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
            Self::Cluster => None,
            Self::Client(kind) => kind.hint(remote),
        }
    }
}

impl WrapsClient for ErrorKind {}
