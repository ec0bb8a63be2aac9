//! PEM: certificates and keys as text.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivateSec1KeyDer};

use super::contents::{Contents, KeyEntry, ProtectedKey, StoreError};

const MALFORMED: StoreError = StoreError::Malformed("PEM");

/// Reads a PEM file. If it has a key, its certificates are the chain of that key; otherwise it
/// trusts them.
pub(super) fn read(file: &[u8]) -> Result<Contents, StoreError> {
    let mut rest = std::str::from_utf8(file).map_err(|_| MALFORMED)?;
    let (mut certificates, mut keys) = (Vec::new(), Vec::new());
    while let Some((_, block)) = rest.split_once("-----BEGIN ") {
        let (label, body) = block.split_once("-----").ok_or(MALFORMED)?;
        let (body, after) = body
            .split_once(&format!("-----END {label}-----"))
            .ok_or(MALFORMED)?;
        rest = after;
        if body.contains("Proc-Type:") {
            return Err(StoreError::Unsupported {
                what: "a key that is encrypted in OpenSSL's old form",
                instead: "convert it with openssl pkcs8 -topk8",
            });
        }
        let key = match label {
            "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE" => {
                certificates.push(CertificateDer::from(base64(body)?));
                continue;
            }
            "PRIVATE KEY" => ProtectedKey::Plain(PrivateKeyDer::Pkcs8(base64(body)?.into())),
            "ENCRYPTED PRIVATE KEY" => ProtectedKey::Pkcs8(base64(body)?),
            "EC PRIVATE KEY" => ProtectedKey::Plain(PrivateSec1KeyDer::from(base64(body)?).into()),
            "RSA PRIVATE KEY" => ProtectedKey::Plain(PrivatePkcs1KeyDer::from(base64(body)?).into()),
            // Parameters of curves, requests, revocation lists.
            _ => continue,
        };
        keys.push(key);
    }
    if certificates.is_empty() && keys.is_empty() {
        return Err(MALFORMED);
    }
    let chain = certificates.clone();
    Ok(Contents {
        trusted: certificates,
        keys: keys
            .into_iter()
            .map(|key| KeyEntry {
                key,
                chain: chain.clone(),
            })
            .collect(),
    })
}

fn base64(text: &str) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    let mut digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    for digit in digits.by_ref() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return Err(MALFORMED),
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    if digits.all(|digit| digit == b'=') {
        Ok(bytes)
    } else {
        Err(MALFORMED)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Some(&b""[..]))]
    #[case("Zg==", Some(&b"f"[..]))]
    #[case("Zm8=\n", Some(&b"fo"[..]))]
    #[case(" Zm9v\r\nYmFy ", Some(&b"foobar"[..]))]
    #[case("+/+/", Some(&b"\xfb\xff\xbf"[..]))]
    #[case("Zg=a", None)]
    #[case("Z*", None)]
    fn base64_is_read(#[case] text: &str, #[case] expected: Option<&[u8]>) {
        assert_eq!(base64(text).ok().as_deref(), expected);
    }
}
