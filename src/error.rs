//! Every way a call can fail, and what to do about it.
//!
//! There is one public [`Error`]. It says what was tried, on which table, row and server, at which stage and
//! attempt, what the server said, and what to do. Callers decide by [`Error::kind`] and by the questions
//! [`Error::is_retryable`] and [`Error::is_outcome_unknown`]; the text is for people.
//!
//! This module imports nothing of ours: each layer fills in what it knows on the way up.

use std::{borrow::Cow, error::Error as StdError, fmt};

/// The result of every fallible call of this package. HBase's own `Result` (a row) is called
/// [`Row`](crate::Row) here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. One pointer wide.
///
/// # Example
///
/// ```
/// use hbase_txn::{ErrorKind, TableName};
///
/// let error = "no such:name:at all".parse::<TableName>().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert!(!error.is_retryable() && !error.is_outcome_unknown());
/// ```
pub struct Error(Box<Inner>);

/// What sort of failure an [`Error`] is: the part of it that programs match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input was refused before anything was sent: an empty row, a TTL on a delete, a cell too large.
    InvalidInput,
    /// A setting, an address or a configuration file can't be used as it stands.
    InvalidConfig,
    /// A mutation belongs to another partition than the transaction it was added to.
    OtherPartition,
    /// The table has no usable partition rule, so nothing on it can be a transaction.
    NoPartitionRule,
    /// The table's partition rule is no longer the one it was opened with.
    PartitionRuleChanged,
    /// A region boundary cuts a partition in two; its rows can't change together.
    PartitionCut,
    /// `MultiRowMutationEndpoint` does not answer on the table.
    EndpointMissing,
    /// The table's durability is too weak for what was asked.
    WeakDurability,
    /// A condition of the transaction did not hold, so nothing was applied.
    ConditionNotMet,
    /// A region server does not honour conditions of multi-row transactions (HBase before 2.4.5).
    ConditionsUnsupported,
    /// A region server does not apply a `Multi` over several rows as a whole.
    AtomicityUnsupported,
    /// The table can't hold records of transactions: it has no record family, or one that would lose them.
    RecordFamilyMissing,
    /// Somebody else settled the transaction as not applied while it was being committed.
    Aborted,
    /// The id of a transaction was used before, for other contents.
    IdReused,
    /// The clocks of this machine and of a region server are too far apart for records of transactions.
    ClockSkew,
    /// Other writers changed what was read, each time it was tried.
    Conflict,
    /// Somebody else holds the lock.
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
    /// A change of a table would lose data, and nobody has allowed that.
    DataLoss,
    /// The table does not exist.
    TableNotFound,
    /// A table of that name exists already.
    TableExists,
    /// The table is disabled, or is being disabled.
    TableDisabled,
    /// The namespace does not exist.
    NamespaceNotFound,
    /// The table has no such column family.
    FamilyNotFound,
    /// No server could be reached at the address: name not found, refused, or silent.
    Unreachable,
    /// Something answers at the address, but it does not speak HBase's protocol as this client knows it.
    Protocol,
    /// The cluster asks for an authentication that this client does not have.
    AuthenticationRequired,
    /// The user may not do this.
    AccessDenied,
    /// The connection ended while the call was on its way.
    ConnectionLost,
    /// The deadline passed.
    DeadlineExceeded,
    /// A limit of the server or of a quota was hit.
    LimitExceeded,
    /// The server answered with an exception that has no kind of its own here.
    Server,
    /// This client was closed.
    Closed,
    /// A local cluster could not be booted, ended or looked at.
    LocalCluster,
}

/// What a failed call left behind on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing was changed, and nothing that is still on its way can change anything.
    None,
    /// The call may have been applied, or may still be.
    Unknown,
}

/// What the server said: a Java exception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteException {
    /// The exception's full Java class name.
    pub class: String,
    /// Its message: the first line of the trace, without the class.
    pub message: String,
    /// The whole trace as the server sent it.
    pub trace: String,
}

struct Inner {
    kind: ErrorKind,
    effect: Effect,
    retryable: bool,
    what: Cow<'static, str>,
    context: Context,
    remote: Option<RemoteException>,
    hint: Option<Cow<'static, str>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Where a call was when it failed. Layers fill in what they know; what is already there stays, because the
/// innermost layer knows best.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) operation: Option<Cow<'static, str>>,
    pub(crate) table: Option<String>,
    pub(crate) row: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) stage: Option<Cow<'static, str>>,
    pub(crate) attempts: Option<u32>,
}

