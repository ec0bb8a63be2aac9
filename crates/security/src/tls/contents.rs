//! The contents of key stores and trust stores, and why one cannot be used.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::der::Malformed;

/// The contents of a key store or trust store.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The certificates that the store trusts. As in Java, that of a key is among them.
    pub(super) trusted: Vec<CertificateDer<'static>>,
    /// The keys, in the order of the file.
    pub(super) keys: Vec<KeyEntry>,
}

/// A private key and its certificate, with those of its issuers.
#[derive(Debug)]
pub(super) struct KeyEntry {
    pub(super) key: ProtectedKey,
    pub(super) chain: Vec<CertificateDer<'static>>,
}

/// A private key as a store protects it.
pub(super) enum ProtectedKey {
    Plain(PrivateKeyDer<'static>),
    /// Encrypted as in a JKS file.
    Jks(Vec<u8>),
    /// Encrypted as in a PKCS12 file, or a PEM file with a password.
    Pkcs8(Vec<u8>),
}

impl std::fmt::Debug for ProtectedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain(…)",
            Self::Jks(_) => "Jks(…)",
            Self::Pkcs8(_) => "Pkcs8(…)",
        })
    }
}

/// The reason why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreError {
    #[error("it is damaged, or no {0} file")]
    Malformed(&'static str),
    #[error("it is encrypted, and no password is set")]
    NeedsPassword,
    #[error("the password is wrong, or the file is damaged")]
    WrongPassword,
    #[error("{what} can't be read; {instead}")]
    Unsupported {
        what: &'static str,
        instead: &'static str,
    },
}

impl From<Malformed> for StoreError {
    fn from(_: Malformed) -> Self {
        Self::Malformed("PKCS12")
    }
}
