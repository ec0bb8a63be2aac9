//! Chains of drawn certificates, and whether the rule for authorities and key usages accepts them.

use std::time::Duration;

use fastrand::Rng;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::crypto::ring as provider;

use super::*;
use crate::tls::der::{BIT_STRING, BOOLEAN, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, context, element};

const UTC_TIME: u8 = 0x17;
const UTF8_STRING: u8 = 0x0c;
/// The first quarter of 2024, and a moment in it.
const VALIDITY: [&str; 2] = ["240101000000Z", "240401000000Z"];
const NOW: Duration = Duration::from_secs(1_709_251_199);

/// What a certificate says of itself.
#[derive(Clone, Copy, Debug)]
struct Claims {
    has_extensions: bool,
    /// `cA` of its basic constraints, if it has them.
    authority: Option<bool>,
    /// Its key usage, if it has one: whether its key signs handshakes, and certificates.
    usage: Option<(bool, bool)>,
}

impl Claims {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            has_extensions: rng.u8(..6) > 0,
            authority: *rng.choice(&[None, Some(false), Some(true), Some(true)]).unwrap(),
            usage: rng.bool().then(|| (rng.bool(), rng.bool())),
        }
    }

    fn of_server(rng: &mut Rng) -> Self {
        let authority = *rng.choice(&[None, None, Some(false), Some(true)]).unwrap();
        Self {
            has_extensions: true,
            authority,
            ..Self::draw(rng)
        }
    }

    fn may_issue(self) -> bool {
        self.authority == Some(true) && self.usage.is_none_or(|(_, certificates)| certificates)
    }

    fn may_be_trusted_to_issue(self) -> bool {
        !self.has_extensions || self.may_issue()
    }

    fn signs_handshakes(self) -> bool {
        self.usage.is_none_or(|(handshakes, _)| handshakes)
    }

    fn extensions(self) -> Vec<u8> {
        let mut all = Vec::new();
        if let Some(is_authority) = self.authority {
            let authority = is_authority.then(|| element(BOOLEAN, &[&[0xff]]));
            let value = element(SEQUENCE, &[&authority.unwrap_or_default()]);
            all.push(extension(0x13, &value));
        }
        if let Some((handshakes, certificates)) = self.usage {
            let unused = if certificates { 2 } else { 7 };
            let bits = u8::from(handshakes) << 7 | u8::from(certificates) << 2;
            all.push(extension(0x0f, &element(BIT_STRING, &[&[unused, bits]])));
        }
        let all = element(SEQUENCE, &[&all.concat()]);
        element(context(3), &[&all])
    }
}

fn extension(number: u8, value: &[u8]) -> Vec<u8> {
    let name = element(OID, &[&[0x55, 0x1d, number]]);
    let value = element(OCTET_STRING, &[value]);
    element(SEQUENCE, &[&name, &element(BOOLEAN, &[&[0xff]]), &value])
}

fn name(common_name: &str) -> Vec<u8> {
    let kind = element(OID, &[&[0x55, 0x04, 0x03]]);
    let pair = element(
        SEQUENCE,
        &[&kind, &element(UTF8_STRING, &[common_name.as_bytes()])],
    );
    element(SEQUENCE, &[&element(SET, &[&pair])])
}

/// An owner of a key, which may sign certificates.
struct Party {
    name: &'static str,
    key: Ed25519KeyPair,
}

impl Party {
    fn new(name: &'static str, seed: u8) -> Self {
        Self {
            name,
            key: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap(),
        }
    }

    /// Returns a certificate for another party, or for itself.
    fn certify(&self, subject: &Self, claims: Claims) -> CertificateDer<'static> {
        let algorithm = element(SEQUENCE, &[&element(OID, &[&[0x2b, 0x65, 0x70]])]);
        let version = element(context(0), &[&element(INTEGER, &[&[2]])]);
        let [from, to] = VALIDITY.map(|time| element(UTC_TIME, &[time.as_bytes()]));
        let key = element(BIT_STRING, &[&[0], subject.key.public_key().as_ref()]);
        let contents = [
            if claims.has_extensions {
                version
            } else {
                Vec::new()
            },
            element(INTEGER, &[&[1]]),
            algorithm.clone(),
            name(self.name),
            element(SEQUENCE, &[&from, &to]),
            name(subject.name),
            element(SEQUENCE, &[&algorithm, &key]),
            if claims.has_extensions {
                claims.extensions()
            } else {
                Vec::new()
            },
        ];
        let contents = element(SEQUENCE, &[&contents.concat()]);
        let signature = element(BIT_STRING, &[&[0], self.key.sign(&contents).as_ref()]);
        element(SEQUENCE, &[&contents, &algorithm, &signature]).into()
    }
}

