//! The meaning of a failed call.

use hbase_client::{Effect, HostPort, RemoteException, low_level::Classification};
use hbase_thrift::hbase::IOError;
use thrift::{ApplicationErrorKind, ProtocolErrorKind, TransportErrorKind};

use crate::error::{ClientErrorKind, Error, ErrorKind};

const NO_ANSWER: &str = "this is no answer of a Thrift gateway";
const NO_GATEWAY: &str = "is it HBase's Thrift gateway of the first API (hbase thrift, not thrift2), with the binary \
                          protocol and the framing that was named?";

/// Returns the error of a gateway that cannot be reached.
pub(super) fn unreachable(gateway: &HostPort, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::TimedOut => ClientErrorKind::DeadlineExceeded,
        _ => ClientErrorKind::Unreachable,
    };
    Error::new(kind, "the Thrift gateway can't be reached")
        .with_retryable(true)
        .with_hint("does `hbase thrift` run there, and listen on that port?")
        .at_server(gateway)
        .with_source(error)
}

/// Returns the error of a call that was not answered in time.
pub(super) fn late(gateway: &HostPort, effect: Effect) -> Error {
    Error::new(
        ClientErrorKind::DeadlineExceeded,
        "the Thrift gateway did not answer in time",
    )
    .with_retryable(true)
    .with_hint(
        "is the gateway or HBase behind it busy, or down? otherwise allow more time (call_timeout, operation_timeout)",
    )
    .with_effect(effect)
    .at_server(gateway)
}

/// Returns whether the answer was read to its end, so that the connection can serve the next call.
pub(super) fn was_answered(error: &thrift::Error) -> bool {
    matches!(error, thrift::Error::User(_))
}

/// Returns whether the connection ended.
pub(super) fn is_lost(error: &thrift::Error) -> bool {
    matches!(error, thrift::Error::Transport(error) if error.kind != TransportErrorKind::TimedOut)
}

/// Returns whether the answer did not arrive in time.
pub(super) fn is_late(error: &thrift::Error) -> bool {
    matches!(error, thrift::Error::Transport(error) if error.kind == TransportErrorKind::TimedOut)
}

/// Returns whether the same call may succeed later: the gateway or the region is silent, restarts
/// or moves.
pub(super) fn is_transient(error: &Error) -> bool {
    let may_pass = matches!(
        error.kind(),
        ErrorKind::Client(ClientErrorKind::Unreachable)
            | ErrorKind::Client(ClientErrorKind::ConnectionLost)
            | ErrorKind::Client(ClientErrorKind::DeadlineExceeded)
            | ErrorKind::Client(ClientErrorKind::LimitExceeded)
            | ErrorKind::Client(ClientErrorKind::Server)
    );
    may_pass && error.is_retryable()
}

/// Translates the error of a failed call, with this effect unless the gateway reports another.
pub(super) fn translate(
    gateway: &HostPort,
    error: thrift::Error,
    absurdity: Option<&'static str>,
    effect: Effect,
) -> Error {
    let public = |kind, what: &'static str| Error::new(kind, what).with_effect(effect);
    if let Some(why) = absurdity {
        return public(ClientErrorKind::Protocol, NO_ANSWER)
            .with_hint(NO_GATEWAY)
            .with_source(why)
            .at_server(gateway);
    }
    match error {
        error if is_late(&error) => late(gateway, effect),
        thrift::Error::Transport(error) => public(
            ClientErrorKind::ConnectionLost,
            "the connection to the Thrift gateway ended",
        )
        .with_retryable(true)
        .with_source(error.message),
        thrift::Error::Protocol(error) => {
            let what = match error.kind {
                ProtocolErrorKind::BadVersion => NO_ANSWER,
                _ => "the Thrift gateway's answer can't be read",
            };
            public(ClientErrorKind::Protocol, what)
                .with_hint(NO_GATEWAY)
                .with_source(error.message)
        }
        thrift::Error::Application(error) => match error.kind {
            ApplicationErrorKind::UnknownMethod => Error::new(
                ClientErrorKind::Protocol,
                "the Thrift gateway does not know the call",
            )
            .with_hint("it is of another version, or of the second API; this needs `hbase thrift`")
            .with_source(error.message),
            ApplicationErrorKind::BadSequenceId
            | ApplicationErrorKind::WrongMethodName
            | ApplicationErrorKind::InvalidMessageType => {
                public(ClientErrorKind::Protocol, "the answer is that to another call")
                    .with_hint(
                        "the connection was closed; nothing between here and the gateway may mix up answers",
                    )
                    .with_source(error.message)
            }
            _ => public(ClientErrorKind::Server, "the Thrift gateway failed").with_source(error.message),
        },
        thrift::Error::User(error) => match error.downcast::<IOError>() {
            Ok(error) => of_hbase(*error, effect),
            Err(error) => {
                public(ClientErrorKind::Server, "the Thrift gateway refused the call").with_source(error)
            }
        },
    }
    .at_server(gateway)
}