impl Error {
    /// An error of this kind that changed nothing on any server.
    pub(crate) fn new(kind: ErrorKind, what: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            effect: Effect::None,
            retryable: false,
            what: what.into(),
            context: Context::default(),
            remote: None,
            hint: None,
            source: None,
        }))
    }

    /// Input that is refused before anything is sent.
    pub(crate) fn invalid(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidInput, what)
    }

    /// What sort of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the call may have been applied although it failed.
    ///
    /// When this is true, sending the same call again may apply it twice.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.effect == Effect::Unknown
    }

    /// Whether the same call may succeed later and is safe to send again: the cause passes, and nothing was
    /// applied.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable && !self.is_outcome_unknown()
    }

    /// What the failed call left behind.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// The Java exception behind this error, when a server sent one.
    #[must_use]
    pub fn remote(&self) -> Option<&RemoteException> {
        self.0.remote.as_ref()
    }

    /// The table that the call was about, as HBase writes it.
    #[must_use]
    pub fn table(&self) -> Option<&str> {
        self.0.context.table.as_deref()
    }

    /// The server that the last attempt went to, as `host:port`.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.0.context.server.as_deref()
    }

    /// How many attempts were made.
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        self.0.context.attempts
    }

    /// What to do about it, when there is something to do.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref().or_else(|| match self.kind() {
            ErrorKind::TableNotFound => Some("check its name; hbase-txn table create makes a table"),
            ErrorKind::AccessDenied => {
                Some("an administrator grants rights, in HBase's shell: grant 'USER', 'RWXC', 'TABLE'")
            }
            ErrorKind::TableExists => {
                Some("hbase-txn table describe shows it, hbase-txn table drop deletes it")
            }
            ErrorKind::NamespaceNotFound => {
                Some("make the namespace, in HBase's shell: create_namespace 'NAME'")
            }
            // Our own refusals name the families.
            ErrorKind::FamilyNotFound if self.0.remote.is_some() => {
                Some("hbase-txn table describe lists the families")
            }
            _ => None,
        })
    }

    /// What failed, without where and what to do.
    #[cfg(feature = "provision")]
    pub(crate) fn what(&self) -> &str {
        &self.0.what
    }

    pub(crate) fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    pub(crate) fn with_retryable(mut self, retryable: bool) -> Self {
        self.0.retryable = retryable;
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// What to do instead, by a layer that knows more of that than the call did.
    pub(crate) fn with_better_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same for an error after which nobody knows whether it was applied.
    pub(crate) fn with_hint_if_unknown(self, hint: &'static str) -> Self {
        match self.is_outcome_unknown() {
            true => self.with_better_hint(hint),
            false => self,
        }
    }

    pub(crate) fn with_remote(mut self, remote: RemoteException) -> Self {
        self.0.remote = Some(remote);
        self
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn at_operation(mut self, operation: impl Into<Cow<'static, str>>) -> Self {
        self.0.context.operation.get_or_insert_with(|| operation.into());
        self
    }

    /// Says before the operation where it was asked for, unless that is said already.
    #[cfg(feature = "provision")]
    pub(crate) fn within(mut self, place: &str) -> Self {
        let context = &mut self.0.context;
        let within = match &context.operation {
            Some(operation) if operation.starts_with(place) => return self,
            Some(operation) => format!("{place}: {operation}"),
            None => place.to_owned(),
        };
        context.operation = Some(within.into());
        self
    }

    pub(crate) fn at_table(mut self, table: &impl fmt::Display) -> Self {
        self.0.context.table.get_or_insert_with(|| table.to_string());
        self
    }

    pub(crate) fn at_row(mut self, row: &impl fmt::Display) -> Self {
        self.0.context.row.get_or_insert_with(|| row.to_string());
        self
    }

    pub(crate) fn at_server(mut self, server: &impl fmt::Display) -> Self {
        self.0.context.server.get_or_insert_with(|| server.to_string());
        self
    }

    pub(crate) fn at_stage(mut self, stage: impl Into<Cow<'static, str>>) -> Self {
        self.0.context.stage.get_or_insert_with(|| stage.into());
        self
    }

    pub(crate) fn at_attempt(mut self, attempts: u32) -> Self {
        self.0.context.attempts.get_or_insert(attempts);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context {
            operation,
            table,
            row,
            server,
            stage,
            attempts,
        } = &self.0.context;
        let mut separator = "";
        let mut part = |f: &mut fmt::Formatter<'_>, label: &str, text: &dyn fmt::Display| {
            let result = write!(f, "{separator}{label}{text}");
            separator = ", ";
            result
        };
        if let Some(operation) = operation {
            part(f, "", operation)?;
        }
        if let Some(table) = table {
            part(f, "table ", table)?;
        }
        if let Some(row) = row {
            part(f, "row ", row)?;
        }
        if let Some(server) = server {
            part(f, "server ", server)?;
        }
        if let Some(stage) = stage {
            part(f, "stage: ", stage)?;
        }
        if let Some(attempts) = attempts.filter(|attempts| *attempts > 0) {
            part(f, "attempt ", &attempts)?;
        }
        if !separator.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.0.what)?;
        if let Some(remote) = &self.0.remote {
            write!(f, ": {remote}")?;
        } else if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        if self.is_outcome_unknown() {
            f.write_str("; it may have been applied")?;
        }
        if let Some(hint) = self.hint() {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            // What `main` prints of an error that it returns.
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("effect", &self.0.effect)
            .field("text", &self.to_string())
            .field("remote", &self.0.remote)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => self
                .0
                .remote
                .as_ref()
                .map(|remote| remote as &(dyn StdError + 'static)),
        }
    }
}

/// How much of a server's message is shown: some are longer than any screen. The whole is in the exception.
const SHOWN_MESSAGE: usize = 300;

impl fmt::Display for RemoteException {
    /// The class without its package, and the message; of a very long one the beginning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.simple_class())?;
        let message = match self.simple_class() {
            // What follows is the whole descriptor of the table.
            "NoSuchColumnFamilyException" => self.message.split(" in region ").next().unwrap_or_default(),
            _ => &self.message,
        };
        match message.char_indices().nth(SHOWN_MESSAGE) {
            None if message.is_empty() => Ok(()),
            None => write!(f, ": {message}"),
            Some((end, _)) => write!(f, ": {}…", &message[..end]),
        }
    }
}

