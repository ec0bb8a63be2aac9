//! The failures of one call on one connection.

use std::{io, sync::Arc, time::Duration};

use hbase_security::{AuthenticationError, HAS_KERBEROS, TlsFailure};

use super::{
    remote_exception::{Classification, Recovery},
    security::{described, kind_of},
};
use crate::{
    error::{Effect, Error, ErrorKind, RemoteException},
    wire::{
        compression::CompressionError,
        frame::{FrameError, RemoteFault},
    },
};

/// The reason why a call failed. The layer above adds its context and converts it into an
/// [`Error`].
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The server could not be dialled.
    #[error("can't connect")]
    Dial(#[source] Arc<io::Error>),
    /// TLS to the server failed in a way that another attempt does not fix.
    #[error("{0}")]
    Tls(Arc<TlsFailure>),
    /// No server accepted the connection in time.
    #[error("no connection within {:?}", rounded(*.0))]
    DialTimeout(Duration),
    /// The timeout of this attempt passed.
    #[error("{} within {:?}", if *sent { "no answer" } else { "not sent" }, rounded(*waited))]
    Timeout {
        waited: Duration,
        /// Whether the request was handed to the socket.
        sent: bool,
    },
    /// The deadline passed, and tasks wait in the runtime of the connection, which is not that of the
    /// caller.
    #[error(
        "{} within {:?}, and the runtime of the connection is not driven, or is busy",
        if *sent { "no answer" } else { "not sent" },
        rounded(*waited)
    )]
    NotDriven { waited: Duration, sent: bool },
    /// The runtime of the connection has shut down.
    #[error("the runtime of the connection has ended")]
    RuntimeEnded {
        /// Whether the request was handed to the socket.
        sent: bool,
    },
    /// The connection ended with the call on it.
    #[error("the connection ended")]
    Lost {
        /// Whether the request was handed to the socket.
        sent: bool,
        #[source]
        cause: Arc<io::Error>,
    },
    /// The peer does not speak HBase's protocol.
    #[error("the peer does not speak HBase's protocol")]
    Garbled {
        sent: bool,
        #[source]
        cause: Arc<FrameError>,
    },
    /// The answer is not the expected message.
    #[error("the answer can't be read: {0}")]
    BadAnswer(Arc<str>),
    /// The answer exceeds the size limit, and was skipped.
    #[error("the answer has {len} bytes, and {limit} are the most that are accepted")]
    AnswerTooLarge { len: usize, limit: usize },
    /// The cells of the answer exceed the size limit when they are decompressed.
    #[error("the cells of the answer have more than {limit} bytes, the most that are accepted")]
    CellsTooLarge { limit: usize },
    /// The server cannot use the compressor of the connection.
    #[error("the server can't use the compressor {class}")]
    Compressor {
        class: &'static str,
        /// The server's exception. Without one it hung up.
        fault: Option<Arc<RemoteFault>>,
    },
    /// The call was not sent, because the server may have been started again since its region was
    /// located.
    #[error("the connection was opened after the region was located")]
    NewConnection,
    /// The request cannot be framed because it is too large.
    #[error("the request can't be sent")]
    Unsendable(#[source] Arc<FrameError>),
    /// The connection has its maximum number of calls in flight.
    #[error("too many calls in flight on one connection")]
    Crowded,
    /// The server answered with an exception.
    #[error("{}", .0.class)]
    Remote(Arc<RemoteFault>),
    /// The server executed the call, but one of its actions failed with an exception, which carries
    /// no flags.
    #[error("{}", .fault.class)]
    Action {
        fault: Arc<RemoteFault>,
        /// The effect of the whole call: another action may have been applied nevertheless.
        effect: Effect,
    },
    /// The server rejected the whole connection, with an exception that names no call.
    #[error("the server refused the connection: {}", .fault.class)]
    Refused { sent: bool, fault: Arc<RemoteFault> },
    /// The server closes connections with SIMPLE authentication.
    #[error("authentication is required: the server closes connections that have none")]
    AuthenticationRequired,
    /// The call, whose answer has a secret, was not sent over a connection that is not encrypted.
    #[error("the answer has a secret, and the connection is not encrypted")]
    NotPrivate,
    /// The connection is not authenticated.
    #[error("{}", described(.0))]
    Unauthenticated(Arc<AuthenticationError>),
    /// The replica of the region that was chosen is not served, or does not exist.
    #[error("replica {0} of the region is not served")]
    NoReplica(u16),
    /// This client was closed.
    #[error("the client is closed")]
    Closed,
}

