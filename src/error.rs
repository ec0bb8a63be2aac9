//! How a call can fail.
//!
//! There is one [`Error`]: that of the client, with the kinds of this crate. An error of the client
//! becomes one by `?`.

pub use hbase_client::ErrorKind as ClientErrorKind;
use hbase_client::{Failure, FailureKind, WrapsClient};

/// The error of a call of this crate.
pub type Error = Failure<ErrorKind>;

/// The result of every fallible call of this crate. HBase's own `Result` (a row) is called
/// [`Row`](crate::Row) here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is: the part of it that programs match on.
///
/// The kinds of the client are wrapped, and can be compared directly:
///
/// ```
/// use hbase_txn::{ClientErrorKind, ErrorKind};
///
/// let kind = ErrorKind::Client(ClientErrorKind::TableNotFound);
/// assert!(kind == ClientErrorKind::TableNotFound);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A mutation belongs to another partition than the transaction it was added to.
    OtherPartition,
    /// The table's partition rule is no longer the one it was opened with.
    PartitionRuleChanged,
    /// The table's durability is too weak for what was asked.
    WeakDurability,
    /// A condition of the transaction did not hold, so nothing was applied.
    ConditionNotMet,
    /// A region server does not apply a `Multi` over several rows as a whole.
    AtomicityUnsupported,
    /// The table can't hold records of transactions: it has no record family, or one that would
    /// lose them.
    RecordFamilyMissing,
    /// Another process settled the transaction as not applied while it was being committed.
    Aborted,
    /// The id of a transaction was used before, for other contents.
    IdReused,
    /// The clocks of this machine and of a region server are too far apart for records of
    /// transactions.
    ClockSkew,
    /// Other writers changed what was read, each time it was tried.
    Conflict,
    /// Another process or task holds the lock.
    LockUnavailable,
    /// The lock is no longer held by whom it was: its lease is over, or it was removed or taken.
    LockLost,
    /// There is no semaphore of this name: it was never created, or it was deleted.
    SemaphoreAbsent,
    /// What is there was made otherwise than it is asked for, or by a program that is not known.
    DefinitionMismatch,
    /// There is no such latch or barrier: it was never made, or it was deleted.
    LatchAbsent,
    /// A latch or barrier of that name is there already.
    LatchExists,
    /// The latch's time is over, or what became of a barrier's generation is forgotten.
    LatchExpired,
    /// The row of the latch or barrier has something that no client of one writes.
    LatchCorrupt,
    /// The transaction is older than its table remembers.
    OutcomeForgotten,
    /// The table requires a feature that this release does not know.
    FeatureUnknown,
    /// A failure of the client.
    Client(ClientErrorKind),
}

impl From<ClientErrorKind> for ErrorKind {
    fn from(kind: ClientErrorKind) -> Self {
        Self::Client(kind)
    }
}

impl PartialEq<ClientErrorKind> for ErrorKind {
    fn eq(&self, other: &ClientErrorKind) -> bool {
        matches!(self, Self::Client(kind) if kind == other)
    }
}

impl FailureKind for ErrorKind {
    const INVALID_INPUT: Self = Self::Client(ClientErrorKind::InvalidInput);

    fn hint(self, remote: bool) -> Option<&'static str> {
        match self {
            Self::Client(kind) => kind.hint(remote),
            _ => None,
        }
    }
}

impl WrapsClient for ErrorKind {}
