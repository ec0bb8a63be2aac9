//! Why the library refused, and what to do.

use std::fmt;

/// The reason why a call of this crate failed.
///
/// Its text has no keys and no passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    why: String,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No GSSAPI library is installed.
    LibraryMissing,
    /// The library cannot be told which keytab or cache to use (Heimdal).
    LibraryUnsuitable,
    /// The library cannot report the time of a key distribution centre (Heimdal).
    TimeUnknown,
    /// There is no ticket and no keytab.
    NoTicket,
    /// The ticket has expired.
    TicketExpired,
    /// The keytab does not exist, or cannot be read.
    KeytabUnreadable,
    /// The keytab has no key of the principal.
    NotInKeytab,
    /// The key is not, or no longer, that of the principal.
    KeyChanged,
    /// The key distribution centre does not know the principal.
    ClientUnknown,
    /// The principal is locked, or has expired.
    ClientRevoked,
    /// The key distribution centre does not know the server's principal, or does not know the realm
    /// that it is in.
    ServerUnknown,
    /// No key distribution centre of the realm answers. A later attempt may succeed.
    KdcUnreachable,
    /// No key distribution centre of the realm is configured.
    RealmUnknown,
    /// The clocks differ too much.
    ClockSkew,
    /// The server did not prove its identity, or a message of it was altered, repeated or left out.
    Untrusted,
    /// Any other failure.
    Other,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            why: why.into(),
        }
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns an instruction on what to do.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self.kind {
            ErrorKind::LibraryMissing => {
                "install the Kerberos library (libgssapi-krb5-2 on Debian, krb5-libs on Fedora and Alpine); a \
                 statically linked program cannot load it"
            }
            ErrorKind::LibraryUnsuitable => {
                "install MIT's Kerberos library, or set KRB5_CLIENT_KTNAME and KRB5CCNAME instead"
            }
            ErrorKind::TimeUnknown => {
                "install MIT's Kerberos library, which reports the time, or compare the clocks by other means"
            }
            ErrorKind::NoTicket => "run kinit, or configure a keytab and its principal",
            ErrorKind::TicketExpired => "run kinit, or configure a keytab, from which tickets are renewed",
            ErrorKind::KeytabUnreadable => "check the path of the keytab, and that this user may read it",
            ErrorKind::NotInKeytab => "configure a principal of the keytab, with its realm",
            ErrorKind::KeyChanged => "export the keytab again: the key of the principal has changed",
            ErrorKind::ClientUnknown => "check the principal of the client and its realm",
            ErrorKind::ClientRevoked => "have an administrator of Kerberos unlock the principal",
            ErrorKind::ServerUnknown => {
                "check the principal of the server, and the realm of its host (domain_realm in krb5.conf); for another \
                 realm, that the two trust each other"
            }
            ErrorKind::KdcUnreachable => {
                "check that a key distribution centre of the realm can be reached from here"
            }
            ErrorKind::RealmUnknown => {
                "add the realm to krb5.conf (KRB5_CONFIG), with its key distribution centres"
            }
            ErrorKind::ClockSkew => {
                "set the clocks of this machine, the servers and the key distribution centre by NTP: they may differ by \
                 5 minutes"
            }
            ErrorKind::Untrusted => "check that no other machine alters the traffic",
            ErrorKind::Other => "set KRB5_TRACE=/dev/stderr for the steps of the Kerberos library",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Error {}
