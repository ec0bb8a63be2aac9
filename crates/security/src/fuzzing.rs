//! Entry points for the fuzz targets in `fuzz/`; not part of the API.

use bytes::Bytes;
#[cfg(feature = "kerberos")]
pub use hbase_gssapi::fuzzing::{keytab, status as gssapi_status};

#[cfg(feature = "kerberos")]
pub use crate::sasl::fuzzing::{digest_challenge, sasl};
use crate::token_file::{TokenFileFormat, decode_token_file, encode_token_file};

/// A fuzz target.
pub type Target = fn(&[u8]);

/// The targets of this build, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("token_file", token_file),
    #[cfg(feature = "tls")]
    ("key_store", key_store),
    #[cfg(feature = "kerberos")]
    ("sasl", sasl),
    #[cfg(feature = "kerberos")]
    ("digest_challenge", digest_challenge),
    #[cfg(feature = "kerberos")]
    ("gssapi_status", gssapi_status),
    #[cfg(feature = "kerberos")]
    ("keytab", keytab),
];

/// A file of tokens. What is valid is written so that it reads to the same tokens.
pub fn token_file(data: &[u8]) {
    if let Ok(tokens) = decode_token_file(Bytes::copy_from_slice(data)) {
        for format in [TokenFileFormat::Writable, TokenFileFormat::Protobuf] {
            let again = decode_token_file(encode_token_file(&tokens, format));
            assert!(
                again.is_ok_and(|again| again == tokens),
                "not the same when read again"
            );
        }
    }
}

/// A key store or trust store, with a password and without one, which leaves it unchecked.
#[cfg(feature = "tls")]
pub fn key_store(data: &[u8]) {
    for password in ["changeit", ""] {
        crate::tls::read_all(data, password);
    }
}
