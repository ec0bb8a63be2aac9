//! PKCS12 (RFC 7292), in the DER that keytool and OpenSSL write.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{
    certificate::Certificate,
    contents::{Contents, KeyEntry, ProtectedKey, StoreError},
    der::{Der, Malformed, OCTET_STRING, OID, SEQUENCE, SET, context},
    pbe,
};

// Object identifiers, by their bytes.
const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
const KEY_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x01];
const ENCRYPTED_KEY_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x02];
const CERTIFICATE_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x03];
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x15];
/// Java marks the certificates that a store trusts. 2.16.840.1.113894.746875.1.1.
const TRUSTED: &[u8] = &[
    0x60, 0x86, 0x48, 0x01, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 0x01, 0x01,
];

const VERSION: u32 = 3;
/// The maximum number of certificates from that of a key to the last issuer.
const MAX_CHAIN: usize = 10;
/// The `[0]` that contains encrypted bytes.
const ENCRYPTED_CONTENT: u8 = 0x80;

/// Whether a file is PKCS12: a sequence that begins with version 3.
pub(super) fn is_pkcs12(file: &[u8]) -> bool {
    let version = Der::new(file).sequence().and_then(|mut pfx| pfx.number());
    version == Ok(VERSION)
}

/// A certificate in a file, and whether the file trusts it, or for which key it is.
struct Bagged {
    certificate: CertificateDer<'static>,
    is_trusted: bool,
    key_id: Option<Vec<u8>>,
}

#[derive(Default)]
struct Bags {
    certificates: Vec<Bagged>,
    keys: Vec<(ProtectedKey, Option<Vec<u8>>)>,
}

/// Reads a PKCS12 file. As in Java, an empty password leaves its integrity unchecked.
pub(super) fn read(file: &[u8], password: &str) -> Result<Contents, StoreError> {
    let mut pfx = Der::new(file).sequence()?;
    if pfx.number()? != VERSION {
        return Err(Malformed.into());
    }
    let mut safe = pfx.sequence()?;
    if safe.read(OID)? != DATA {
        return Err(StoreError::Unsupported {
            what: "a signed PKCS12 file",
            instead: "create one with a password",
        });
    }
    let data = safe.enter(context(0))?.read(OCTET_STRING)?;
    if let Some(mac) = pfx.optional(SEQUENCE)?
        && !password.is_empty()
    {
        pbe::check_integrity(Der::new(mac), data, password)?;
    }
    let mut parts = Der::new(data).sequence()?;
    let mut bags = Bags::default();
    while !parts.is_empty() {
        let mut part = parts.sequence()?;
        let kind = part.read(OID)?;
        let mut content = part.enter(context(0))?;
        match kind {
            DATA => bags.add(content.read(OCTET_STRING)?)?,
            ENCRYPTED_DATA => {
                let mut encrypted = content.sequence()?;
                encrypted.number()?; // version
                let mut encrypted = encrypted.sequence()?;
                encrypted.read(OID)?; // the kind of the content, which is data
                let algorithm = encrypted.sequence()?;
                let bytes = encrypted.read(ENCRYPTED_CONTENT)?;
                bags.add(&pbe::decrypt(algorithm, bytes, password)?)?;
            }
            _ => return Err(Malformed.into()),
        }
    }
    Ok(bags.into_contents())
}

impl Bags {
    fn add(&mut self, contents: &[u8]) -> Result<(), Malformed> {
        let mut bags = Der::new(contents).sequence()?;
        while !bags.is_empty() {
            let mut bag = bags.sequence()?;
            let kind = bag.read(OID)?;
            let mut value = bag.enter(context(0))?;
            let (mut key_id, mut is_trusted) = (None, false);
            let mut attributes = Der::new(bag.optional(SET)?.unwrap_or_default());
            while !attributes.is_empty() {
                let mut attribute = attributes.sequence()?;
                match attribute.read(OID)? {
                    LOCAL_KEY_ID => key_id = Some(attribute.enter(SET)?.read(OCTET_STRING)?.to_vec()),
                    TRUSTED => is_trusted = true,
                    _ => {}
                }
            }
            match kind {
                KEY_BAG => {
                    let key = PrivateKeyDer::Pkcs8(value.whole()?.to_vec().into());
                    self.keys.push((ProtectedKey::Plain(key), key_id));
                }
                ENCRYPTED_KEY_BAG => {
                    let key = value.whole()?.to_vec();
                    self.keys.push((ProtectedKey::Pkcs8(key), key_id));
                }
                CERTIFICATE_BAG => {
                    let mut bag = value.sequence()?;
                    if bag.read(OID)? == X509 {
                        let certificate = bag.enter(context(0))?.read(OCTET_STRING)?;
                        self.certificates.push(Bagged {
                            certificate: CertificateDer::from(certificate.to_vec()),
                            is_trusted,
                            key_id,
                        });
                    }
                }
                // Revocation lists, secrets, and bags within bags, which neither tool writes.
                _ => {}
            }
        }
        Ok(())
    }

    fn into_contents(self) -> Contents {
        let Self { certificates, keys } = self;
        let trusted = certificates.iter().filter(|bagged| bagged.is_trusted);
        let mut contents = Contents {
            trusted: trusted.map(|bagged| bagged.certificate.clone()).collect(),
            keys: Vec::new(),
        };
        for (key, key_id) in keys {
            let of_key = |bagged: &&Bagged| key_id.is_some() && bagged.key_id == key_id;
            let chain = certificates.iter().find(of_key).map_or_else(Vec::new, |leaf| {
                let mut chain = vec![leaf.certificate.clone()];
                while let Some(issuer) = chain.last().and_then(|last| issuer(last, &certificates))
                    && chain.len() < MAX_CHAIN
                    && !chain.contains(issuer)
                {
                    chain.push(issuer.clone());
                }
                chain
            });
            contents.trusted.extend(chain.first().cloned());
            contents.keys.push(KeyEntry { key, chain });
        }
        contents
    }
}

/// Returns the certificate of the issuer of another one.
fn issuer<'a>(certificate: &CertificateDer<'_>, all: &'a [Bagged]) -> Option<&'a CertificateDer<'static>> {
    let issuer = Certificate::read(certificate).ok()?.issuer;
    all.iter()
        .map(|bagged| &bagged.certificate)
        .find(|other| Certificate::read(other).is_ok_and(|other| other.subject == issuer))
}
