//! The server's report of a failed call.

use crate::{error::RemoteException, wire::pb};

/// A Java exception, and the flags of the response header. Omits the new server of a moved region:
/// without the sequence number of the opening there, `hbase:meta` is read anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteFault {
    /// The full Java class name; empty if the server omitted it.
    pub(crate) class: String,
    /// The trace's first line without the class.
    pub(crate) message: String,
    /// The trace as the server sent it. The message is only in the trace.
    pub(crate) trace: String,
    /// Whether the class descends from `DoNotRetryIOException`. This is not final: some of those
    /// are recoverable.
    pub(crate) do_not_retry: bool,
    /// Whether the server requests a longer pause.
    pub(crate) server_overloaded: bool,
}

impl RemoteFault {
    /// Converts the exception of one action of a `Multi`, which has none of the flags.
    pub(crate) fn of_action(pair: &pb::NameBytesPair) -> Self {
        let trace = String::from_utf8_lossy(pair.value()).into_owned();
        Self {
            message: message(&pair.name, &trace).to_owned(),
            class: pair.name.clone(),
            trace,
            ..Self::default()
        }
    }
}

impl From<pb::ExceptionResponse> for RemoteFault {
    fn from(exception: pb::ExceptionResponse) -> Self {
        let class = exception.exception_class_name.unwrap_or_default();
        let trace = exception.stack_trace.unwrap_or_default();
        Self {
            message: message(&class, &trace).to_owned(),
            class,
            trace,
            do_not_retry: exception.do_not_retry.unwrap_or_default(),
            server_overloaded: exception.server_overloaded.unwrap_or_default(),
        }
    }
}

impl From<RemoteFault> for RemoteException {
    fn from(fault: RemoteFault) -> Self {
        Self {
            class: fault.class,
            message: fault.message,
            trace: fault.trace,
        }
    }
}

/// Extracts the message. A Java trace is `class: message`, or `class` alone, and then one line for
/// each stack frame.
fn message<'a>(class: &str, trace: &'a str) -> &'a str {
    let line = trace.lines().next().unwrap_or_default();
    match line.strip_prefix(class) {
        Some("") => "",
        Some(rest) if !class.is_empty() => rest.strip_prefix(':').map_or(line, str::trim),
        _ => line.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_the_first_line_without_the_class() {
        for (class, trace, wanted) in [
            (
                "java.io.IOException",
                "java.io.IOException: no luck\n\tat a.B.c(B.java:1)",
                "no luck",
            ),
            ("java.io.IOException", "java.io.IOException", ""),
            ("java.io.IOException", "java.io.IOException\r\n\tat a.B.c", ""),
            (
                "java.io.IOException",
                "java.io.IOExceptionOfOurs: x",
                "java.io.IOExceptionOfOurs: x",
            ),
            ("java.io.IOException", "something else: x\n", "something else: x"),
            ("java.io.IOException", "", ""),
            ("", "no class at all\nat", "no class at all"),
            ("a.B", "a.B: why: because", "why: because"),
        ] {
            assert_eq!(message(class, trace), wanted, "{class:?} {trace:?}");
        }
    }

    #[test]
    fn the_flags_of_the_header_are_kept() {
        let fault = RemoteFault::from(pb::ExceptionResponse {
            exception_class_name: Some("org.apache.hadoop.hbase.CallDroppedException".into()),
            server_overloaded: Some(true),
            ..Default::default()
        });
        assert!(!fault.do_not_retry && fault.server_overloaded);
    }

    #[test]
    fn the_exception_of_an_action_is_a_name_and_a_trace() {
        let fault = RemoteFault::of_action(&pb::NameBytesPair {
            name: "a.B".into(),
            value: Some(b"a.B: broken \xff\n\tat".as_slice().into()),
        });
        assert_eq!(fault.class, "a.B");
        assert_eq!(fault.message, "broken \u{fffd}");
        assert!(!fault.do_not_retry);
    }
}