impl From<AuthenticationError> for CallError {
    fn from(error: AuthenticationError) -> Self {
        Self::Unauthenticated(Arc::new(error))
    }
}

/// The message of a server that does not accept SIMPLE authentication.
const AUTHENTICATION_REQUIRED: &str = "Authentication is required";

const MORE_THAN_SIMPLE: &str = if HAS_KERBEROS {
    "the client used SIMPLE authentication, and the cluster requires more: set hbase.security.authentication to \
         kerberos (Config::with_kerberos)"
} else {
    "this build has SIMPLE authentication only, and the cluster requires more (Kerberos or a token): build it with \
         the feature kerberos"
};

/// The hint if the runtime of a connection has ended, or is not driven.
pub const KEEP_THE_RUNTIME: &str =
    "keep the runtime in which Connection::connect was called running for as long as the connection is used";
const MAP_THE_NAME: &str = "name an address that leads to it from here (Config::with_address_map)";
pub(crate) const CHECK_THE_SERVER: &str = "check that the server runs and that its name and port lead to it from here, or name an \
                                address that does (Config::with_address_map)";

/// Rounds a time for an error message, to whole milliseconds.
pub(crate) fn rounded(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

impl CallError {
    /// Returns whether the server has answered with it.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Remote(_) | Self::Action { .. })
    }

    /// Returns the error of a socket before anything but the connection header was sent. It may be a
    /// refusal of the server.
    pub(super) fn of_socket(error: io::Error) -> Self {
        if let Some(failure) = TlsFailure::in_error(&error) {
            return Self::Tls(Arc::new(failure.clone()));
        }
        match AuthenticationError::of_socket(&error) {
            Some(error) => error.into(),
            None => Self::Lost {
                sent: false,
                cause: Arc::new(error),
            },
        }
    }

    /// Returns the error of a request whose cells cannot be compressed.
    pub(super) fn uncompressible(error: CompressionError) -> Self {
        Self::Unsendable(Arc::new(FrameError::Uncompressible(error)))
    }

    /// Returns the error of an answer whose cells cannot be decompressed.
    pub(super) fn of_compressed_answer(error: &CompressionError) -> Self {
        match *error {
            CompressionError::TooLarge { limit } => Self::CellsTooLarge { limit },
            _ => Self::BadAnswer(error.to_string().into()),
        }
    }

    /// Returns the error of a stream that could not be opened.
    pub(super) fn of_dial(error: io::Error) -> Self {
        if let Some(failure) = TlsFailure::in_error(&error) {
            return Self::Tls(Arc::new(failure.clone()));
        }
        Self::Dial(Arc::new(error))
    }

    /// Returns the failure of a call of the client's own, by which it opened a connection, as that of the
    /// connection: no other call was sent.
    pub(super) fn before_any_call(self) -> Self {
        match self {
            Self::Timeout { waited, .. } => Self::DialTimeout(waited),
            Self::Lost { cause, .. } => Self::Lost { sent: false, cause },
            Self::Garbled { cause, .. } => Self::Garbled { sent: false, cause },
            Self::Remote(fault) | Self::Refused { fault, .. } => Self::Refused { sent: false, fault },
            _ => self,
        }
    }

    /// Returns whether the server closed the connection before it answered.
    pub(super) fn is_hang_up(&self) -> bool {
        match self {
            Self::Lost { .. } => true,
            Self::Dial(error) => matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            ),
            _ => false,
        }
    }

    /// Returns how the call may be repeated, and the possible effect of a write that failed in this
    /// way.
    pub(crate) fn classify(&self) -> Classification {
        let classification = |recovery, sent: bool, kind| Classification {
            recovery,
            effect: if sent { Effect::Unknown } else { Effect::None },
            kind,
        };
        match self {
            Self::Dial(_) | Self::DialTimeout(_) => {
                classification(Recovery::ForgetServer, false, ErrorKind::Unreachable)
            }
            Self::Tls(failure) => classification(Recovery::Fail, false, kind_of(failure.kind())),
            Self::Timeout { sent, .. } => {
                classification(Recovery::Relocate, *sent, ErrorKind::DeadlineExceeded)
            }
            Self::NotDriven { sent, .. } => {
                classification(Recovery::Wait, *sent, ErrorKind::DeadlineExceeded)
            }
            Self::RuntimeEnded { sent } => classification(Recovery::Fail, *sent, ErrorKind::Closed),
            Self::Lost { sent, .. } => {
                classification(Recovery::ForgetServer, *sent, ErrorKind::ConnectionLost)
            }
            // The server could not read the request.
            Self::Garbled { cause, .. } if matches!(**cause, FrameError::Tls) => {
                classification(Recovery::Fail, false, ErrorKind::AuthenticationRequired)
            }
            Self::Garbled { sent, .. } => classification(Recovery::Fail, *sent, ErrorKind::Protocol),
            Self::BadAnswer(_) => classification(Recovery::Fail, true, ErrorKind::Protocol),
            Self::AnswerTooLarge { .. } | Self::CellsTooLarge { .. } => {
                classification(Recovery::Fail, true, ErrorKind::LimitExceeded)
            }
            Self::Compressor { .. } | Self::NotPrivate => {
                classification(Recovery::Fail, false, ErrorKind::InvalidConfig)
            }
            Self::Unsendable(_) => classification(Recovery::Fail, false, ErrorKind::LimitExceeded),
            Self::NewConnection => classification(Recovery::RelocateAtOnce, false, ErrorKind::ConnectionLost),
            Self::Crowded => classification(Recovery::WaitForLoad, false, ErrorKind::LimitExceeded),
            Self::NoReplica(_) => classification(Recovery::Relocate, false, ErrorKind::Server),
            Self::Closed => classification(Recovery::Fail, false, ErrorKind::Closed),
            Self::AuthenticationRequired => {
                classification(Recovery::Fail, false, ErrorKind::AuthenticationRequired)
            }
            Self::Unauthenticated(error) => {
                let recovery = if error.is_transient() {
                    Recovery::Wait
                } else {
                    Recovery::Fail
                };
                classification(recovery, false, kind_of(error.kind()))
            }
            Self::Remote(fault) => {
                let classification = Classification::of_fault(fault);
                match classification.recovery {
                    // A class that this client does not know may carry the flag too.
                    Recovery::RelocateOnUnknown | Recovery::Wait if fault.server_overloaded => {
                        Classification {
                            recovery: Recovery::WaitForLoad,
                            ..classification
                        }
                    }
                    _ => classification,
                }
            }
            Self::Action { fault, effect } => Classification {
                effect: *effect,
                ..Classification::of_fault(fault)
            },
            Self::Refused { fault, sent } => {
                let mut classification = Classification::of_fault(fault);
                if !sent {
                    classification.effect = Effect::None;
                }
                match classification.kind {
                    // A server that requires more than SIMPLE reports it by rejecting access on the
                    // connection itself.
                    ErrorKind::AccessDenied if fault.message.contains(AUTHENTICATION_REQUIRED) => {
                        Classification {
                            kind: ErrorKind::AuthenticationRequired,
                            ..classification
                        }
                    }
                    ErrorKind::Server if classification.recovery == Recovery::RelocateOnUnknown => {
                        Classification {
                            recovery: Recovery::Fail,
                            ..classification
                        }
                    }
                    _ => classification,
                }
            }
        }
    }

    /// Returns the reason of the failure as a word for logs and metrics, one of a few.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Dial(_) | Self::DialTimeout(_) => "unreachable",
            Self::Tls(_) => "tls",
            Self::Timeout { .. } | Self::NotDriven { .. } => "timeout",
            Self::Lost { .. } | Self::NewConnection => "connection_lost",
            Self::Garbled { .. } | Self::BadAnswer(_) => "protocol",
            Self::AnswerTooLarge { .. } | Self::CellsTooLarge { .. } | Self::Unsendable(_) => "too_large",
            Self::Compressor { .. } | Self::NotPrivate => "rejected",
            Self::Crowded => "crowded",
            Self::NoReplica(_) => "region_unavailable",
            Self::Closed | Self::RuntimeEnded { .. } => "closed",
            Self::AuthenticationRequired | Self::Unauthenticated(_) => "unauthenticated",
            Self::Remote(_) | Self::Action { .. } | Self::Refused { .. } => match self.classify().recovery {
                Recovery::Relocate | Recovery::RelocateAtOnce => "region_unavailable",
                Recovery::RelocateOnUnknown => "server_error",
                Recovery::Wait => "server_busy",
                Recovery::WaitForLoad => "server_overloaded",
                Recovery::WaitFor(_) => "throttled",
                Recovery::ForgetServer => "server_stopping",
                Recovery::OpenScanner => "scanner_lost",
                Recovery::FindMaster => "master_changed",
                Recovery::Fail => "rejected",
            },
        }
    }

    /// Converts it into the public error. The caller must set the effect, because reads have none.
    pub(crate) fn into_error(self) -> Error {
        let kind = self.classify().kind;
        let what = self.to_string();
        let remote = |fault: &RemoteFault| RemoteException {
            class: fault.class.clone(),
            message: fault.message.clone(),
            trace: fault.trace.clone(),
        };
        match self {
            Self::Remote(fault) => Error::new(kind, "the server answered").with_remote(remote(&fault)),
            Self::Action { fault, .. } => {
                Error::new(kind, "one action of the call failed").with_remote(remote(&fault))
            }
            Self::Refused { fault, .. } => {
                let error = Error::new(kind, "the server refused the connection").with_remote(remote(&fault));
                match kind {
                    ErrorKind::AuthenticationRequired => error.with_hint(MORE_THAN_SIMPLE),
                    _ => error,
                }
            }
            Self::Dial(cause) => {
                let hint = match cause.kind() {
                    io::ErrorKind::NotFound => MAP_THE_NAME,
                    _ => CHECK_THE_SERVER,
                };
                Error::new(kind, what).with_source(cause).at_stage("connecting").with_hint(hint)
            }
            Self::Tls(failure) => Error::new(kind, what)
                .at_stage("connecting with TLS")
                .with_hint(failure.hint().to_owned()),
            Self::DialTimeout(_) => Error::new(kind, what)
                .at_stage("connecting")
                .with_hint(CHECK_THE_SERVER),
            Self::Lost { cause, .. } => Error::new(kind, what).with_source(cause).at_stage("waiting for the answer"),
            Self::Timeout { sent, .. } => Error::new(kind, what).at_stage(if sent { "waiting for the answer" } else { "sending the request" }),
            Self::Garbled { cause, .. } if matches!(*cause, FrameError::Tls) => {
                Error::new(kind, "the server speaks TLS only").at_stage("reading the answer").with_hint(
                    "enable TLS here too, with the feature tls (hbase.client.netty.tls.enabled, Config::with_tls)",
                )
            }
            Self::Garbled { cause, .. } => Error::new(kind, what)
                .with_source(cause)
                .at_stage("reading the answer")
                .with_hint("check that the address is an HBase RPC port, not its web page, ZooKeeper or another service"),
            Self::Unsendable(cause) => Error::new(kind, what).with_source(cause),
            Self::BadAnswer(_) => Error::new(kind, what).at_stage("reading the answer"),
            Self::Compressor { fault, .. } => {
                let error = Error::new(kind, what).at_stage("connecting").with_hint(
                    "choose another one (hbase.client.rpc.compressor, Config::with_compression), such as GzipCodec, \
                     which each server has; or install its library on all servers",
                );
                match fault {
                    Some(fault) => error.with_remote(remote(&fault)),
                    None => error,
                }
            }
            Self::AnswerTooLarge { .. } | Self::CellsTooLarge { .. } => Error::new(kind, what)
                .at_stage("reading the answer")
                .with_hint("ask for less in one call, or raise Config::with_max_frame_size"),
            Self::AuthenticationRequired => Error::new(kind, what).at_stage("waiting for the answer").with_hint(MORE_THAN_SIMPLE),
            Self::Unauthenticated(error) => Error::new(kind, what).at_stage(error.stage()).with_hint(error.hint()),
            Self::NotPrivate => Error::new(kind, what).at_stage("sending the request").with_hint(
                "use TLS, or set hbase.rpc.protection to privacy (Config::with_protection); where the network itself is \
                 protected, permit it (Config::with_unencrypted_tokens, token get --allow-unencrypted)",
            ),
            Self::NotDriven { .. } | Self::RuntimeEnded { .. } => {
                Error::new(kind, what).with_hint(KEEP_THE_RUNTIME)
            }
            Self::NewConnection | Self::Crowded | Self::NoReplica(_) | Self::Closed => Error::new(kind, what),
        }
    }
}
