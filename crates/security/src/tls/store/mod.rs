//! Key stores and trust stores in files, of any format.

use std::{fs::File, io::Read as _};

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::CertifiedKey,
};

use super::{
    certificate::Certificate,
    contents::{Contents, KeyEntry, ProtectedKey, StoreError},
    jks, pbe, pem, pkcs12,
};
use crate::{tls_failure::TlsFailure, tls_options::TlsStore};

/// The maximum size of a store. Java's own trust store has 0.2 MB.
const MAX_SIZE: u64 = 4 << 20;
/// JCEKS, a format of Java for secrets.
const JCEKS_MAGIC: [u8; 4] = [0xce; 4];
const DER_SEQUENCE: u8 = 0x30;

/// Reads a store. Its first bytes determine its format, because PKCS12 files named `.jks` are
/// common.
pub(super) fn parse(file: &[u8], password: &str) -> Result<Contents, StoreError> {
    match file {
        _ if file.starts_with(&jks::MAGIC) => jks::read(file, password),
        _ if file.starts_with(&JCEKS_MAGIC) => Err(unsupported("a JCEKS file")),
        _ if pkcs12::is_pkcs12(file) => pkcs12::read(file, password),
        [DER_SEQUENCE, ..] => Err(unsupported("a BCFKS file, or other DER that is no PKCS12,")),
        _ => pem::read(file),
    }
}

fn unsupported(what: &'static str) -> StoreError {
    StoreError::Unsupported {
        what,
        instead: "convert it with keytool -importkeystore -deststoretype PKCS12",
    }
}

/// Reads the certificates of a trust store.
pub(super) fn trusted(store: &TlsStore) -> Result<Vec<CertificateDer<'static>>, TlsFailure> {
    let what = "trust store";
    let contents = read(what, store)?;
    if contents.trusted.is_empty() {
        Err(TlsFailure::config(format!(
            "{what} {}: it has no trusted certificate",
            store.path.display()
        ))
        .with_hint(
            "create it with keytool -importcert; Java trusts no certificate of a PKCS12 file that \
             openssl pkcs12 -export -nokeys has written",
        ))
    } else {
        Ok(contents.trusted)
    }
}

/// Reads the first key of a key store, and its certificates.
pub(super) fn key(store: &TlsStore, provider: &CryptoProvider) -> Result<CertifiedKey, TlsFailure> {
    let what = "key store";
    let broken =
        |why: &dyn std::fmt::Display| TlsFailure::config(format!("{what} {}: {why}", store.path.display()));
    let contents = read(what, store)?;
    let Some(entry) = contents.keys.into_iter().next() else {
        return Err(broken(&"it has no private key"));
    };
    let Some(leaf) = entry.chain.first() else {
        return Err(broken(&"it has no certificate of its key"));
    };
    let key = decrypted(&entry, &store.password).map_err(|error| broken(&error))?;
    let key = completed(key, leaf);
    CertifiedKey::from_der(entry.chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => broken(&"its first certificate is not that of its key"),
        error => broken(&error),
    })
}

fn read(what: &str, store: &TlsStore) -> Result<Contents, TlsFailure> {
    let path = store.path.display();
    let failed = |why: &dyn std::fmt::Display| TlsFailure::config(format!("{what} {path}: {why}"));
    let mut file = Vec::new();
    // A file that is not a regular file may be endless, or block until a writer opens it.
    match std::fs::metadata(&store.path) {
        Ok(metadata) if !metadata.is_file() => return Err(failed(&"it is no plain file")),
        Ok(metadata) if metadata.len() > MAX_SIZE => {
            return Err(failed(&format_args!("it has more than {MAX_SIZE} bytes")));
        }
        Ok(_) => {}
        Err(error) => return Err(failed(&error)),
    }
    File::open(&store.path)
        .and_then(|opened| opened.take(MAX_SIZE).read_to_end(&mut file))
        .map_err(|error| failed(&error))?;
    parse(&file, &store.password).map_err(|error| failed(&error))
}

fn decrypted(entry: &KeyEntry, password: &str) -> Result<PrivateKeyDer<'static>, StoreError> {
    let pkcs8 = match &entry.key {
        ProtectedKey::Plain(key) => return Ok(key.clone_key()),
        ProtectedKey::Jks(protected) => jks::decrypt_key(protected, password)?,
        ProtectedKey::Pkcs8(encrypted) => pbe::decrypt_key(encrypted, password)?,
    };
    Ok(PrivateKeyDer::Pkcs8(pkcs8.into()))
}

/// Adds the public key to a key of Java that lacks it. A key that cannot be read is refused later.
fn completed(key: PrivateKeyDer<'static>, leaf: &CertificateDer<'_>) -> PrivateKeyDer<'static> {
    let PrivateKeyDer::Pkcs8(pkcs8) = &key else {
        return key;
    };
    let completed = Certificate::read(leaf)
        .and_then(|leaf| leaf.complete_ec_key(pkcs8.secret_pkcs8_der()))
        .ok()
        .flatten();
    completed.map_or(key, |pkcs8| PrivateKeyDer::Pkcs8(pkcs8.into()))
}

/// Reads a store and all its keys, as far as they are valid.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_all(file: &[u8], password: &str) {
    for entry in parse(file, password).unwrap_or_default().keys {
        if let (Ok(key), Some(leaf)) = (decrypted(&entry, password), entry.chain.first()) {
            completed(key, leaf);
        }
    }
}

#[cfg(test)]
mod tests;
