//! Why a quorum gave no answer.

use std::{fmt, io, time::Duration};

use super::session::SessionError;
#[cfg(feature = "kerberos")]
use crate::rpc::AuthenticationError;
#[cfg(feature = "tls")]
use crate::tls::TlsFailure;
use crate::{
    config::HostPort,
    error::{Error, ErrorKind},
    wire::zookeeper::ErrorCode,
};

/// Why a server of the quorum gave no answer.
#[derive(Debug)]
pub(super) struct NoAnswer {
    pub(super) host: HostPort,
    pub(super) why: Failure,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("it can't be reached ({0})")]
    Dial(io::Error),
    #[cfg(feature = "tls")]
    #[error("there is no TLS to it: {0}")]
    Tls(io::Error),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("it gave no answer within {0:?}")]
    Silent(Duration),
}

#[cfg(feature = "kerberos")]
impl From<AuthenticationError> for Failure {
    fn from(error: AuthenticationError) -> Self {
        Self::Session(error.into())
    }
}

/// The way around a quorum that does not let this client read.
const BY_RPC: &str = "connect by hbase+rpc://host:port of a master";

const AUTHENTICATE: &str = match cfg!(feature = "kerberos") {
    true => {
        "set hbase.security.authentication to kerberos (Config::with_kerberos), or connect by hbase+rpc://host:port \
         of a master"
    }
    false => "build it with the feature kerberos, or connect by hbase+rpc://host:port of a master",
};

impl Failure {
    /// Returns the error of a failure that the caller can fix. It decides, because the other servers
    /// of a quorum have the same settings.
    fn fixable(&self) -> Option<Error> {
        #[cfg(feature = "tls")]
        if let Self::Tls(error) | Self::Session(SessionError::Io(error)) = self
            && let Some(failure) = TlsFailure::in_error(error)
        {
            let error = Error::new(failure.kind, "there is no TLS to the ZooKeeper quorum");
            return Some(error.with_hint(failure.hint.clone()));
        }
        match self {
            #[cfg(feature = "kerberos")]
            Self::Session(SessionError::Unauthenticated(error)) => Some(
                Error::new(error.kind(), "ZooKeeper does not authenticate this client")
                    .with_retryable(error.is_transient())
                    .with_hint(error.hint()),
            ),
            Self::Session(SessionError::Failed(code)) if code.requires_authentication() => Some(
                Error::new(
                    ErrorKind::AuthenticationRequired,
                    "ZooKeeper accepts authenticated clients only",
                )
                .with_hint(AUTHENTICATE),
            ),
            Self::Session(SessionError::Failed(ErrorCode::NO_AUTH)) => Some(
                Error::new(
                    ErrorKind::AccessDenied,
                    "ZooKeeper does not let this client read the znodes of HBase",
                )
                .with_hint(BY_RPC),
            ),
            _ => None,
        }
    }
}

/// Describes the failures of all servers of a quorum.
pub(super) fn no_answer(failures: &[NoAnswer]) -> Error {
    let fixable = failures.iter().find_map(|failure| failure.why.fixable());
    let error = fixable.unwrap_or_else(|| {
        Error::new(
            ErrorKind::Unreachable,
            "no server of the ZooKeeper quorum answers",
        )
        .with_retryable(true)
    });
    let failures: Vec<_> = failures.iter().map(NoAnswer::to_string).collect();
    error
        .with_source(failures.join("; "))
        .at_stage("reading ZooKeeper")
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.why)
    }
}
