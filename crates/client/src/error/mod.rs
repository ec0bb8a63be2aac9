//! The errors of all calls, with instructions for the user.
//!
//! There is one public [`Error`]. It names the operation, the table, row and server, the stage and
//! the number of attempts, and contains the server's answer and a hint. Programs decide by
//! [`Error::kind`], [`Error::is_retryable`] and [`Error::is_outcome_unknown`]; the text is for
//! people.
//!
//! This module imports no other module of the crate: each layer adds its context on the way up.

mod printable;

use std::{borrow::Cow, error::Error as StdError, fmt, sync::Arc};

pub use printable::Printable;

/// The result of every fallible call of this crate. HBase's own `Result` (a row) is called
/// [`Row`](crate::Row) here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call of this crate.
pub type Error = Failure<ErrorKind>;

/// A failed call: the operation, the table, row and server, the stage and the number of attempts,
/// the answer of the server, and a hint. One pointer wide.
///
/// The crates of this workspace share it. `K` is the enum of the failures that a crate
/// distinguishes; a crate that builds on this one converts an [`Error`] of it by `?`
/// ([`FailureKind`]).
///
/// # Example
///
/// ```
/// use hbase_client::{ErrorKind, TableName};
///
/// let error = "no such:name:at all".parse::<TableName>().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert!(!error.is_retryable() && !error.is_outcome_unknown());
/// ```
#[derive(Clone)]
pub struct Failure<K>(Box<Inner<K>>);

/// The kind of an [`Error`]: the part of it that programs match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input was rejected before anything was sent: an empty row, a TTL on a delete, a cell too
    /// large.
    InvalidInput,
    /// The value of a cell is not of the requested type.
    InvalidValue,
    /// A setting, an address or a configuration file cannot be used.
    InvalidConfig,
    /// `MultiRowMutationEndpoint` does not answer on the table.
    EndpointMissing,
    /// A region server does not honour conditions. Transactions of several rows need HBase 2.4.5; locks,
    /// latches and conditional changes of single rows need HBase 2.4.
    ConditionsUnsupported,
    /// The table does not exist.
    TableNotFound,
    /// A table of that name exists already.
    TableExists,
    /// The table is disabled, or is being disabled.
    TableDisabled,
    /// Splits or merges are switched off, for the table or for the whole cluster.
    SwitchedOff,
    /// The namespace does not exist.
    NamespaceNotFound,
    /// The namespace has tables.
    NamespaceNotEmpty,
    /// The snapshot does not exist.
    SnapshotNotFound,
    /// A snapshot of that name exists already.
    SnapshotExists,
    /// The replication peer does not exist.
    ReplicationPeerNotFound,
    /// Another replication peer has the id.
    ReplicationPeerExists,
    /// The table has no such column family.
    FamilyNotFound,
    /// The region does not exist any more: it was split or merged, or its table was deleted.
    RegionNotFound,
    /// The table has a column family of that name already.
    FamilyExists,
    /// No server could be reached at the address: name not found, refused, or silent.
    Unreachable,
    /// The peer at the address does not speak HBase's protocol as this client knows it.
    Protocol,
    /// The cluster requires an authentication that this client does not support.
    AuthenticationRequired,
    /// The server and this client do not accept each other's identity: credentials or certificates
    /// are missing, invalid or refused.
    AuthenticationFailed,
    /// The user does not have the permission.
    AccessDenied,
    /// The connection ended while the call was in flight.
    ConnectionLost,
    /// The deadline passed.
    DeadlineExceeded,
    /// A limit of the server or of a throttle was exceeded.
    LimitExceeded,
    /// A quota is used up: the space of the table or its namespace, or the number of tables or regions
    /// of the namespace. Deleted rows free space when a major compaction has dropped them.
    QuotaExceeded,
    /// The release of the server does not have the operation, or not for this object.
    Unsupported,
    /// The server answered with an exception that has no kind of its own here.
    Server,
    /// This client was closed.
    Closed,
}

/// The failures that a crate distinguishes.
pub trait FailureKind: Copy + fmt::Debug + Send + Sync + 'static {
    /// The kind of input that was rejected before anything was sent.
    const INVALID_INPUT: Self;

    /// Returns an instruction on what to do, if there is one.
    fn hint(self, remote: bool) -> Option<&'static str>;
}

/// A [`FailureKind`] of a crate that depends on this one and wraps its errors.
pub trait WrapsClient: FailureKind + From<ErrorKind> {}

