//! What a caller can do about a failure.

/// The kind of a failure: who can fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A setting or a file cannot be used.
    InvalidConfig,
    /// The server does not speak the protocol as this client knows it.
    Protocol,
    /// The server and this client do not accept each other's identity.
    AuthenticationFailed,
}
