//! The types and constants of the C interfaces: GSSAPI (RFC 2744, and MIT's extension for credential
//! stores), and the functions of MIT's krb5.h that query a key distribution centre.

use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
};

/// `OM_uint32`, the type of statuses, flags and times.
pub(crate) type Word = u32;

/// A context, a name or credentials: pointers whose targets only the library knows.
pub(crate) type Handle = *mut c_void;

/// `gss_buffer_desc`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawBuffer {
    pub(crate) length: usize,
    pub(crate) value: *mut c_void,
}

impl RawBuffer {
    pub(crate) const fn empty() -> Self {
        Self {
            length: 0,
            value: ptr::null_mut(),
        }
    }

    /// Describes bytes that the library only reads.
    pub(crate) const fn of(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len(),
            value: bytes.as_ptr().cast_mut().cast(),
        }
    }

    /// Describes bytes that the library may overwrite.
    pub(crate) const fn of_mut(bytes: &mut [u8]) -> Self {
        Self {
            length: bytes.len(),
            value: bytes.as_mut_ptr().cast(),
        }
    }
}

/// `gss_OID_desc`. MIT's `gssapi.h` packs it to two bytes on macOS.
#[cfg_attr(not(target_os = "macos"), repr(C))]
#[cfg_attr(target_os = "macos", repr(C, packed(2)))]
#[derive(Debug)]
pub(crate) struct Oid {
    length: Word,
    elements: *const c_void,
}

impl Oid {
    /// The mechanism: Kerberos 5.
    pub(crate) const fn kerberos() -> Self {
        Self::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
    }

    /// A name of the form `service@host`.
    pub(crate) const fn host_based() -> Self {
        Self::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04")
    }

    /// A name of the form `name/instance@REALM`.
    pub(crate) const fn principal() -> Self {
        Self::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")
    }

    const fn of(bytes: &'static [u8]) -> Self {
        Self {
            length: bytes.len() as Word,
            elements: bytes.as_ptr().cast(),
        }
    }
}

/// `gss_OID_set_desc`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct OidSet {
    pub(crate) count: usize,
    pub(crate) elements: *const Oid,
}

/// `gss_key_value_element_desc`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct KeyValue {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

/// `gss_key_value_set_desc`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct KeyValueSet {
    pub(crate) count: Word,
    pub(crate) elements: *const KeyValue,
}

/// The bits of a status that are errors. The others tell something of a call that succeeded.
pub(crate) const ERRORS: Word = 0xffff_0000;
/// The context needs a token of the server.
pub(crate) const CONTINUE_NEEDED: Word = 1;
/// A message was repeated, is old, or others before it are missing.
pub(crate) const OUT_OF_SEQUENCE: Word = 0x1e;

/// Credentials of a client.
pub(crate) const INITIATE: c_int = 1;
/// As long as the ticket.
pub(crate) const INDEFINITE: Word = Word::MAX;
/// The default algorithms of the key.
pub(crate) const DEFAULT_QOP: Word = 0;

/// The server proves its identity.
pub(crate) const MUTUAL: Word = 2;
/// Repeated messages are detected.
pub(crate) const REPLAY: Word = 4;
/// Missing and reordered messages are detected.
pub(crate) const SEQUENCE: Word = 8;
/// Messages can be encrypted.
pub(crate) const PRIVACY: Word = 16;
/// Messages can be protected against changes.
pub(crate) const INTEGRITY: Word = 32;

/// A status of GSSAPI itself, for `gss_display_status`.
pub(crate) const GSS_STATUS: c_int = 1;
/// A status of the mechanism.
pub(crate) const MECHANISM_STATUS: c_int = 2;

pub(crate) type ImportName =
    unsafe extern "C" fn(*mut Word, *const RawBuffer, *const Oid, *mut Handle) -> Word;