impl StdError for RemoteException {}

impl RemoteException {
    /// The class name without its package.
    #[must_use]
    pub fn simple_class(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or(&self.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_pointer_wide_and_sendable() {
        fn sendable<T: Send + Sync + 'static>() {}
        sendable::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn says_what_was_tried_where_what_the_server_said_and_what_to_do() {
        let error = Error::new(ErrorKind::Server, "the server refused")
            .at_operation("put")
            .at_table(&"orders")
            .at_row(&"xxxabc")
            .at_server(&"rs3:16020")
            .at_attempt(2)
            .with_remote(RemoteException {
                class: "java.io.IOException".into(),
                message: "no luck".into(),
                trace: String::new(),
            })
            .with_hint("look at the server's log")
            .with_effect(Effect::Unknown);
        assert_eq!(
            error.to_string(),
            "put, table orders, row xxxabc, server rs3:16020, attempt 2: the server refused: IOException: no luck; \
             it may have been applied; look at the server's log"
        );
    }

    #[test]
    fn of_a_very_long_message_the_beginning_is_shown_and_all_is_kept() {
        let remote = RemoteException {
            class: "java.io.IOException".into(),
            message: "é".repeat(10_000),
            trace: String::new(),
        };
        let error = Error::new(ErrorKind::Server, "the server answered").with_remote(remote);
        let text = error.to_string();
        assert!(text.ends_with("éé…") && text.chars().count() < 400, "{text}");
        assert_eq!(error.remote().unwrap().message.chars().count(), 10_000);
    }

    #[test]
    fn an_outer_layer_never_overwrites_what_an_inner_one_knew() {
        let error = Error::invalid("bad").at_row(&"inner").at_row(&"outer");
        assert!(error.to_string().contains("inner") && !error.to_string().contains("outer"));
    }

    #[test]
    fn an_unknown_outcome_is_never_retryable() {
        let error = Error::new(ErrorKind::ConnectionLost, "gone").with_retryable(true);
        assert!(error.is_retryable());
        assert!(!error.with_effect(Effect::Unknown).is_retryable());
    }
}