/// Translates an HBase exception. The gateway passes its stack trace on as text.
fn of_hbase(error: IOError, effect: Effect) -> Error {
    let trace = error.message.unwrap_or_default();
    let exception = |line: &str| -> Option<(String, String)> {
        let (class, message) = line.split_once(": ").unwrap_or((line, ""));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$');
        (class.contains('.') && class.chars().all(plain)).then(|| (class.to_owned(), message.to_owned()))
    };
    let first = trace.lines().next().and_then(exception);
    let causes = trace
        .lines()
        .filter_map(|line| exception(line.trim_start().strip_prefix("Caused by: ")?));
    let (class, message) = first
        .clone()
        .unwrap_or_else(|| ("java.io.IOException".to_owned(), trace.clone()));
    // The gateway's client retries by itself, and puts its own exception before the cause.
    let rulings = first
        .into_iter()
        .chain(causes)
        .map(|(class, message)| Classification::of(&class, &message, false));
    let kind = rulings
        .map(|classification| classification.kind)
        .find(|kind| *kind != ClientErrorKind::Server)
        .unwrap_or(ClientErrorKind::Server);
    let classification =
        Classification::of(&class, &message, error.can_retry == Some(false)).with_trace(&trace);
    let effect = match classification.effect {
        Effect::None => Effect::None,
        Effect::Unknown => effect,
    };
    Error::new(kind, "HBase refused the call of the Thrift gateway")
        .with_effect(effect)
        .with_retryable(error.can_retry == Some(true))
        .with_remote(RemoteException {
            class,
            message,
            trace,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(trace: &str, can_retry: bool) -> Error {
        let error = IOError::new(Some(trace.to_owned()), Some(can_retry));
        let gateway = HostPort {
            host: "gate".to_owned(),
            port: 9090,
        };
        translate(
            &gateway,
            thrift::Error::User(Box::new(error)),
            None,
            Effect::Unknown,
        )
    }

    #[test]
    fn an_exception_of_hbase_keeps_its_class_and_its_meaning() {
        let error = of(
            "org.apache.hadoop.hbase.TableNotFoundException: t\n\tat a.B.c(B.java:1)",
            false,
        );
        assert_eq!(error.kind(), ClientErrorKind::TableNotFound);
        assert!(!error.is_outcome_unknown());
        assert_eq!(error.server(), Some("gate:9090"));
        let remote = error.remote().unwrap();
        assert_eq!(remote.class, "org.apache.hadoop.hbase.TableNotFoundException");
        assert_eq!(remote.message, "t");
    }

    #[test]
    fn exception_of_a_hook_after_the_write_leaves_it_open() {
        let thrown_in = |hook: &str| {
            let class = "org.apache.hadoop.hbase.DoNotRetryIOException";
            let trace = format!(
                "{class}: {class}: no\n\tat com.example.Observer.{hook}(Observer.java:7)\n\tat \
                 org.apache.hadoop.hbase.regionserver.RegionCoprocessorHost.{hook}(RegionCoprocessorHost.java:999)"
            );
            of(&trace, false)
        };
        assert!(!thrown_in("preCheckAndPut").is_outcome_unknown());
        for hook in ["postPut", "postCheckAndMutate"] {
            assert!(thrown_in(hook).is_outcome_unknown(), "{hook}");
        }
    }

    #[test]
    fn a_cause_says_what_it_was_and_not_that_nothing_was_applied() {
        let error = of(
            "org.apache.hadoop.hbase.client.RetriesExhaustedException: Failed after attempts=16\n\
             Caused by: org.apache.hadoop.hbase.RegionTooBusyException: x",
            true,
        );
        assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
        assert!(error.is_outcome_unknown());
        let error = of("whatever", true);
        assert_eq!(error.kind(), ClientErrorKind::Server);
        assert!(error.is_outcome_unknown());
    }
}
