//! The statuses of calls, and the library's texts of them.

use crate::{
    buffer::Buffer,
    error::{Error, ErrorKind},
    library::Library,
    sys::{GSS_STATUS, MECHANISM_STATUS, Oid, Word},
};

impl Error {
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
        let text = if minor_text.is_empty() {
            major_text
        } else {
            minor_text
        };
        let why = format!("{text} (0x{major:08x}, {})", minor.cast_signed());
        Self::new(kind(major, minor), what, why)
    }
}

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

/// Returns the kind of the failure of a call that returned these statuses.
pub(crate) fn kind(major: Word, minor: Word) -> ErrorKind {
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
