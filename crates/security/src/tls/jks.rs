//! JKS, Java's own format of key stores. `sun.security.provider.JavaKeyStore` and `KeyProtector`
//! define it.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;

use super::{
    contents::{Contents, KeyEntry, ProtectedKey, StoreError},
    der::{Der, Malformed, OCTET_STRING, OID},
};

pub(super) const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];

const KEY: u32 = 1;
const CERTIFICATE: u32 = 2;
const SHA1_LENGTH: usize = 20;
/// Java hashes these words with the file.
const WHITENER: &[u8] = b"Mighty Aphrodite";
/// 1.3.6.1.4.1.42.2.17.1.1, the protection of keys.
const PROTECTOR: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];

const MALFORMED: StoreError = StoreError::Malformed("JKS");

/// Reads a JKS file. As in Java, an empty password leaves its integrity unchecked.
pub(super) fn read(file: &[u8], password: &str) -> Result<Contents, StoreError> {
    let length = file.len().checked_sub(SHA1_LENGTH).ok_or(MALFORMED)?;
    let (data, digest) = file.split_at(length);
    if !password.is_empty() {
        let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        hash.update(&utf16(password));
        hash.update(WHITENER);
        hash.update(data);
        if hash.finish().as_ref() != digest {
            return Err(StoreError::WrongPassword);
        }
    }
    let mut input = Input(data);
    if input.take(4)? != MAGIC {
        return Err(MALFORMED);
    }
    let version = input.u32()?;
    if !(1..=2).contains(&version) {
        return Err(MALFORMED);
    }
    let mut contents = Contents::default();
    for _ in 0..input.u32()? {
        let kind = input.u32()?;
        input.text()?; // alias
        input.take(8)?; // date of creation
        match kind {
            KEY => {
                let key = input.block()?.to_vec();
                let mut chain = Vec::new();
                for _ in 0..input.u32()? {
                    chain.push(input.certificate(version)?);
                }
                contents.trusted.extend(chain.first().cloned());
                contents.keys.push(KeyEntry {
                    key: ProtectedKey::Jks(key),
                    chain,
                });
            }
            CERTIFICATE => contents.trusted.push(input.certificate(version)?),
            _ => return Err(MALFORMED),
        }
    }
    match input.0 {
        [] => Ok(contents),
        _ => Err(MALFORMED),
    }
}

/// Decrypts a key of a JKS file. The result is PKCS8.
pub(super) fn decrypt_key(protected: &[u8], password: &str) -> Result<Vec<u8>, StoreError> {
    let sealed = sealed_key(protected).map_err(|_| MALFORMED)?;
    let length = sealed.len().checked_sub(2 * SHA1_LENGTH).ok_or(MALFORMED)?;
    let (salt, rest) = sealed.split_at(SHA1_LENGTH);
    let (encrypted, check) = rest.split_at(length);
    let password = utf16(password);
    let hash = |parts: [&[u8]; 2]| {
        let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        parts.iter().for_each(|part| hash.update(part));
        hash.finish()
    };
    let mut key = Vec::with_capacity(length);
    let mut stream = salt.to_vec();
    for block in encrypted.chunks(SHA1_LENGTH) {
        stream = hash([&password, &stream]).as_ref().to_vec();
        key.extend(block.iter().zip(&stream).map(|(byte, mask)| byte ^ mask));
    }
    if hash([&password, &key]).as_ref() == check {
        Ok(key)
    } else {
        Err(StoreError::WrongPassword)
    }
}

/// Returns salt, key and check of a protected key.
fn sealed_key(protected: &[u8]) -> Result<&[u8], Malformed> {
    let mut info = Der::new(protected).sequence()?;
    match info.sequence()?.read(OID)? {
        PROTECTOR => info.read(OCTET_STRING),
        _ => Err(Malformed),
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], StoreError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(MALFORMED)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, StoreError> {
        let bytes = self.take(4)?;
        Ok(bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn text(&mut self) -> Result<&'a [u8], StoreError> {
        let length = self.take(2)?;
        self.take(usize::from(length[0]) << 8 | usize::from(length[1]))
    }

    fn block(&mut self) -> Result<&'a [u8], StoreError> {
        let length = self.u32()?;
        self.take(usize::try_from(length).map_err(|_| MALFORMED)?)
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, StoreError> {
        if version == 2 && self.text()? != b"X.509" {
            return Err(MALFORMED);
        }
        Ok(CertificateDer::from(self.block()?.to_vec()))
    }
}
