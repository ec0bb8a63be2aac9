//! The meaning of each Java exception.
//!
//! A server's answer carries the exception's class. This table decides from it whether and where
//! the call may be repeated, and whether a write that failed with it may have been applied.
//! Exceptions inside a `Multi` answer carry no flag at all, so the class must be enough.

use std::time::Duration;

use crate::{
    error::{Effect, ErrorKind},
    wire::frame::RemoteFault,
};

/// How a failed call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Locates the region again: it moved, split, merged or closed.
    Relocate,
    /// Locates the region again, the first time without a pause: nothing is known to be wrong, but the
    /// connection to the server is new.
    RelocateAtOnce,
    /// Locates the region again although the cause is unknown: the server may be aborting.
    RelocateOnUnknown,
    /// Repeats the call on the same server, after a pause.
    Wait,
    /// Repeats the call on the same server, after the longer pause for overloaded ones.
    WaitForLoad,
    /// Repeats the call on the same server, after the time that its quota names.
    WaitFor(Duration),
    /// Forgets the regions of the server, which is stopping or gone, and locates the region again.
    ForgetServer,
    /// Opens a new scanner, because the scanner is void.
    OpenScanner,
    /// Looks up the active master again, because another server has taken over.
    FindMaster,
    /// Does not repeat the call.
    Fail,
}

/// The meaning of a Java exception: the kind of the error, and its effect on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    pub(crate) recovery: Recovery,
    /// Whether a write that failed with this exception may have been applied.
    pub effect: Effect,
    /// The kind of the error that the caller gets.
    pub kind: ErrorKind,
}

impl Classification {
    /// Rules on an exception that a server answered with.
    pub(crate) fn of_fault(fault: &RemoteFault) -> Self {
        Self::of(&fault.class, &fault.message, fault.do_not_retry).with_trace(&fault.trace)
    }

    /// Sets the effect to [`Effect::Unknown`] if the trace shows a coprocessor hook that runs after
    /// the write.
    ///
    /// Such a hook may throw any class, for example a `NotServingRegionException` of another table.
    #[must_use]
    pub fn with_trace(mut self, trace: &str) -> Self {
        if trace.contains(HOOK_AFTER) {
            self.effect = Effect::Unknown;
        }
        self
    }

    /// Rules on an exception by its full class name, its message, and the `do_not_retry` flag of
    /// the response header.
    #[must_use]
    pub fn of(class: &str, message: &str, do_not_retry: bool) -> Self {
        let name = class.strip_prefix(PACKAGE).unwrap_or(class);
        if let Some((_, recovery, effect, kind)) = TABLE.iter().find(|(known, ..)| *known == name) {
            let recovery = match *recovery {
                Recovery::WaitFor(_) => Recovery::WaitFor(throttle_wait(message)),
                other => other,
            };
            let kind = match *kind {
                // `HMaster.enableTable` of a table that the quota has disabled.
                ErrorKind::AccessDenied if message.contains("violated space quota") => {
                    ErrorKind::QuotaExceeded
                }
                other => other,
            };
            return Self {
                recovery,
                effect: *effect,
                kind,
            };
        }
        if name == "java.io.IOException" && message.contains("Timed out waiting for lock for row") {
            // The wait for a row's lock comes before anything is written.
            return Self {
                recovery: Recovery::Wait,
                effect: Effect::None,
                kind: ErrorKind::Server,
            };
        }
        if message.starts_with(COPROCESSOR_THREW) {
            return Self {
                recovery: Recovery::Fail,
                effect: Effect::Unknown,
                kind: ErrorKind::Server,
            };
        }
        if message.contains(UNREADABLE_CALL) && message.contains("UnsupportedOperationException") {
            return Self {
                recovery: Recovery::Fail,
                effect: Effect::None,
                kind: ErrorKind::Unsupported,
            };
        }
        if do_not_retry || NEVER_RETRIED.contains(&name) {
            return Self {
                recovery: Recovery::Fail,
                // HBase throws these exceptions before the write. Which code throws another one,
                // and when, is not known.
                effect: if NEVER_RETRIED.contains(&name) {
                    Effect::None
                } else {
                    Effect::Unknown
                },
                kind: ErrorKind::Server,
            };
        }
        Self {
            recovery: Recovery::RelocateOnUnknown,
            effect: Effect::Unknown,
            kind: ErrorKind::Server,
        }
    }
}

const PACKAGE: &str = "org.apache.hadoop.hbase.";