pub(crate) type ReleaseHandle = unsafe extern "C" fn(*mut Word, *mut Handle) -> Word;
pub(crate) type AcquireCred = unsafe extern "C" fn(
    *mut Word,
    Handle,
    Word,
    *const OidSet,
    c_int,
    *mut Handle,
    *mut *mut OidSet,
    *mut Word,
) -> Word;
pub(crate) type AcquireCredFrom = unsafe extern "C" fn(
    *mut Word,
    Handle,
    Word,
    *const OidSet,
    c_int,
    *const KeyValueSet,
    *mut Handle,
    *mut *mut OidSet,
    *mut Word,
) -> Word;
pub(crate) type InquireCred =
    unsafe extern "C" fn(*mut Word, Handle, *mut Handle, *mut Word, *mut c_int, *mut *mut OidSet) -> Word;
pub(crate) type DisplayName =
    unsafe extern "C" fn(*mut Word, Handle, *mut RawBuffer, *mut *const Oid) -> Word;
pub(crate) type InitSecContext = unsafe extern "C" fn(
    *mut Word,
    Handle,
    *mut Handle,
    Handle,
    *const Oid,
    Word,
    Word,
    *const c_void,
    *const RawBuffer,
    *mut *const Oid,
    *mut RawBuffer,
    *mut Word,
    *mut Word,
) -> Word;
pub(crate) type DeleteSecContext = unsafe extern "C" fn(*mut Word, *mut Handle, *mut RawBuffer) -> Word;
pub(crate) type Wrap = unsafe extern "C" fn(
    *mut Word,
    Handle,
    c_int,
    Word,
    *const RawBuffer,
    *mut c_int,
    *mut RawBuffer,
) -> Word;
pub(crate) type Unwrap =
    unsafe extern "C" fn(*mut Word, Handle, *const RawBuffer, *mut RawBuffer, *mut c_int, *mut Word) -> Word;
pub(crate) type WrapSizeLimit = unsafe extern "C" fn(*mut Word, Handle, c_int, Word, Word, *mut Word) -> Word;
pub(crate) type DisplayStatus =
    unsafe extern "C" fn(*mut Word, Word, c_int, *const Oid, *mut Word, *mut RawBuffer) -> Word;
pub(crate) type ReleaseBuffer = unsafe extern "C" fn(*mut Word, *mut RawBuffer) -> Word;

/// `krb5_error_code`.
pub(crate) type Code = i32;

/// The beginning of `krb5_error`: the error that a key distribution centre answered (RFC 4120, 5.9.1).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct KdcError {
    magic: i32,
    client_time: i32,
    client_microseconds: i32,
    pub(crate) microseconds: i32,
    /// Seconds since 1970, without a sign: they last until 2106.
    pub(crate) time: i32,
}

#[cfg(test)]
impl KdcError {
    pub(crate) const fn at(time: i32, microseconds: i32) -> Self {
        Self {
            magic: 0,
            client_time: 0,
            client_microseconds: 0,
            microseconds,
            time,
        }
    }
}

pub(crate) type InitContext = unsafe extern "C" fn(*mut Handle) -> Code;
pub(crate) type FreeContext = unsafe extern "C" fn(Handle);
pub(crate) type ParseName = unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> Code;
/// Frees a principal, a request or an error of this context.
pub(crate) type FreeHandle = unsafe extern "C" fn(Handle, Handle);
pub(crate) type InitRequest =
    unsafe extern "C" fn(Handle, Handle, *const c_void, *mut c_void, i32, *const c_void, *mut Handle) -> Code;
pub(crate) type SetService = unsafe extern "C" fn(Handle, Handle, *const c_char) -> Code;
pub(crate) type GetAnswer = unsafe extern "C" fn(Handle, Handle) -> Code;
pub(crate) type GetError = unsafe extern "C" fn(Handle, Handle, *mut *mut KdcError) -> Code;
pub(crate) type FreeError = unsafe extern "C" fn(Handle, *mut KdcError);
pub(crate) type GetMessage = unsafe extern "C" fn(Handle, Code) -> *const c_char;
pub(crate) type FreeMessage = unsafe extern "C" fn(Handle, *const c_char);
