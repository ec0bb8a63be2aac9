//! Whether a server is the one that was dialled.

use std::{net::IpAddr, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::certificate::Certificate;

/// The certificates that are trusted.
#[derive(Debug)]
pub(super) struct Trust {
    roots: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// Leaves out certificates that no certificate authority can have.
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        Self { roots, certificates }
    }
}

/// Verifies the certificate of one server.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    pub(super) trust: Arc<Trust>,
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) checks_name: bool,
    /// The address of the server, which its certificate may name instead, as in Java.
    pub(super) peer: Option<IpAddr>,
}

impl ServerVerifier {
    fn verify_issuer(
        &self,
        leaf: &ParsedCertificate<'_>,
        der: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if !self.trust.certificates.iter().any(|trusted| trusted == der) {
            let algorithms = self.provider.signature_verification_algorithms.all;
            return verify_server_cert_signed_by_trust_anchor(
                leaf,
                &self.trust.roots,
                intermediates,
                now,
                algorithms,
            );
        }
        // The trust store has this very certificate. It may be that of a certificate authority,
        // which is what openssl and keytool create for a server by default, and Java accepts.
        let certificate = Certificate::read(der).map_err(|_| CertificateError::BadEncoding)?;
        let now = now.as_secs();
        match () {
            () if certificate.has_expired_at(now) => Err(CertificateError::Expired.into()),
            () if certificate.is_not_yet_valid_at(now) => Err(CertificateError::NotValidYet.into()),
            () => Ok(()),
        }
    }

    fn verify_name(&self, leaf: &ParsedCertificate<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if !self.checks_name {
            return Ok(());
        }
        verify_server_name(leaf, name).or_else(|error| match self.peer {
            Some(peer) => verify_server_name(leaf, &ServerName::from(peer)).map_err(|_| error),
            None => Err(error),
        })
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
