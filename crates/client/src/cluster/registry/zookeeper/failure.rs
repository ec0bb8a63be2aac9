//! Why a quorum gave no answer.

use std::{error::Error as StdError, fmt, io, time::Duration};

use hbase_security::{AuthenticationError, HAS_KERBEROS, TlsFailure};
use hbase_zookeeper::{ErrorCode, SessionError};

use crate::{
    config::HostPort,
    error::{Error, ErrorKind},
    rpc::{kind_of, no_connection},
};

/// Why a server of the quorum gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("{host} {why}")]
pub(super) struct NoAnswer {
    pub(super) host: HostPort,
    pub(super) why: Failure,
}

/// What the server did.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{}", no_connection(.0))]
    Dial(io::Error),
    #[error("offers no TLS that can be used: {0}")]
    Tls(io::Error),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("did not authenticate this client: {0}")]
    Unauthenticated(#[from] AuthenticationError),
    #[error("gave no answer within {0:?}")]
    Silent(Duration),
}

/// The way around a quorum that does not let this client read.
const BY_RPC: &str = "connect by hbase+rpc://host:port of a master";

const AUTHENTICATE: &str = if HAS_KERBEROS {
    "set hbase.security.authentication to kerberos (Config::with_kerberos), or connect by hbase+rpc://host:port \
         of a master"
} else {
    "build it with the feature kerberos, or connect by hbase+rpc://host:port of a master"
};

impl Failure {
    /// Returns the error of a failure that the caller can fix. It decides, because the other servers
    /// of a quorum have the same settings.
    fn fixable(&self) -> Option<Error> {
        if let Self::Tls(error) | Self::Session(SessionError::Io(error)) = self
            && let Some(failure) = TlsFailure::in_error(error)
        {
            let error = Error::new(kind_of(failure.kind()), "there is no TLS to the ZooKeeper quorum");
            return Some(error.with_hint(failure.hint().to_owned()));
        }
        match self {
            Self::Unauthenticated(error) => Some(
                Error::new(
                    kind_of(error.kind()),
                    "ZooKeeper does not authenticate this client",
                )
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

/// The servers of a quorum, each with the reason why it gave no answer.
#[derive(Clone, Debug)]
pub(super) struct NoAnswers(Vec<Reason>);

#[derive(Clone, Debug)]
struct Reason {
    host: HostPort,
    /// Empty if the time of the query ended before that of the server.
    text: String,
    /// Whether it may have accepted a connection.
    is_reached: bool,
}

impl NoAnswers {
    /// Returns these servers, none of which gave an answer in time.
    pub(super) fn in_time(quorum: &[HostPort]) -> Self {
        let reason = |host: &HostPort| Reason {
            host: host.clone(),
            text: String::new(),
            is_reached: true,
        };
        Self(quorum.iter().map(reason).collect())
    }

    /// Returns those in the source of an error.
    pub(super) fn of(error: &Error) -> Option<&Self> {
        error.source()?.downcast_ref()
    }

    /// Returns the servers that may have accepted a connection.
    pub(super) fn reached(&self) -> impl Iterator<Item = &HostPort> {
        let reached = self.0.iter().filter(|reason| reason.is_reached);
        reached.map(|reason| &reason.host)
    }

    /// Adds what a check of the [reached](Self::reached) servers has found.
    pub(super) fn with_findings(&self, findings: Vec<String>) -> Self {
        let mut reasons = self.0.clone();
        let reached = reasons.iter_mut().filter(|reason| reason.is_reached);
        for (reason, found) in reached.zip(findings) {
            reason.text = if reason.text.is_empty() {
                format!("{} {found}", reason.host)
            } else {
                format!("{} ({found})", reason.text)
            };
        }
        Self(reasons)
    }
}

impl fmt::Display for NoAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, reason) in self.0.iter().enumerate() {
            let separator = if at > 0 { "; " } else { "" };
            write!(f, "{separator}{}", reason.text)?;
        }
        Ok(())
    }
}

impl StdError for NoAnswers {}

/// Describes the failures of all servers of a quorum.
pub(super) fn no_answer(failures: &[NoAnswer]) -> Error {
    let fixable = failures.iter().find_map(|failure| failure.why.fixable());
    let error = fixable.unwrap_or_else(|| {
        Error::new(ErrorKind::Unreachable, "no ZooKeeper server answers").with_retryable(true)
    });
    let reason = |failure: &NoAnswer| Reason {
        host: failure.host.clone(),
        text: failure.to_string(),
        is_reached: !matches!(failure.why, Failure::Dial(_)),
    };
    let error = error
        .with_source(NoAnswers(failures.iter().map(reason).collect()))
        .at_stage("reading ZooKeeper");
    let is_unknown = |failure: &NoAnswer| matches!(&failure.why, Failure::Dial(error) if error.kind() == io::ErrorKind::NotFound);
    if failures.iter().any(is_unknown)
        && failures
            .iter()
            .all(|failure| matches!(failure.why, Failure::Dial(_)))
    {
        error.with_hint("check the address, or name addresses that lead to the hosts from here (Config::with_address_map)")
    } else {
        error
    }
}
