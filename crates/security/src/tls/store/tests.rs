use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rstest::rstest;
use rustls::crypto::ring;

use super::*;
use crate::tls::der::{Der, INTEGER, SEQUENCE, element};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("REPOSITORY"))
        .join("crates/security/src/tls/fixtures")
        .join(name)
}

fn store(name: &str, password: &str) -> TlsStore {
    TlsStore::new(fixture(name), password)
}

fn key_of(name: &str, password: &str) -> Result<CertifiedKey, TlsFailure> {
    key(&store(name, password), &ring::default_provider())
}

#[rstest]
#[case::keytool_17("keytool.p12")]
#[case::keytool_8("keytool-legacy.p12")]
#[case::keytool_without_protection("keytool-plain.p12")]
#[case::jks("keytool.jks")]
#[case::openssl_3("openssl.p12")]
#[case::openssl_1("openssl-legacy.p12")]
#[case::pkcs8("java.pem")]
#[case::pkcs8_aes("java-encrypted.pem")]
#[case::pkcs8_3des("pkcs8-3des.pem")]
#[case::sec1("sec1.pem")]
#[case::rsa_pkcs12("rsa.p12")]
#[case::rsa_jks("rsa.jks")]
fn keys_of_all_tools_are_read(#[case] name: &str) {
    let key = key_of(name, "changeit").unwrap();
    assert!(key.cert.len() >= 2, "the certificate, and that of its issuer");
    key.keys_match().unwrap();
    let all = trusted(&store(name, "changeit")).unwrap();
    assert!(all.contains(&key.cert[0]), "Java trusts the certificate of a key");
}

#[rstest]
#[case("trust.p12")]
#[case("trust.jks")]
#[case("ca.pem")]
fn trust_stores_have_the_same_certificate(#[case] name: &str) {
    let pem = pem::read(&std::fs::read(fixture("ca.pem")).unwrap()).unwrap();
    assert_eq!(trusted(&store(name, "changeit")).unwrap(), pem.trusted);
}

#[rstest]
#[case("keytool.p12", "not-this", "the password is wrong")]
#[case("keytool-legacy.p12", "not-this", "the password is wrong")]
#[case("keytool.jks", "not-this", "the password is wrong")]
#[case("java-encrypted.pem", "not-this", "the password is wrong")]
#[case("keytool.p12", "", "no password is set")]
#[case("java-encrypted.pem", "", "no password is set")]
#[case("keytool.jks", "", "the password is wrong")]
#[case("trust.jks", "changeit", "no private key")]
#[case("ca.pem", "", "no private key")]
#[case("keytool.jceks", "changeit", "a JCEKS file can't be read; convert it")]
#[case("old-encryption.pem", "changeit", "openssl pkcs8 -topk8")]
#[case("absent.p12", "changeit", "No such file")]
#[case("", "changeit", "no plain file")]
fn unusable_key_stores_are_named_with_the_cause(
    #[case] name: &str,
    #[case] password: &str,
    #[case] cause: &str,
) {
    let error = key_of(name, password).unwrap_err().to_string();
    assert!(error.starts_with("key store ") && error.contains(name), "{error}");
    assert!(error.contains(cause), "{error}");
    assert!(password.is_empty() || !error.contains(password), "{error}");
}

#[test]
fn trust_store_without_trusted_certificates_is_refused() {
    let error = trusted(&store("nokeys.p12", "changeit")).unwrap_err();
    assert!(error.what.contains("no trusted certificate"), "{error}");
    assert!(error.hint.contains("-nokeys"), "{}", error.hint);
}

#[test]
fn other_der_is_named_as_such() {
    let der = element(SEQUENCE, &[&element(SEQUENCE, &[&element(INTEGER, &[&[1]])])]);
    let error = parse(&der, "x").unwrap_err().to_string();
    assert!(error.contains("BCFKS"), "{error}");
}

#[test]
fn keys_of_java_lack_their_public_key() {
    // Otherwise the tests above prove nothing.
    let file = std::fs::read(fixture("keytool.jks")).unwrap();
    let entry = &parse(&file, "changeit").unwrap().keys[0];
    let PrivateKeyDer::Pkcs8(key) = decrypted(entry, "changeit").unwrap() else {
        panic!("it is PKCS8");
    };
    let refused = ring::default_provider()
        .key_provider
        .load_private_key(key.clone_key().into());
    assert!(refused.is_err());
    let leaf = Certificate::read(&entry.chain[0]).unwrap();
    let completed = leaf.complete_ec_key(key.secret_pkcs8_der()).unwrap().unwrap();
    assert_eq!(leaf.complete_ec_key(&completed), Ok(None));
    let mut der = Der::new(&completed);
    assert_eq!(der.whole().unwrap(), completed);
}

#[test]
fn debug_of_keys_and_stores_has_no_secret() {
    let file = std::fs::read(fixture("keytool-plain.p12")).unwrap();
    let contents = parse(&file, "changeit").unwrap();
    let shown = format!("{:?} {:?}", contents.keys, store("a", "changeit"));
    assert!(
        shown.contains("Pkcs8(…)") && !shown.contains("changeit"),
        "{shown}"
    );
}

/// The fixtures, whole, for damage.
const DAMAGED: [&str; 7] = [
    "keytool.p12",
    "keytool-plain.p12",
    "openssl-legacy.p12",
    "keytool.jks",
    "java-encrypted.pem",
    "sec1.pem",
    "trust.jks",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_files_are_refused_or_read(
        which in 0..DAMAGED.len(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        cut in any::<prop::sample::Index>(),
        checked in any::<bool>(),
    ) {
        let mut file = std::fs::read(fixture(DAMAGED[which])).unwrap();
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        // Without a password the integrity is not checked, and more is parsed.
        let password = if checked { "changeit" } else { "" };
        read_all(&file, password);
        file.truncate(cut.index(file.len()));
        read_all(&file, password);
    }
}
