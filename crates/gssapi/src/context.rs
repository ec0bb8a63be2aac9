//! An authenticated exchange with one server.

use std::{fmt, ptr};

use crate::{
    buffer::Buffer,
    credentials::{Credential, Credentials, Name},
    error::{Error, ErrorKind},
    library::Library,
    sys::{
        CONTINUE_NEEDED, DEFAULT_QOP, ERRORS, Handle, INTEGRITY, MUTUAL, OUT_OF_SEQUENCE, Oid, PRIVACY,
        REPLAY, RawBuffer, SEQUENCE, Word,
    },
};

/// What the context must have. The ticket of the user is not among it: a server must not act as the
/// user elsewhere.
const FLAGS: Word = MUTUAL | REPLAY | SEQUENCE | PRIVACY | INTEGRITY;

/// The principal of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// `service@host`. The library determines the host's full name and its realm, as `krb5.conf`
    /// says.
    HostBased(String),
    /// `service/host@REALM`, used as it is.
    Principal(String),
}

impl Service {
    /// Creates the principal of a service on a host.
    #[must_use]
    pub fn host_based(service: &str, host: &str) -> Self {
        Self::HostBased(format!("{service}@{host}"))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostBased(name) | Self::Principal(name) => f.write_str(name),
        }
    }
}

/// An authenticated exchange with one server.
pub struct Context {
    library: &'static Library,
    handle: Handle,
    service: Name,
    credential: Credential,
    is_established: bool,
}

// SAFETY: only this value has the handle, and its methods take it exclusively. The library binds no
// context to a thread.
unsafe impl Send for Context {}

/// The contents of a message.
#[derive(Debug)]
pub struct Unwrapped {
    /// The contents.
    pub contents: Buffer,
    /// Whether the message was encrypted.
    pub is_private: bool,
}

impl Context {
    /// Gets a ticket for a server, and returns the context with the first token for the server.
    ///
    /// # Errors
    ///
    /// Returns an error if the library is missing, there is no ticket, or the key distribution
    /// centre does not answer or refuses the client or the server.
    pub fn initiate(credentials: &Credentials, service: &Service) -> Result<(Self, Buffer), Error> {
        let library = Library::get()?;
        let service = match service {
            Service::HostBased(name) => Name::import(library, name, Oid::host_based())?,
            Service::Principal(name) => Name::import(library, name, Oid::principal())?,
        };
        credentials.with(library, |credential| {
            let mut context = Self {
                library,
                handle: ptr::null_mut(),
                service,
                credential,
                is_established: false,
            };
            let token = context.step(&mut [])?;
            Ok((context, token))
        })
    }

    /// Returns whether both sides are authenticated.
    #[must_use]
    pub const fn is_established(&self) -> bool {
        self.is_established
    }

    /// Reads a token of the server, and returns the next one. An empty one need not be sent if the
    /// context [is established](Self::is_established). May overwrite the token that it reads.
    ///
    /// # Errors
    ///
    /// Returns an error if the token is invalid, or the server does not support what the context
    /// requires.
    pub fn step(&mut self, token: &mut [u8]) -> Result<Buffer, Error> {
        const WHAT: &str = "cannot authenticate";
        let input = RawBuffer::of_mut(token);
        let mut output = Buffer::new(self.library);
        let mechanism = Oid::kerberos();
        let (mut minor, mut flags) = (0, 0);
        // SAFETY: all pointers are valid for the call, the output is empty, and the token is
        // exclusively borrowed. There are no channel bindings; the outputs that are null are not written.
        let major = unsafe {
            (self.library.gss_init_sec_context)(
                &raw mut minor,
                self.credential.handle(),
                &raw mut self.handle,
                self.service.handle(),
                &raw const mechanism,
                FLAGS,
                0,
                ptr::null(),
                &raw const input,
                ptr::null_mut(),
                output.output(),
                &raw mut flags,
                ptr::null_mut(),
            )
        };
        if major & ERRORS != 0 {
            return Err(Error::of_status(self.library, WHAT, major, minor));
        }
        if major & CONTINUE_NEEDED == 0 {
            if flags & FLAGS != FLAGS {
                return Err(Error::new(
                    ErrorKind::Untrusted,
                    WHAT,
                    format!("the context has the flags 0x{flags:x} and needs 0x{FLAGS:x}"),
                ));
            }
            self.is_established = true;
        }
        Ok(output)
    }

