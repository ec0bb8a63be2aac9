//! The time of a key distribution centre (KDC).
//!
//! A KDC reports its time in each error (RFC 4120, 5.9.1). So it gets a request that every KDC answers with
//! an error: for a ticket for a server that cannot exist. To a request for a usual ticket, many KDCs
//! answer with the ticket, in which only the owner of the key finds a time.
//!
//! The request has the name of the client and no proof of its identity: there is no failed login for
//! which an account could be locked. The KDC logs that the server was not found.

use std::{
    ffi::{CStr, CString, c_void},
    ptr,
    time::{Duration, SystemTime},
};

use crate::{
    credentials::Credentials,
    error::{Error, ErrorKind},
    library::{Kerberos, Library},
    status,
    sys::{Code, Handle, KdcError},
};

/// The server that the ticket is for. No host has a name that ends in `.invalid` (RFC 6761).
const NO_SERVER: &CStr = c"hbase-txn/clock.invalid";

const WHAT: &str = "cannot get the time of the key distribution centre";

/// The time of a key distribution centre (KDC) when it answered, to the second.
///
/// MIT's KDC reports the fraction of its first answer in each second, and Apache Kerby reports none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KdcTime {
    /// The time that it reported.
    pub earliest: SystemTime,
    /// The end of that second.
    pub latest: SystemTime,
}

impl KdcTime {
    /// Asks a KDC of the client's realm for its time. Sends no proof of the client's identity.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::TimeUnknown`] if the library is not MIT's. Returns an error if the library
    /// is missing, there is neither a ticket nor a keytab, or no KDC answers.
    pub fn ask(credentials: &Credentials) -> Result<Self, Error> {
        let library = Library::get()?;
        let Some(functions) = &library.kerberos else {
            let why = "the Kerberos library is not MIT's";
            return Err(Error::new(ErrorKind::TimeUnknown, WHAT, why));
        };
        let principal = credentials.principal(library)?;
        Request::of(Session::start(functions)?, &principal)?.time_of_error()
    }

    /// Returns the time in an error.
    fn of(error: &KdcError) -> Self {
        let seconds = Duration::from_secs(error.time.cast_unsigned().into());
        let second = SystemTime::UNIX_EPOCH + seconds;
        let microseconds = error.microseconds.clamp(0, 999_999).cast_unsigned();
        Self {
            earliest: second + Duration::from_micros(microseconds.into()),
            latest: second + Duration::from_secs(1),
        }
    }
}

/// A context of the library.
struct Session {
    functions: &'static Kerberos,
    handle: Handle,
}

impl Session {
    fn start(functions: &'static Kerberos) -> Result<Self, Error> {
        let mut session = Self {
            functions,
            handle: ptr::null_mut(),
        };
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (functions.krb5_init_context)(&raw mut session.handle) };
        session.checked(code)?;
        Ok(session)
    }

    fn checked(&self, code: Code) -> Result<(), Error> {
        match code {
            0 => Ok(()),
            _ => Err(Error::new(
                status::kind(0, code.cast_unsigned()),
                WHAT,
                self.text(code),
            )),
        }
    }

    /// Returns the library's text of a code.
    fn text(&self, code: Code) -> String {
        // SAFETY: the library accepts a context that is null, and any code.
        let message = unsafe { (self.functions.krb5_get_error_message)(self.handle, code) };
        if message.is_null() {
            return format!("code {code}");
        }
        // SAFETY: the library has set the pointer to a text that it frees only below.
        let text = unsafe { CStr::from_ptr(message) };
        let text = format!("{} ({code})", text.to_string_lossy());
        // SAFETY: the text is of this context, and nothing refers to it any more.
        unsafe { (self.functions.krb5_free_error_message)(self.handle, message) };
        text
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the handle is null or was set by the library, and nothing uses it any more.
        unsafe { (self.functions.krb5_free_context)(self.handle) };
    }
}

/// A request for a ticket, which no KDC grants.
struct Request {
    session: Session,
    client: Handle,
    handle: Handle,
}

