//! Why the library refused, and what to do.

use std::fmt;

use crate::{
    buffer::Buffer,
    library::Library,
    sys::{GSS_STATUS, MECHANISM_STATUS, Oid, Word},
};

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

    /// Creates the error of a call that returned these statuses.
    pub(crate) fn of_status(
        library: &'static Library,
        what: impl Into<String>,
        major: Word,
        minor: Word,
    ) -> Self {
        let major_text = status_text(library, major, GSS_STATUS);
        let minor_text = match minor {
            0 => String::new(),
            _ => status_text(library, minor, MECHANISM_STATUS),
        };
        // The text of the mechanism is the more precise one.
        let text = match minor_text.is_empty() {
            true => major_text,
            false => minor_text,
        };
        let why = format!("{text} (0x{major:08x}, {})", minor.cast_signed());
        Self::new(kind(major, minor), what, why)
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
                "set the clocks of this machine, the servers and the key distribution centre"
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

/// The maximum number of messages of a status.
const MAX_MESSAGES: usize = 8;

/// Returns the library's text of a status.
fn status_text(library: &'static Library, status: Word, of: std::ffi::c_int) -> String {
    let mut texts = Vec::new();
    let mut more = 0;
    let mechanism = Oid::kerberos();
    for _ in 0..MAX_MESSAGES {
        let mut text = Buffer::new(library);
        let mut minor = 0;
        // SAFETY: all pointers are valid for the call, and the output is empty.
        let major = unsafe {
            (library.gss_display_status)(
                &raw mut minor,
                status,
                of,
                &raw const mechanism,
                &raw mut more,
                text.output(),
            )
        };
        if major != 0 {
            break;
        }
        texts.push(String::from_utf8_lossy(&text).into_owned());
        if more == 0 {
            break;
        }
    }
    texts.join("; ")
}

/// The first code of the error table of Kerberos 5. The codes of the protocol (RFC 4120, 7.5.9)
/// follow it, then those of the library.
const KERBEROS: i32 = -1_765_328_384;

fn kind(major: Word, minor: Word) -> ErrorKind {
    // Routine errors of RFC 2744.
    const BAD_MESSAGE: Word = 6 << 16;
    const NO_CREDENTIALS: Word = 7 << 16;
    const DEFECTIVE_TOKEN: Word = 9 << 16;
    const EXPIRED: Word = 11 << 16;
    match minor.cast_signed().wrapping_sub(KERBEROS) {
        6 => ErrorKind::ClientUnknown,
        7 => ErrorKind::ServerUnknown,
        1 | 18 => ErrorKind::ClientRevoked,
        24 | 31 => ErrorKind::KeyChanged,
        32 => ErrorKind::TicketExpired,
        37 => ErrorKind::ClockSkew,
        KDC_UNREACHABLE => ErrorKind::KdcUnreachable,
        REALM_UNKNOWN => ErrorKind::RealmUnknown,
        _ => match major & 0x00ff_0000 {
            NO_CREDENTIALS => ErrorKind::NoTicket,
            EXPIRED => ErrorKind::TicketExpired,
            BAD_MESSAGE | DEFECTIVE_TOKEN => ErrorKind::Untrusted,
            _ => ErrorKind::Other,
        },
    }
}

const REALM_UNKNOWN: i32 = 154;
const KDC_UNREACHABLE: i32 = 156;

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0x0007_0000, 0, ErrorKind::NoTicket)]
    #[case(0x0007_0000, KERBEROS + 6, ErrorKind::ClientUnknown)]
    #[case(0x0007_0000, KERBEROS + 18, ErrorKind::ClientRevoked)]
    #[case(0x0007_0000, KERBEROS + 31, ErrorKind::KeyChanged)]
    #[case(0x0007_0000, KERBEROS + KDC_UNREACHABLE, ErrorKind::KdcUnreachable)]
    #[case(0x000d_0000, KERBEROS + REALM_UNKNOWN, ErrorKind::RealmUnknown)]
    #[case(0x000d_0000, KERBEROS + 7, ErrorKind::ServerUnknown)]
    #[case(0x000d_0000, KERBEROS + 37, ErrorKind::ClockSkew)]
    #[case(0x000b_0000, 0, ErrorKind::TicketExpired)]
    #[case(0x0006_0000, 0, ErrorKind::Untrusted)]
    #[case(0x000d_0000, i32::MAX, ErrorKind::Other)]
    fn kind_follows_the_code_of_the_mechanism_first(
        #[case] major: Word,
        #[case] minor: i32,
        #[case] expected: ErrorKind,
    ) {
        assert_eq!(kind(major, minor.cast_unsigned()), expected);
    }

    #[rstest]
    #[case(0x0007_0000, "No credentials were supplied")]
    #[case(0x000b_0000, "expired")]
    #[case(0x0006_0000, "Message Integrity Check")]
    fn status_has_the_text_of_the_library(#[case] major: Word, #[case] text: &str) {
        let error = Error::of_status(Library::get().unwrap(), "cannot test", major, 0);
        assert!(error.to_string().starts_with("cannot test: "), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }

    #[test]
    fn any_status_has_a_text() {
        let library = Library::get().unwrap();
        for status in [1, 0xffff_ffff, 0x00ff_0000, 0x8000_0000] {
            let error = Error::of_status(library, "cannot test", status, status);
            assert!(error.to_string().contains("0x"), "{error}");
        }
    }
}