impl<K: WrapsClient> From<Error> for Failure<K> {
    fn from(error: Error) -> Self {
        let Inner {
            kind,
            effect,
            tells_no_effect,
            retryable,
            what,
            context,
            remote,
            hint,
            missing_family,
            has_lines,
            source,
        } = *error.0;
        Self(Box::new(Inner {
            kind: kind.into(),
            effect,
            tells_no_effect,
            retryable,
            what,
            context,
            remote,
            hint,
            missing_family,
            has_lines,
            source,
        }))
    }
}

impl FailureKind for ErrorKind {
    const INVALID_INPUT: Self = Self::InvalidInput;

    fn hint(self, remote: bool) -> Option<&'static str> {
        match self {
            Self::TableNotFound => Some("check its name, or create it"),
            Self::AccessDenied => Some("have an administrator grant the permission"),
            Self::TableDisabled => Some("enable it"),
            Self::TableExists => Some("use another name, or delete the existing table first"),
            Self::NamespaceNotFound => Some("check its name, or create the namespace"),
            Self::NamespaceNotEmpty => Some("delete its tables first"),
            Self::SnapshotNotFound => Some("check its name"),
            Self::RegionNotFound => Some("list the regions of the table again"),
            Self::Unsupported => Some("use a release of HBase that has it"),
            Self::SnapshotExists => Some("use another name, or delete the existing snapshot first"),
            Self::ReplicationPeerNotFound => Some("check its id"),
            Self::ReplicationPeerExists => Some("use another id, or remove the existing peer first"),
            Self::QuotaExceeded => {
                Some("raise or remove the quota of the table or its namespace, or delete data there")
            }
            Self::FamilyExists => Some("use another name, or modify the existing family"),
            // The client's own rejections name the families.
            Self::FamilyNotFound if remote => Some("use a family of the table"),
            _ => None,
        }
    }
}

/// The effect of a failed call on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing was changed, and no request in flight can change anything.
    None,
    /// The call may have been applied, or may still be.
    Unknown,
}

/// A Java exception that a server sent. [Displayed](fmt::Display), it is short and has no control
/// characters; its fields are as the server sent them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteException {
    /// The exception's full Java class name.
    pub class: String,
    /// Its message: the first line of the trace, without the class.
    pub message: String,
    /// The whole trace as the server sent it.
    pub trace: String,
}

#[derive(Clone)]
struct Inner<K> {
    kind: K,
    effect: Effect,
    /// Whether the message says that nothing was applied, as long as the effect is [`Effect::None`].
    tells_no_effect: bool,
    retryable: bool,
    what: Cow<'static, str>,
    context: Context,
    remote: Option<RemoteException>,
    hint: Option<Cow<'static, str>>,
    missing_family: Option<&'static str>,
    /// Whether the message has a line for each of several findings.
    has_lines: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The context of a failed call. Each layer adds what it knows. A value that is already set stays,
/// because the innermost layer knows best.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) operation: Option<Cow<'static, str>>,
    pub(crate) table: Option<String>,
    pub(crate) partition: Option<String>,
    pub(crate) row: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) stage: Option<Cow<'static, str>>,
    pub(crate) attempts: Option<u32>,
}