fn verify(
    store: Vec<CertificateDer<'static>>,
    leaf: &CertificateDer<'_>,
    issuers: &[CertificateDer<'_>],
) -> Result<(), Error> {
    let verifier = ServerVerifier {
        trust: Arc::new(Trust::new(store)),
        provider: Arc::new(provider::default_provider()),
        checks_name: false,
    };
    let name = ServerName::try_from("localhost").unwrap();
    let now = UnixTime::since_unix_epoch(NOW);
    verifier.verify_server_cert(leaf, issuers, &name, &[], now)?;
    Ok(())
}

#[test]
fn certificate_is_accepted_if_it_is_pinned_or_issued_by_authorities() {
    let [root, middle, server] =
        [("root", 1), ("middle", 2), ("server", 3)].map(|(name, seed)| Party::new(name, seed));
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..2_000 {
        let mut rng = Rng::with_seed(seed);
        let [root_claims, middle_claims] = [Claims::draw(&mut rng), Claims::draw(&mut rng)];
        let claims = Claims::of_server(&mut rng);
        let has_middle = rng.bool();
        let root_der = root.certify(&root, root_claims);
        let middle_der = root.certify(&middle, middle_claims);
        let issuer = if has_middle { &middle } else { &root };
        let leaf = issuer.certify(&server, claims);
        let [knows_root, knows_middle, knows_leaf] = [rng.u8(..4) > 0, rng.u8(..4) == 0, rng.u8(..4) == 0];
        let store = [
            (knows_root, &root_der),
            (knows_middle, &middle_der),
            (knows_leaf, &leaf),
        ]
        .into_iter()
        .filter(|(known, _)| *known)
        .map(|(_, der)| der.clone())
        .collect();
        let issued_by_root = knows_root && root_claims.may_be_trusted_to_issue();
        let issued = if has_middle {
            (knows_middle && middle_claims.may_be_trusted_to_issue())
                || (issued_by_root && middle_claims.has_extensions && middle_claims.may_issue())
        } else {
            issued_by_root
        };
        let expected =
            claims.signs_handshakes() && (knows_leaf || (issued && claims.authority != Some(true)));
        let sent = if has_middle { vec![middle_der] } else { Vec::new() };
        let verdict = verify(store, &leaf, &sent);
        assert_eq!(
            verdict.is_ok(),
            expected,
            "seed {seed}: {verdict:?}; root {root_claims:?} {knows_root}, middle {has_middle} {middle_claims:?} \
             {knows_middle}, server {claims:?} {knows_leaf}"
        );
        *(if expected { &mut accepted } else { &mut refused }) += 1;
    }
    assert!(
        accepted > 200 && refused > 200,
        "{accepted} accepted, {refused} refused"
    );
}

#[test]
fn refusals_say_what_is_missing() {
    let [pinned, server] = [("pinned", 1), ("server", 2)].map(|(name, seed)| Party::new(name, seed));
    let plain = Claims {
        has_extensions: true,
        authority: None,
        usage: None,
    };
    let store = vec![pinned.certify(&pinned, plain)];
    let verdict = verify(store, &pinned.certify(&server, plain), &[]);
    assert_eq!(refusal(verdict), Some(Refusal::IssuerIsNoAuthority));
    let signs_certificates = Claims {
        usage: Some((false, true)),
        ..plain
    };
    let leaf = server.certify(&server, signs_certificates);
    let verdict = verify(vec![leaf.clone()], &leaf, &[]);
    assert_eq!(refusal(verdict), Some(Refusal::NotForHandshakes));
}

fn refusal(verdict: Result<(), Error>) -> Option<Refusal> {
    match verdict {
        Err(Error::InvalidCertificate(CertificateError::Other(other))) => other.0.downcast_ref().copied(),
        _ => None,
    }
}