impl Request {
    fn of(session: Session, principal: &str) -> Result<Self, Error> {
        let mut request = Self {
            session,
            client: ptr::null_mut(),
            handle: ptr::null_mut(),
        };
        let functions = request.session.functions;
        let principal =
            CString::new(principal).map_err(|error| Error::new(ErrorKind::Other, WHAT, error.to_string()))?;
        // SAFETY: all pointers are valid for the call, which only reads the text.
        let code = unsafe {
            (functions.krb5_parse_name)(
                request.session.handle,
                principal.as_ptr(),
                &raw mut request.client,
            )
        };
        request.session.checked(code)?;
        let (prompter, prompter_data, options) = (ptr::null(), ptr::null_mut(), ptr::null::<c_void>());
        // SAFETY: all pointers are valid for the call, or null: without a prompter and without options
        // the library has no key, and requests none. The library copies the principal.
        let code = unsafe {
            (functions.krb5_init_creds_init)(
                request.session.handle,
                request.client,
                prompter,
                prompter_data,
                0,
                options,
                &raw mut request.handle,
            )
        };
        request.session.checked(code)?;
        // SAFETY: all pointers are valid for the call, which only reads the text.
        let code = unsafe {
            (functions.krb5_init_creds_set_service)(
                request.session.handle,
                request.handle,
                NO_SERVER.as_ptr(),
            )
        };
        request.session.checked(code)?;
        Ok(request)
    }

    /// Sends the request. Returns the time in the error that the KDC answers.
    fn time_of_error(&self) -> Result<KdcTime, Error> {
        let functions = self.session.functions;
        // SAFETY: both handles are of the library, and this thread alone has them.
        let sent = unsafe { (functions.krb5_init_creds_get)(self.session.handle, self.handle) };
        let mut error = ptr::null_mut();
        // SAFETY: all pointers are valid for the call.
        let code = unsafe {
            (functions.krb5_init_creds_get_error)(self.session.handle, self.handle, &raw mut error)
        };
        self.session.checked(code)?;
        if error.is_null() {
            // There was no answer, or it was no error.
            self.session.checked(sent)?;
            return Err(Error::new(ErrorKind::Other, WHAT, "it did not report its time"));
        }
        // SAFETY: the library has set the pointer to an error, which it frees only below.
        let time = KdcTime::of(unsafe { &*error });
        // SAFETY: the error is of this context, and nothing refers to it any more.
        unsafe { (functions.krb5_free_error)(self.session.handle, error) };
        Ok(time)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let functions = self.session.functions;
        // SAFETY: the handle is null or was set by the library, and nothing uses it any more.
        unsafe { (functions.krb5_init_creds_free)(self.session.handle, self.handle) };
        // SAFETY: as above.
        unsafe { (functions.krb5_free_principal)(self.session.handle, self.client) };
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::Keytab;

    fn refused(principal: &str) -> Error {
        let keytab = Keytab::new("/no/such/keytab", principal);
        KdcTime::ask(&Credentials::Keytab(keytab)).unwrap_err()
    }

    #[rstest]
    #[case(1_800_000_000, 250_000, 1_800_000_000_250_000, 1_800_000_001)]
    #[case(1_800_000_000, 0, 1_800_000_000_000_000, 1_800_000_001)]
    #[case(-1, -1, 4_294_967_295_000_000, 4_294_967_296)]
    #[case(7, i32::MAX, 7_999_999, 8)]
    fn time_lasts_to_the_end_of_its_second(
        #[case] time: i32,
        #[case] microseconds: i32,
        #[case] earliest: u64,
        #[case] latest: u64,
    ) {
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let time = KdcTime::of(&KdcError::at(time, microseconds));
        assert_eq!(since(time.earliest), Duration::from_micros(earliest));
        assert_eq!(since(time.latest), Duration::from_secs(latest));
    }

    /// No KDC is reached, and no file is read.
    #[test]
    fn failure_of_the_library_has_its_text() {
        let error = refused("alice@");
        assert!(error.to_string().contains(WHAT), "{error}");
        assert!(error.to_string().contains("invalid realm name"), "{error}");
        let error = refused("alice@one@two");
        assert!(error.to_string().contains("Malformed"), "{error}");
        let error = refused("alice\0@R.TEST");
        assert!(error.to_string().contains("nul"), "{error}");
    }

    #[test]
    fn cache_without_ticket_has_no_principal_to_ask_for() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("FILE:{}", folder.path().join("none").display());
        let error = KdcTime::ask(&Credentials::Cache(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoTicket, "{error}");
    }
}