/// Classes, without HBase's package, and their meanings. The server flags three scanner exceptions
/// and `MasterStopped` as "do not retry" although the call can be continued, so the table precedes
/// the flag.
const TABLE: &[(&str, Recovery, Effect, ErrorKind)] = {
    use Effect::{None, Unknown};
    use ErrorKind as Kind;
    use Recovery::{Fail, FindMaster, ForgetServer, OpenScanner, Relocate, Wait, WaitFor, WaitForLoad};
    &[
        ("NotServingRegionException", Relocate, None, Kind::Server),
        ("exceptions.RegionMovedException", Relocate, None, Kind::Server),
        ("exceptions.RegionOpeningException", Wait, None, Kind::Server),
        ("RegionTooBusyException", Wait, None, Kind::LimitExceeded),
        ("regionserver.WrongRegionException", Relocate, None, Kind::Server),
        (
            "regionserver.RegionServerStoppedException",
            ForgetServer,
            Unknown,
            Kind::Server,
        ),
        (
            "regionserver.RegionServerAbortedException",
            ForgetServer,
            Unknown,
            Kind::Server,
        ),
        (
            "ipc.ServerNotRunningYetException",
            ForgetServer,
            None,
            Kind::Server,
        ),
        ("CallQueueTooBigException", WaitForLoad, None, Kind::LimitExceeded),
        ("CallDroppedException", WaitForLoad, None, Kind::LimitExceeded),
        ("MultiActionResultTooLarge", Wait, None, Kind::LimitExceeded),
        ("RetryImmediatelyException", Wait, None, Kind::Server),
        (
            "quotas.RpcThrottlingException",
            WaitFor(Duration::ZERO),
            None,
            Kind::LimitExceeded,
        ),
        ("exceptions.TimeoutIOException", Wait, Unknown, Kind::Server),
        (
            "exceptions.RequestTooBigException",
            Fail,
            None,
            Kind::LimitExceeded,
        ),
        (
            "regionserver.NoSuchColumnFamilyException",
            Fail,
            None,
            Kind::FamilyNotFound,
        ),
        (
            "exceptions.FailedSanityCheckException",
            Fail,
            None,
            Kind::InvalidInput,
        ),
        (
            "exceptions.UnknownProtocolException",
            Fail,
            None,
            Kind::EndpointMissing,
        ),
        ("security.AccessDeniedException", Fail, None, Kind::AccessDenied),
        (
            "security.visibility.InvalidLabelException",
            Fail,
            None,
            Kind::InvalidInput,
        ),
        ("quotas.SpaceLimitingException", Fail, None, Kind::QuotaExceeded),
        ("quotas.QuotaExceededException", Fail, None, Kind::QuotaExceeded),
        ("client.RowTooBigException", Fail, None, Kind::LimitExceeded),
        ("UnknownScannerException", OpenScanner, None, Kind::Server),
        (
            "exceptions.ScannerResetException",
            OpenScanner,
            None,
            Kind::Server,
        ),
        (
            "exceptions.OutOfOrderScannerNextException",
            OpenScanner,
            None,
            Kind::Server,
        ),
        ("regionserver.LeaseException", OpenScanner, None, Kind::Server),
        ("TableNotFoundException", Fail, None, Kind::TableNotFound),
        ("TableExistsException", Fail, None, Kind::TableExists),
        ("TableNotEnabledException", Fail, None, Kind::TableDisabled),
        ("TableNotDisabledException", Fail, None, Kind::Server),
        ("NamespaceNotFoundException", Fail, None, Kind::NamespaceNotFound),
        (
            "snapshot.SnapshotDoesNotExistException",
            Fail,
            None,
            Kind::SnapshotNotFound,
        ),
        (
            "snapshot.SnapshotExistsException",
            Fail,
            None,
            Kind::SnapshotExists,
        ),
        ("UnknownRegionException", Fail, None, Kind::RegionNotFound),
        (
            "ReplicationPeerNotFoundException",
            Fail,
            None,
            Kind::ReplicationPeerNotFound,
        ),
        ("MasterNotRunningException", FindMaster, None, Kind::Server),
        ("PleaseHoldException", Wait, None, Kind::Server),
        (
            "exceptions.MasterStoppedException",
            FindMaster,
            None,
            Kind::Server,
        ),
        ("ipc.FatalConnectionException", Fail, None, Kind::Protocol),
        ("ipc.BadAuthException", Fail, None, Kind::AuthenticationRequired),
        ("ipc.WrongVersionException", Fail, None, Kind::Protocol),
        ("ipc.UnknownServiceException", Fail, None, Kind::Protocol),
        ("ipc.EmptyServiceNameException", Fail, None, Kind::Protocol),
        ("ipc.UnsupportedCellCodecException", Fail, None, Kind::Protocol),
        (
            "ipc.UnsupportedCompressionCodecException",
            Fail,
            None,
            Kind::Protocol,
        ),
        (
            "ipc.UnsupportedCryptoException",
            Fail,
            None,
            Kind::AuthenticationRequired,
        ),
    ]
};

