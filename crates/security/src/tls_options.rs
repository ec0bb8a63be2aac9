//! The settings of TLS.

use std::{fmt, path::PathBuf, time::Duration};

/// The bounds of a timeout. A year can always be added to the clock.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// TLS to the servers: which servers are trusted, what this client presents, and its limits.
///
/// A store is a file of certificates or keys: PEM, JKS or PKCS12, which its first bytes determine.
/// The files are read when the first server is dialled. They are read again when they change, and
/// later connections use the new contents; a file that can't be read leaves the former contents in
/// use. The trust store of the system is not used.
///
/// The certificate of a server must name the host by which the cluster knows the server as a subject
/// alternative name. An address in it counts only if the cluster knows the server by this address.
///
/// The cluster's names come from ZooKeeper and `hbase:meta`. An attacker who can alter the answers of
/// ZooKeeper on the network leads the client to any server that has a trusted certificate. Use TLS to
/// ZooKeeper too (`Config::with_zookeeper_tls`), or `hbase+rpc://`. Connecting without both logs a
/// warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    pub(crate) trust_store: TlsStore,
    pub(crate) key_store: Option<TlsStore>,
    pub(crate) verify_hostname: bool,
    pub(crate) handshake_timeout: Duration,
    pub(crate) versions: Vec<TlsVersion>,
    pub(crate) cipher_suites: Option<Vec<String>>,
    pub(crate) reload: bool,
}

/// The supported cipher suites, by their names in Java.
pub const CIPHER_SUITES: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsVersion {
    /// TLS 1.2, the only one of an HBase server by default.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// The file of a key store or trust store.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TlsStore {
    pub(crate) path: PathBuf,
    /// Empty if the file has none.
    pub(crate) password: String,
}

impl TlsStore {
    pub(crate) fn new(path: impl Into<PathBuf>, password: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            password: password.into(),
        }
    }
}

impl fmt::Debug for TlsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl TlsOptions {
    /// Creates the settings for servers whose certificates an authority of this trust store has
    /// issued, or that present a certificate of the store. The password is empty if the file has none.
    ///
    /// A certificate is that of an authority if it has basic constraints with `cA`, and a key usage, if
    /// any, with `keyCertSign`; or if it is of version 1 or 2.
    pub fn new(trust_store: impl Into<PathBuf>, password: impl Into<String>) -> Self {
        Self {
            trust_store: TlsStore::new(trust_store, password),
            key_store: None,
            verify_hostname: true,
            handshake_timeout: Duration::from_secs(5),
            versions: vec![TlsVersion::V1_2, TlsVersion::V1_3],
            cipher_suites: None,
            reload: true,
        }
    }

    /// Sets the key store, whose first key and its certificates this client presents to servers
    /// that ask for them (mutual TLS). The key must have the password of the store.
    #[must_use]
    pub fn key_store(mut self, path: impl Into<PathBuf>, password: impl Into<String>) -> Self {
        self.key_store = Some(TlsStore::new(path, password));
        self
    }

    /// Sets whether the certificate of a server must name the server. The default is true. Without
    /// it, each server with a trusted certificate can pretend to be any other.
    #[must_use]
    pub fn verify_hostname(mut self, verify: bool) -> Self {
        self.verify_hostname = verify;
        self
    }

    /// Sets the timeout of a handshake, which is part of the connect timeout
    /// (`Config::with_connect_timeout`). The default is 5 s.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout.clamp(SHORTEST, LONGEST);
        self
    }

    /// Sets the versions that may be used. The default is all.
    #[must_use]
    pub fn versions(mut self, versions: impl IntoIterator<Item = TlsVersion>) -> Self {
        self.versions = versions.into_iter().collect();
        self
    }

    /// Sets the cipher suites that may be used, by their names in Java, the preferred one first.
    /// Names of other suites than the supported ones are ignored, and one of these must be among
    /// them:
    ///
    /// - TLS 1.3: `TLS_AES_256_GCM_SHA384`, `TLS_AES_128_GCM_SHA256`,
    ///   `TLS_CHACHA20_POLY1305_SHA256`.
    /// - TLS 1.2: `TLS_ECDHE_ECDSA_WITH_` or `TLS_ECDHE_RSA_WITH_`, followed by
    ///   `AES_256_GCM_SHA384`, `AES_128_GCM_SHA256` or `CHACHA20_POLY1305_SHA256`.
    #[must_use]
    pub fn cipher_suites(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.cipher_suites = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets whether the stores are read again when their files change. The default is true.
    #[must_use]
    pub fn reload(mut self, reload: bool) -> Self {
        self.reload = reload;
        self
    }
}

/// Returns whether the certificate of a server must name the server.
#[must_use]
pub fn checks_names(options: &TlsOptions) -> bool {
    options.verify_hostname
}