    /// Protects a message: against changes, and if it is to be private against reading too.
    ///
    /// # Errors
    ///
    /// Returns an error if the context is not established or has expired.
    pub fn wrap(&mut self, message: &[u8], is_private: bool) -> Result<Buffer, Error> {
        const WHAT: &str = "cannot protect a message";
        let input = RawBuffer::of(message);
        let mut output = Buffer::new(self.library);
        let (mut minor, mut state) = (0, 0);
        // SAFETY: all pointers are valid for the call, the output is empty, and the library only
        // reads the message.
        let major = unsafe {
            (self.library.gss_wrap)(
                &raw mut minor,
                self.handle,
                i32::from(is_private),
                DEFAULT_QOP,
                &raw const input,
                &raw mut state,
                output.output(),
            )
        };
        if major & ERRORS != 0 {
            return Err(Error::of_status(self.library, WHAT, major, minor));
        }
        if is_private && state == 0 {
            return Err(Error::new(
                ErrorKind::Untrusted,
                WHAT,
                "it would not be encrypted",
            ));
        }
        Ok(output)
    }

    /// Checks a message of the server, and returns its contents. The library decrypts in place, so
    /// the message is overwritten.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Untrusted`] if the message was altered or repeated, or others before it are
    /// missing.
    pub fn unwrap(&mut self, message: &mut [u8]) -> Result<Unwrapped, Error> {
        const WHAT: &str = "cannot accept a message";
        let input = RawBuffer::of_mut(message);
        let mut contents = Buffer::new(self.library);
        let (mut minor, mut state) = (0, 0);
        // SAFETY: all pointers are valid for the call, the output is empty, and the message is
        // exclusively borrowed: MIT's library writes into it.
        let major = unsafe {
            (self.library.gss_unwrap)(
                &raw mut minor,
                self.handle,
                &raw const input,
                contents.output(),
                &raw mut state,
                ptr::null_mut(),
            )
        };
        if major & ERRORS != 0 {
            return Err(Error::of_status(self.library, WHAT, major, minor));
        }
        if major & OUT_OF_SEQUENCE != 0 {
            let why = format!("it was repeated, or others before it are missing (0x{major:08x})");
            return Err(Error::new(ErrorKind::Untrusted, WHAT, why));
        }
        Ok(Unwrapped {
            contents,
            is_private: state != 0,
        })
    }

    /// Returns the maximum size of a message that has at most this size once it is protected.
    ///
    /// # Errors
    ///
    /// Returns an error if the context is not established or has expired.
    pub fn wrap_size_limit(&mut self, is_private: bool, size: u32) -> Result<u32, Error> {
        let (mut minor, mut limit) = (0, 0);
        // SAFETY: all pointers are valid for the call.
        let major = unsafe {
            (self.library.gss_wrap_size_limit)(
                &raw mut minor,
                self.handle,
                i32::from(is_private),
                DEFAULT_QOP,
                size,
                &raw mut limit,
            )
        };
        match major & ERRORS {
            0 => Ok(limit),
            _ => Err(Error::of_status(
                self.library,
                "cannot protect messages",
                major,
                minor,
            )),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the handle is null or was set by the library, and nothing uses it any more. No
        // token for the server is wanted.
        unsafe {
            (self.library.gss_delete_sec_context)(&raw mut minor, &raw mut self.handle, ptr::null_mut())
        };
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("is_established", &self.is_established)
            .finish_non_exhaustive()
    }
}
