//! Java exceptions, as a server sends them.

use std::fmt;

/// The package of most exceptions.
const PACKAGE: &str = "org.apache.hadoop.hbase.";

/// Exceptions after which a client must not send the call again, by their names in [`PACKAGE`].
const DO_NOT_RETRY: &[&str] = &[
    "DoNotRetryIOException",
    "NamespaceExistException",
    "NamespaceNotFoundException",
    "NotAllMetaRegionsOnlineException",
    "TableExistsException",
    "TableNotDisabledException",
    "TableNotEnabledException",
    "TableNotFoundException",
    "UnknownRegionException",
    "UnknownScannerException",
    "client.RowTooBigException",
    "constraint.ConstraintException",
    "exceptions.FailedSanityCheckException",
    "exceptions.MasterStoppedException",
    "exceptions.MergeRegionException",
    "exceptions.OutOfOrderScannerNextException",
    "exceptions.RequestTooBigException",
    "exceptions.ScannerResetException",
    "exceptions.UnknownProtocolException",
    "ipc.BadAuthException",
    "ipc.FatalConnectionException",
    "ipc.SecurityNotEnabledException",
    "ipc.UnknownServiceException",
    "ipc.UnsupportedCellCodecException",
    "ipc.UnsupportedCompressionCodecException",
    "ipc.WrongVersionException",
    "quotas.QuotaExceededException",
    "quotas.SpaceLimitingException",
    "regionserver.LeaseException",
    "regionserver.NoSuchColumnFamilyException",
    "security.AccessDeniedException",
];

/// The failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    /// The class: a name in [`PACKAGE`], or a full name that begins with `java.` or `org.`.
    pub(crate) class: &'static str,
    pub(crate) message: String,
    /// The server that has the region now, in a `RegionMovedException`.
    pub(crate) moved_to: Option<(String, u16)>,
}

pub(crate) type Result<T, E = Exception> = std::result::Result<T, E>;

impl Exception {
    pub(crate) fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            moved_to: None,
        }
    }

    /// A failure that HBase reports without a class of its own.
    pub(crate) fn io(message: impl Into<String>) -> Self {
        Self::new("java.io.IOException", message)
    }

    /// A request that cannot succeed.
    pub(crate) fn do_not_retry(message: impl Into<String>) -> Self {
        Self::new("DoNotRetryIOException", message)
    }

    /// The failure of a scanner, which is closed by it: the client must open another one.
    pub(crate) fn in_scan(self) -> Self {
        if self.is_do_not_retry() {
            self
        } else {
            Self::new(
                "exceptions.ScannerResetException",
                "Scanner is closed on the server-side",
            )
        }
    }

    /// A request for something that a real HBase does and this one does not.
    pub(crate) fn not_modelled(what: impl fmt::Display) -> Self {
        Self::do_not_retry(format!("hbase-fake does not model {what}"))
    }

    /// Returns whether this is the answer to a request for something that is not modelled.
    pub(crate) fn is_not_modelled(&self) -> bool {
        self.message.starts_with("hbase-fake does not model ")
    }

    /// The full name of the Java class.
    pub(crate) fn class_name(&self) -> String {
        if self.class.starts_with("java.") || self.class.starts_with("org.") {
            self.class.to_owned()
        } else {
            format!("{PACKAGE}{}", self.class)
        }
    }

    /// Returns whether the class is one after which a client must not send the call again.
    pub(crate) fn is_do_not_retry(&self) -> bool {
        let class = self.class.strip_prefix(PACKAGE).unwrap_or(self.class);
        DO_NOT_RETRY.contains(&class)
    }

    /// Returns whether HBase reports the server as overloaded with it (`HBaseServerException`).
    pub(crate) fn is_server_overloaded(&self) -> bool {
        let class = self.class.strip_prefix(PACKAGE).unwrap_or(self.class);
        matches!(class, "CallQueueTooBigException" | "CallDroppedException")
    }

    /// The text in which HBase sends class, message and stack.
    pub(crate) fn trace(&self) -> String {
        format!("{self}\n")
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class_name(), self.message)
    }
}
