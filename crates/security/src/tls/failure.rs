//! The causes of failed handshakes, and what to do.

use std::{borrow::Cow, io};

use rustls::{AlertDescription as Alert, CertificateError, Error as RustlsError};

use super::verifier::Refusal;
use crate::{error::ErrorKind, tls_failure::TlsFailure, tls_keys::TlsKeys};

/// A connection, as far as the hints of its failures name it.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) host: String,
    /// Whether this client presents a certificate.
    pub(super) has_key: bool,
    pub(super) keys: &'static TlsKeys,
}

impl TlsFailure {
    /// Creates the failure of settings or files that cannot be used.
    pub(super) fn config(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(
            ErrorKind::InvalidConfig,
            what,
            "check the path and the password of the file",
        )
    }

    pub(super) fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Returns the cause of a failed handshake, or of a connection that the server refused after
    /// it. Other errors of streams are returned as they are.
    pub(super) fn explain(error: io::Error, peer: &Peer) -> io::Error {
        let rustls = error.get_ref().and_then(|cause| cause.downcast_ref());
        match rustls.and_then(|cause| Self::of(cause, peer)) {
            Some(failure) => failure.into(),
            None => error,
        }
    }

    fn of(error: &RustlsError, peer: &Peer) -> Option<Self> {
        let TlsKeys {
            enabled_protocols,
            cipher_suites,
            key_store_on_servers,
            ..
        } = peer.keys;
        Some(match error {
            RustlsError::InvalidMessage(_) => Self::not_spoken(peer.keys),
            RustlsError::InvalidCertificate(error) => Self::of_certificate(error, peer),
            RustlsError::NoCertificatesPresented => Self::new(
                ErrorKind::AuthenticationFailed,
                "the server has no certificate",
                format!("set {key_store_on_servers} on the servers"),
            ),
            RustlsError::AlertReceived(
                alert @ (Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::NoCertificate
                | Alert::UnknownCA
                | Alert::UnsupportedCertificate
                | Alert::AccessDenied),
            ) => Self::of_alert(*alert, peer),
            RustlsError::AlertReceived(
                Alert::HandshakeFailure | Alert::InsufficientSecurity | Alert::ProtocolVersion,
            )
            | RustlsError::PeerIncompatible(_) => Self::new(
                ErrorKind::Protocol,
                "the server and this client have no TLS version or cipher suite in common",
                format!(
                    "check {enabled_protocols} and {cipher_suites} on both sides; this client has TLSv1.2 and TLSv1.3, \
                     and cipher suites with GCM or ChaCha20"
                ),
            ),
            _ => return None,
        })
    }

    /// The server's refusal of this client.
    fn of_alert(alert: Alert, peer: &Peer) -> Self {
        let TlsKeys {
            key_store,
            verify_clients,
            ..
        } = peer.keys;
        if peer.has_key {
            Self::new(
                ErrorKind::AuthenticationFailed,
                format!("the server refuses the certificate of this client ({alert:?})"),
                format!(
                    "use one that the trust store of the servers accepts, that is valid now, and that names the \
                     address of this machine ({verify_clients})"
                ),
            )
        } else {
            Self::new(
                ErrorKind::AuthenticationFailed,
                "the server requires a certificate of this client",
                format!("set {key_store}.location (TlsOptions::key_store)"),
            )
        }
    }

    /// This client's refusal of the server.
    fn of_certificate(error: &CertificateError, Peer { host, keys, .. }: &Peer) -> Self {
        let failure =
            |what: String, hint: &'static str| Self::new(ErrorKind::AuthenticationFailed, what, hint);
        if let CertificateError::Other(other) = error
            && let Some(refusal) = other.0.downcast_ref::<Refusal>()
        {
            let what = format!("the certificate of the server can't be accepted: {refusal}");
            return failure(what, refusal.hint());
        }
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::new(
                ErrorKind::AuthenticationFailed,
                "no certificate of the trust store has issued that of the server",
                format!(
                    "add the servers' certificate authority to {}.location",
                    keys.trust_store
                ),
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => failure(
                "the certificate of the server has expired".to_owned(),
                "renew it, and check the clock of this machine",
            ),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => failure(
                "the certificate of the server is not valid yet".to_owned(),
                "check the clocks of this machine and of the one that issued it",
            ),
            CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => failure(
                format!(
                    "the certificate of the server is for {}, not for {host}",
                    names(presented)
                ),
                "issue one with the name by which the cluster knows the server",
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => failure(
                format!(
                    "the certificate of the server has no subject alternative name, so it is not for {host}: a \
                     common name does not count"
                ),
                "issue one with a subject alternative name (keytool -ext SAN=dns:…)",
            ),
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => failure(
                "the certificate of the server is not one of servers".to_owned(),
                "issue one with the extended key usage serverAuth",
            ),
            error => failure(
                format!("the certificate of the server can't be accepted: {error}"),
                "issue another one; of a certificate authority that is its own server, the trust store must have \
                 this very certificate",
            ),
        }
    }
}

/// Returns names without what rustls adds to them, as in `DnsName("a")`.
fn names(presented: &[String]) -> String {
    let bare = |name: &String| {
        let inside = name.split_once('(').map_or(&**name, |(_, inside)| inside);
        inside.trim_end_matches(')').trim_matches('"').to_owned()
    };
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}
