//! Errors of this crate.
//!
//! There is one [`Error`] type: that of the client, with the kinds of this crate. The `?` operator
//! converts a [`ClientError`] into it.

use hbase_client::{Effect, Failure, FailureKind, WrapsClient};
pub use hbase_client::{Error as ClientError, ErrorKind as ClientErrorKind};

/// The error of a call of this crate. The client's own calls, such as those of
/// [`Connection`](crate::client::Connection) and [`Table`](crate::client::Table), return a
/// [`ClientError`], which `?` converts into this one.
pub type Error = Failure<ErrorKind>;

/// The result of every fallible call of this crate. HBase's own `Result` (a row) is called
/// [`Row`](crate::client::Row) here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Makes the outcome of a failed operation unknown: it has written something before the failed call,
/// whose own effect may be none.
pub(crate) fn unknown(error: Error) -> Error {
    error.with_effect(Effect::Unknown)
}

/// The same only if the operation has written something.
pub(crate) fn unknown_if(written: bool) -> impl Fn(Error) -> Error {
    move |error| if written { unknown(error) } else { error }
}

/// The kind of an [`Error`], for programs to match on.
///
/// Kinds of the client are wrapped, and can be compared directly:
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
    /// The table has no usable partition rule, so transactions are not possible on it.
    NoPartitionRule,
    /// A region boundary cuts a partition in two, so its rows cannot change together.
    PartitionCut,
    /// A mutation belongs to another partition than the transaction it was added to.
    OtherPartition,
    /// The table has changed since it was opened, for example its partition rule: open it again.
    PartitionRuleChanged,
    /// The durability is too weak for the operation.
    WeakDurability,
    /// A condition of the transaction did not hold, so nothing was applied.
    ConditionNotMet,
    /// A region server does not apply a `Multi` over several rows as a whole.
    AtomicityUnsupported,
    /// The table can't hold records of transactions: it has no record family, or one that would
    /// lose them.
    RecordFamilyMissing,
    /// Another client settled the transaction as not applied, perhaps while it was being committed.
    Aborted,
    /// The id of a transaction was used before for other contents.
    IdReused,
    /// The clocks of this machine and of a region server are too far apart for records of
    /// transactions.
    ClockSkew,
    /// In every attempt, other writers changed what was read.
    Conflict,
    /// Another process or task holds the lock.
    LockUnavailable,
    /// The lock is no longer held by this holder: its lease expired, or it was removed or revoked.
    LockLost,
    /// There is no semaphore with this name: it was never created, or it was deleted.
    SemaphoreAbsent,
    /// The existing object was created with another definition, or by an unknown program.
    DefinitionMismatch,
    /// There is no such latch or barrier: it was never created, or it was deleted.
    LatchAbsent,
    /// A latch or barrier with this name exists already.
    LatchExists,
    /// The latch has expired, or the outcome of a barrier's generation is no longer known.
    LatchExpired,
    /// The row of the latch or barrier contains data that no latch client writes.
    LatchCorrupt,
    /// The transaction is older than the table's replay window.
    OutcomeForgotten,
    /// The table requires a feature that this release does not know.
    FeatureUnknown,
    /// The table, or one of its region servers, can't take part in a transaction across partitions.
    CrossPartitionUnsupported,
    /// An unfinished transaction across partitions holds the partition. The error names its home and
    /// its id.
    PartitionHeld,
    /// An error of the client.
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
