//! Whether a server is the one that was dialled.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::certificate::{Certificate, Usage};

/// The certificates that are trusted: each for the server that presents it, and those of certificate
/// authorities also for the servers whose certificates they have issued.
///
/// A store may have the certificates of servers themselves. The key of one server must not be able to
/// issue certificates for the others, so only a certificate that says that it is an authority
/// counts as one, as in Java (`jdk.security.allowNonCaAnchor`).
#[derive(Debug)]
pub(super) struct Trust {
    authorities: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trust {
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        let mut authorities = RootCertStore::empty();
        authorities.add_parsable_certificates(certificates.iter().filter(|der| may_issue(der)).cloned());
        Self {
            authorities,
            certificates,
        }
    }

    /// Returns whether one of these certificates names an issuer that is trusted, but is no authority.
    fn names_no_authority(&self, chain: &[&CertificateDer<'_>]) -> bool {
        let issuers: Vec<_> = chain
            .iter()
            .filter_map(|der| Some(Certificate::read(der).ok()?.issuer))
            .collect();
        self.certificates
            .iter()
            .filter(|der| !may_issue(der))
            .filter_map(|der| Certificate::read(der).ok())
            .any(|certificate| issuers.contains(&certificate.subject))
    }
}

fn may_issue(der: &CertificateDer<'_>) -> bool {
    Certificate::read(der).is_ok_and(|certificate| certificate.may_issue())
}

/// Why a certificate is refused, if rustls has no name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("its issuer is in the trust store, but is no certificate authority")]
    IssuerIsNoAuthority,
    #[error("its key usage has no digitalSignature")]
    NotForHandshakes,
}

impl Refusal {
    /// Returns what to do.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::IssuerIsNoAuthority => {
                "add the certificate of the authority, or that of each server; an authority's has basicConstraints \
                 with cA, and keyCertSign if it has a keyUsage"
            }
            Self::NotForHandshakes => "issue one with digitalSignature in its keyUsage",
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        CertificateError::Other(OtherError(Arc::new(refusal))).into()
    }
}

/// Verifies the certificate of one server.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    pub(super) trust: Arc<Trust>,
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) checks_name: bool,
}

impl ServerVerifier {
    fn verify_issuer(
        &self,
        leaf: &ParsedCertificate<'_>,
        der: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let certificate = Certificate::read(der).map_err(|_| CertificateError::BadEncoding)?;
        if !certificate.may_sign(Usage::Handshakes) {
            return Err(Refusal::NotForHandshakes.into());
        }
        if self.trust.certificates.iter().any(|trusted| trusted == der) {
            // The trust store has this very certificate. It may be that of a certificate authority,
            // which is what openssl and keytool create for a server by default, and Java accepts.
            let now = now.as_secs();
            return match () {
                () if certificate.has_expired_at(now) => Err(CertificateError::Expired.into()),
                () if certificate.is_not_yet_valid_at(now) => Err(CertificateError::NotValidYet.into()),
                () => Ok(()),
            };
        }
        // rustls reads no key usages.
        let issuers: Vec<_> = intermediates
            .iter()
            .filter(|der| may_issue(der))
            .cloned()
            .collect();
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(leaf, &self.trust.authorities, &issuers, now, algorithms)
            .map_err(|error| {
                let chain: Vec<_> = [der].into_iter().chain(intermediates).collect();
                let is_unknown = error == CertificateError::UnknownIssuer.into();
                if is_unknown && self.trust.names_no_authority(&chain) {
                    Refusal::IssuerIsNoAuthority.into()
                } else {
                    error
                }
            })
    }

    /// Checks that the certificate has the name or the address by which the cluster knows the server.
    /// Java also accepts the address of the connection for every name, which lets the owner of any
    /// certificate with an address stand for all servers (HBase's `HBaseTrustManager`).
    fn verify_name(&self, leaf: &ParsedCertificate<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if self.checks_name {
            verify_server_name(leaf, name)
        } else {
            Ok(())
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let leaf = ParsedCertificate::try_from(end_entity)?;
        self.verify_issuer(&leaf, end_entity, intermediates, now)?;
        self.verify_name(&leaf, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests;