impl<K: FailureKind> Failure<K> {
    /// Creates an error of this kind that changed nothing on any server.
    pub fn new(kind: impl Into<K>, what: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind: kind.into(),
            effect: Effect::None,
            tells_no_effect: false,
            retryable: false,
            what: what.into(),
            context: Context::default(),
            remote: None,
            hint: None,
            missing_family: None,
            has_lines: false,
            source: None,
        }))
    }

    /// Creates an error for input with several faults, which has a line for each.
    pub fn invalid_lines(lines: &[String]) -> Self {
        let lines: Vec<_> = lines.iter().map(|line| Printable(line).to_string()).collect();
        let mut error = Self::invalid(lines.join("\n"));
        error.0.has_lines = true;
        error
    }

    /// Creates an error for input that is rejected before anything is sent.
    pub fn invalid(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(K::INVALID_INPUT, what)
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> K {
        self.0.kind
    }

    /// Returns whether the call may have been applied although it failed.
    ///
    /// When this is true, sending the same call again may apply it twice.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.effect == Effect::Unknown
    }

    /// Returns whether the same call may succeed later and is safe to repeat: the cause is
    /// transient, and nothing was applied.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable && !self.is_outcome_unknown()
    }

    /// Returns the effect of the failed call.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// Returns the Java exception behind this error, if a server sent one.
    #[must_use]
    pub fn remote(&self) -> Option<&RemoteException> {
        self.0.remote.as_ref()
    }

    /// Returns the table of the call, as HBase writes it.
    #[must_use]
    pub fn table(&self) -> Option<&str> {
        self.0.context.table.as_deref()
    }

    /// Returns the server of the last attempt, as `host:port`.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.0.context.server.as_deref()
    }

    /// Returns the number of attempts.
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        self.0.context.attempts
    }

    /// Returns an instruction on what to do, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        let of_kind = || self.0.kind.hint(self.0.remote.is_some());
        self.0.hint.as_deref().or_else(of_kind)
    }

    /// Returns the family that the table lacks, if the hint is to add it.
    #[must_use]
    pub fn missing_family(&self) -> Option<&str> {
        self.0.missing_family
    }

    /// Returns the description of the failure, without its context and the hint.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// Replaces the effect. An error starts with [`Effect::None`].
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// Lets the message say that nothing was applied, unless another layer knows of an effect.
    pub(crate) fn tell_no_effect(mut self) -> Self {
        self.0.tells_no_effect = true;
        self
    }

    /// Sets whether the cause is transient. [`is_retryable`](Self::is_retryable) also requires a
    /// known outcome.
    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.0.retryable = retryable;
        self
    }

    /// Adds an instruction on what to do. Keeps the hint that is already set.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Sets the family that the table lacks and that the hint advises to add.
    #[must_use]
    pub fn with_missing_family(mut self, family: &'static str) -> Self {
        self.0.missing_family = Some(family);
        self
    }

    /// Replaces the hint.
    pub fn with_better_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Replaces the hint if the [outcome is unknown](Self::is_outcome_unknown).
    pub fn with_hint_if_unknown(self, hint: &'static str) -> Self {
        if self.is_outcome_unknown() {
            self.with_better_hint(hint)
        } else {
            self
        }
    }

    /// Replaces the Java exception that the server answered with.
    #[must_use]
    pub fn with_remote(mut self, remote: RemoteException) -> Self {
        self.0.remote = Some(remote);
        self
    }

    /// Replaces the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Adds the operation that failed. Keeps the operation that is already set.
    #[must_use]
    pub fn at_operation(mut self, operation: impl Into<Cow<'static, str>>) -> Self {
        self.0.context.operation.get_or_insert_with(|| operation.into());
        self
    }

    /// Prefixes the operation with a place, unless the operation already starts with it.
    pub fn within(mut self, place: &str) -> Self {
        let context = &mut self.0.context;
        let within = match &context.operation {
            Some(operation) if operation.starts_with(place) => return self,
            Some(operation) => format!("{place}: {operation}"),
            None => place.to_owned(),
        };
        context.operation = Some(within.into());
        self
    }

    /// Adds the table. Keeps the table that is already set.
    #[must_use]
    pub fn at_table(mut self, table: &impl fmt::Display) -> Self {
        self.0.context.table.get_or_insert_with(|| table.to_string());
        self
    }

    /// Adds the row. Keeps the row that is already set.
    #[must_use]
    pub fn at_row(mut self, row: &impl fmt::Display) -> Self {
        self.0.context.row.get_or_insert_with(|| row.to_string());
        self
    }

    /// Adds the prefix of the partition. It replaces the first key of the partition as the row, by
    /// which a call is located. Keeps any other row that is already set, and adds no partition then.
    #[must_use]
    pub fn at_partition(mut self, prefix: &impl fmt::Display, first_key: &impl fmt::Display) -> Self {
        let context = &mut self.0.context;
        if context
            .row
            .as_ref()
            .is_none_or(|row| *row == first_key.to_string())
        {
            context.row = None;
            context.partition.get_or_insert_with(|| prefix.to_string());
        }
        self
    }

    /// Replaces the row.
    #[must_use]
    pub(crate) fn of_row(mut self, row: &impl fmt::Display) -> Self {
        self.0.context.row = Some(row.to_string());
        self
    }

    /// Adds the server. Keeps the server that is already set.
    #[must_use]
    pub fn at_server(mut self, server: &impl fmt::Display) -> Self {
        self.0.context.server.get_or_insert_with(|| server.to_string());
        self
    }

    /// Adds the stage of the call, for example the handshake. Keeps the stage that is already set.
    #[must_use]
    pub fn at_stage(mut self, stage: impl Into<Cow<'static, str>>) -> Self {
        self.0.context.stage.get_or_insert_with(|| stage.into());
        self
    }

    /// Adds the number of attempts, counted from 1. Keeps the number that is already set; 0 is not
    /// shown.
    #[must_use]
    pub fn at_attempt(mut self, attempts: u32) -> Self {
        self.0.context.attempts.get_or_insert(attempts);
        self
    }
}