/// Classes that are final wherever they appear; inside a `Multi` answer no flag says so. HBase
/// throws them before it writes.
const NEVER_RETRIED: &[&str] = &[
    "DoNotRetryIOException",
    "NamespaceExistException",
    "ConcurrentTableModificationException",
    "exceptions.MergeRegionException",
    "constraint.ConstraintException",
    "NotAllMetaRegionsOnlineException",
];

/// The beginning of the message of `CoprocessorHost`'s `DoNotRetryIOException` for a broken
/// coprocessor. Its hook may have run after the write, which is applied then.
const COPROCESSOR_THREW: &str = "Coprocessor: '";

/// A part of the message of `ServerRpcConnection.processRequest` for a call that it does not read: of a
/// method that the release does not have, if the cause is an `UnsupportedOperationException`.
const UNREADABLE_CALL: &str = "unable to read call parameter";

/// The beginning, in a trace, of those methods of `RegionCoprocessorHost` and `WALCoprocessorHost`
/// that call the hooks after a write (`postPut`, `postBatchMutate`, `postWALWrite`).
const HOOK_AFTER: &str = "CoprocessorHost.post";

/// Parses the wait of a throttled call, in text like `1hr, 2mins, 3sec, 4ms`.
fn throttle_wait(message: &str) -> Duration {
    const DEFAULT: Duration = Duration::from_secs(1);
    /// Longer than any deadline that is worth waiting for; the number comes from the peer.
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    let Some((_, wait)) = message.rsplit_once("wait ") else {
        return DEFAULT;
    };
    let mut total = Duration::ZERO;
    for part in wait.split(',') {
        let part = part.trim();
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = part[..digits].parse::<u32>() else {
            return DEFAULT;
        };
        let unit = part[digits..].trim_start();
        let unit = unit
            .split(|c: char| !c.is_ascii_alphabetic())
            .next()
            .unwrap_or_default();
        let unit = match unit {
            "hr" | "hrs" => Duration::from_secs(3600),
            "min" | "mins" => Duration::from_secs(60),
            "sec" | "secs" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return DEFAULT,
        };
        total = total.saturating_add(unit.saturating_mul(number)).min(LONGEST);
    }
    total
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rule(class: &str) -> Classification {
        Classification::of(&format!("{PACKAGE}{class}"), "", false)
    }

    #[test]
    fn no_class_is_listed_twice() {
        for (at, (name, ..)) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|(other, ..)| other != name), "{name}");
            assert!(!NEVER_RETRIED.contains(name), "{name}");
        }
    }

    #[test]
    fn retried_errors_were_not_applied_or_are_unknown() {
        for (name, recovery, effect, _) in TABLE {
            let may_be_applied = *effect == Effect::Unknown;
            let leaves_writes_open = ["RegionServerStopped", "RegionServerAborted", "TimeoutIO"]
                .iter()
                .any(|part| name.contains(part));
            assert_eq!(may_be_applied, leaves_writes_open, "{name} {recovery:?}");
        }
    }

    #[rstest]
    #[case("NotServingRegionException", Recovery::Relocate)]
    #[case("exceptions.RegionOpeningException", Recovery::Wait)]
    #[case("CallQueueTooBigException", Recovery::WaitForLoad)]
    #[case("UnknownScannerException", Recovery::OpenScanner)]
    #[case("exceptions.MasterStoppedException", Recovery::FindMaster)]
    fn the_table_goes_before_the_flag(#[case] class: &str, #[case] recovery: Recovery) {
        assert_eq!(
            Classification::of(&format!("{PACKAGE}{class}"), "", true).recovery,
            recovery
        );
    }

    #[test]
    fn unknown_exception_is_final_only_if_flagged() {
        let flagged = Classification::of("com.example.OwnException", "", true);
        assert_eq!(
            (flagged.recovery, flagged.effect),
            (Recovery::Fail, Effect::Unknown)
        );
        let unflagged = Classification::of("java.io.IOException", "failed to sync", false);
        assert_eq!(
            (unflagged.recovery, unflagged.effect),
            (Recovery::RelocateOnUnknown, Effect::Unknown)
        );
        assert_eq!(rule("DoNotRetryIOException").recovery, Recovery::Fail);
    }

    #[rstest]
    #[case("DoNotRetryIOException", Recovery::Fail)]
    #[case("NotServingRegionException", Recovery::Relocate)]
    #[case("security.AccessDeniedException", Recovery::Fail)]
    fn exception_of_a_hook_after_the_write_leaves_it_open(#[case] class: &str, #[case] recovery: Recovery) {
        let classification = |hook: &str| {
            Classification::of_fault(&RemoteFault {
                class: format!("{PACKAGE}{class}"),
                trace: format!(
                    "{PACKAGE}{class}: no\n\tat com.example.Observer.{hook}(Observer.java:7)\n\tat \
                     {PACKAGE}regionserver.RegionCoprocessorHost.{hook}(RegionCoprocessorHost.java:999)"
                ),
                ..RemoteFault::default()
            })
        };
        let before = classification("prePut");
        assert_eq!((before.recovery, before.effect), (recovery, Effect::None));
        for hook in ["postPut", "postBatchMutateIndispensably"] {
            let after = classification(hook);
            assert_eq!((after.recovery, after.effect), (recovery, Effect::Unknown));
        }
    }

    #[test]
    fn a_method_that_the_release_does_not_have_is_unsupported() {
        let of =
            |message: &str| Classification::of(&format!("{PACKAGE}DoNotRetryIOException"), message, true);
        let unread = "/127.0.0.1:27510 is unable to read call parameter from client 127.0.0.1; ";
        let unknown = of(&format!(
            "{unread}java.lang.UnsupportedOperationException: TruncateRegion"
        ));
        assert_eq!(
            (unknown.kind, unknown.effect, unknown.recovery),
            (ErrorKind::Unsupported, Effect::None, Recovery::Fail)
        );
        let broken = of(&format!("{unread}java.lang.IllegalArgumentException"));
        assert_eq!(broken.kind, ErrorKind::Server);
    }

    #[test]
    fn a_table_that_its_quota_keeps_disabled_is_no_matter_of_permissions() {
        let kind = |message| {
            Classification::of(&format!("{PACKAGE}security.AccessDeniedException"), message, true).kind
        };
        let text = "Enabling the table 'orders' is disallowed due to a violated space quota.";
        assert_eq!(kind(text), ErrorKind::QuotaExceeded);
        assert_eq!(
            kind("Insufficient permissions for user 'eve'"),
            ErrorKind::AccessDenied
        );
    }

    #[test]
    fn a_timeout_for_a_rows_lock_wrote_nothing() {
        let text = "Timed out waiting for lock for row: xxxabc in region 1588230740";
        let classification = Classification::of("java.io.IOException", text, false);
        assert_eq!(
            (classification.recovery, classification.effect),
            (Recovery::Wait, Effect::None)
        );
    }

    #[test]
    fn a_coprocessor_that_broke_may_have_done_so_after_the_write() {
        let text = "Coprocessor: 'org.apache.hadoop.hbase.coprocessor.CoprocessorHost$Env' threw: 'NullPointerException'";
        let classification = Classification::of(&format!("{PACKAGE}DoNotRetryIOException"), text, true);
        assert_eq!(
            (classification.recovery, classification.effect),
            (Recovery::Fail, Effect::Unknown)
        );
    }

    #[rstest]
    #[case("number of requests exceeded - wait 1hr, 2mins, 3sec, 4ms", 3_723_004)]
    #[case("write size limit exceeded - wait 250ms", 250)]
    #[case("wait 10sec", 10_000)]
    #[case("no time named", 1_000)]
    #[case("wait ever and ever", 1_000)]
    #[case("wait 4294967295hr, 4294967295hr", 86_400_000)]
    #[case("wait é", 1_000)]
    fn a_throttled_call_waits_as_it_is_told(#[case] message: &str, #[case] millis: u64) {
        let classification =
            Classification::of(&format!("{PACKAGE}quotas.RpcThrottlingException"), message, false);
        assert_eq!(
            classification.recovery,
            Recovery::WaitFor(Duration::from_millis(millis))
        );
    }
}