impl Error {
    /// Creates an error for an invalid setting, address or configuration file.
    pub(crate) fn invalid_config(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidConfig, what)
    }
}

impl<K: FailureKind + From<ErrorKind>> From<hbase_keyed_lock::DeadlineExceeded> for Failure<K> {
    fn from(exceeded: hbase_keyed_lock::DeadlineExceeded) -> Self {
        Self::new(ErrorKind::DeadlineExceeded, "the deadline passed")
            .with_retryable(true)
            .with_source(exceeded)
    }
}

impl<K: FailureKind> fmt::Display for Failure<K> {
    /// Writes one line without control characters: parts of it come from servers. Only input with
    /// several faults has a line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.has_lines {
            return Printable(Message(self)).fmt(f);
        }
        let text = Message(self).to_string();
        for (at, line) in text.split('\n').enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            write!(f, "{end}{}", Printable(line))?;
        }
        Ok(())
    }
}

/// What a message says of a call with an unknown outcome.
const MAY_BE_APPLIED: &str = "it may have been applied";

/// The whole message of a failure.
struct Message<'a, K>(&'a Failure<K>);

impl<K: FailureKind> fmt::Display for Message<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure(inner) = self.0;
        let Context {
            operation,
            table,
            partition,
            row,
            server,
            stage,
            attempts,
        } = &inner.context;
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
        if let Some(partition) = partition {
            part(f, "partition ", partition)?;
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
        f.write_str(&inner.what)?;
        let cause = match (&inner.remote, &inner.source) {
            (Some(remote), _) => remote.to_string(),
            (None, Some(source)) => match inner.effect {
                // The effect of the cause, such as that of a probe, is not the one of the operation.
                Effect::None => source.to_string().replace(&format!("; {MAY_BE_APPLIED}"), ""),
                Effect::Unknown => source.to_string(),
            },
            (None, None) => String::new(),
        };
        if !cause.is_empty() {
            write!(f, ": {cause}")?;
        }
        match inner.effect {
            // The cause is often an error of this type, which tells it already.
            Effect::Unknown if cause.contains(MAY_BE_APPLIED) => {}
            Effect::Unknown => write!(f, "; {MAY_BE_APPLIED}")?,
            Effect::None if inner.tells_no_effect => f.write_str("; nothing was applied")?,
            Effect::None => {}
        }
        if let Some(hint) = self.0.hint() {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl<K: FailureKind> fmt::Debug for Failure<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            // `main` prints this form of a returned error.
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

impl<K: FailureKind> StdError for Failure<K> {
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

/// The lengths at which a server's message and the name of its class are cut. The exception contains
/// the whole texts.
const SHOWN_MESSAGE: usize = 300;
const SHOWN_CLASS: usize = 100;

impl fmt::Display for RemoteException {
    /// Writes the class without its package, and the message, up to their maximum lengths and without
    /// control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match self.simple_class() {
            // The rest is the whole descriptor of the table.
            "NoSuchColumnFamilyException" => self.message.split(" in region ").next().unwrap_or_default(),
            _ => &self.message,
        };
        let (class, message) = (cut(self.simple_class(), SHOWN_CLASS), cut(message, SHOWN_MESSAGE));
        write!(f, "{}", Printable(class))?;
        if !message.is_empty() {
            write!(f, ": {}", Printable(message))?;
        }
        Ok(())
    }
}

/// Returns the first characters of a text.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

impl StdError for RemoteException {}

impl RemoteException {
    /// Returns the class name without its package.
    #[must_use]
    pub fn simple_class(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or(&self.class)
    }

    /// Returns whether the server refused to increment a cell whose value is not 8 bytes long. It refuses
    /// the whole call before it writes anything (`HRegion.getLongValue`).
    #[must_use]
    pub fn is_no_counter(&self) -> bool {
        is_no_counter(&self.message)
    }
}

/// Returns whether the message of an exception says that an incremented cell is not 8 bytes long.
pub(crate) fn is_no_counter(message: &str) -> bool {
    message.contains("Field is not a long")
}

#[cfg(test)]
mod tests;
