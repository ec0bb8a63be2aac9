//! TLS to servers: what is trusted, what this client presents, and the handshake.

use std::{
    fs, io,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use rustls::{
    ClientConfig, SupportedProtocolVersion,
    client::Resumption,
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
    sign::SingleCertAndKey,
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    failure::Peer,
    store,
    stream::TlsStream,
    verifier::{ServerVerifier, Trust},
};
use crate::{
    tls_failure::TlsFailure,
    tls_keys::TlsKeys,
    tls_options::{TlsOptions, TlsStore, TlsVersion},
};

/// TLS to the servers of a cluster or quorum. Its stores are read at the first handshake, and again when
/// their files change.
#[derive(Debug)]
pub struct TlsClient {
    options: TlsOptions,
    /// The settings that errors name.
    keys: &'static TlsKeys,
    stores: Mutex<Option<Loaded>>,
}

/// The stores as they were read last.
#[derive(Debug)]
struct Loaded {
    setup: Setup,
    /// The files at the last attempt to read them.
    seen: [Stamp; 2],
}

/// What handshakes need of the stores.
#[derive(Clone, Debug)]
struct Setup {
    trust: Arc<Trust>,
    /// Each handshake adds its verifier.
    config: ClientConfig,
    has_key: bool,
}

/// What shows that a file has changed.
type Stamp = Option<(SystemTime, u64)>;

impl TlsClient {
    /// Creates a client with these settings. Its errors mention the settings by these names.
    #[must_use]
    pub fn new(options: TlsOptions, keys: &'static TlsKeys) -> Self {
        Self {
            options,
            keys,
            stores: Mutex::new(None),
        }
    }

    /// Secures a stream to a server of this name, which may be an address. The certificate of the server
    /// must have it.
    ///
    /// # Errors
    ///
    /// Returns an error with a [`TlsFailure`] in it if another attempt does not help.
    pub async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Arc<Self>,
        stream: S,
        host: &str,
    ) -> io::Result<TlsStream<S>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| TlsFailure::config(format!("{host:?} is no name that a certificate can have")))?;
        // Files are read, and passwords take time.
        let client = Arc::clone(self);
        let setup = tokio::task::spawn_blocking(move || client.setup())
            .await
            .map_err(io::Error::other)??;
        let mut config = setup.config;
        let verifier = ServerVerifier {
            trust: setup.trust,
            provider: Arc::clone(config.crypto_provider()),
            checks_name: self.options.verify_hostname,
        };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let limit = self.options.handshake_timeout;
        let peer = Peer {
            host: host.to_owned(),
            has_key: setup.has_key,
            keys: self.keys,
        };
        match timeout(limit, handshake).await {
            Ok(Ok(stream)) => Ok(TlsStream::new(stream, peer)),
            Ok(Err(error)) => Err(TlsFailure::explain(error, &peer)),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the TLS handshake did not end within {limit:?}"),
            )),
        }
    }

    /// Returns what a handshake needs, and reads the stores if their files have changed. Stores
    /// that can't be read any more are used as they were.
    fn setup(&self) -> Result<Setup, TlsFailure> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *stores {
            None => {
                let seen = self.stamps();
                let setup = self.load()?;
                *stores = Some(Loaded {
                    setup: setup.clone(),
                    seen,
                });
                Ok(setup)
            }
            Some(loaded) => {
                let seen = self.stamps();
                if self.options.reload && seen != loaded.seen {
                    match self.load() {
                        Ok(setup) => {
                            tracing::info!("TLS: the stores have changed, and were read again");
                            loaded.setup = setup;
                        }
                        Err(error) => {
                            tracing::warn!(
                                "TLS: the stores have changed, and the former ones stay in use: {error}"
                            );
                        }
                    }
                    loaded.seen = seen;
                }
                Ok(loaded.setup.clone())
            }
        }
    }

    fn stamps(&self) -> [Stamp; 2] {
        let stamp = |store: Option<&TlsStore>| {
            let metadata = fs::metadata(&store?.path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        [
            stamp(Some(&self.options.trust_store)),
            stamp(self.options.key_store.as_ref()),
        ]
    }

    fn load(&self) -> Result<Setup, TlsFailure> {
        let provider = Arc::new(self.provider()?);
        let trust = Arc::new(Trust::new(store::trusted(&self.options.trust_store)?));
        let key = self
            .options
            .key_store
            .as_ref()
            .map(|key_store| store::key(key_store, &provider))
            .transpose()?;
        let verifier = ServerVerifier {
            trust: Arc::clone(&trust),
            provider: Arc::clone(&provider),
            checks_name: true,
        };
        let has_key = key.is_some();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions()?)
            .map_err(|error| TlsFailure::config(format!("the TLS versions and cipher suites: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match key {
            Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
            None => builder.with_no_client_auth(),
        };
        // Connections are few and live long, and each one verifies the server.
        config.resumption = Resumption::disabled();
        Ok(Setup {
            trust,
            config,
            has_key,
        })
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, TlsFailure> {
        let versions: Vec<_> = [(TlsVersion::V1_2, &TLS12), (TlsVersion::V1_3, &TLS13)]
            .into_iter()
            .filter(|(version, _)| self.options.versions.contains(version))
            .map(|(_, version)| version)
            .collect();
        if versions.is_empty() {
            Err(TlsFailure::config("no TLS version is allowed").with_hint("allow TLSv1.2 or TLSv1.3"))
        } else {
            Ok(versions)
        }
    }

    fn provider(&self) -> Result<CryptoProvider, TlsFailure> {
        let mut provider = ring::default_provider();
        let Some(names) = &self.options.cipher_suites else {
            return Ok(provider);
        };
        // rustls calls the suites of TLS 1.3 TLS13_…, Java TLS_….
        let java_name = |suite: &rustls::SupportedCipherSuite| {
            let name = suite.suite().as_str().unwrap_or_default();
            name.replacen("TLS13_", "TLS_", 1)
        };
        let supported = std::mem::take(&mut provider.cipher_suites);
        provider.cipher_suites = names
            .iter()
            .filter_map(|name| supported.iter().find(|suite| java_name(suite) == *name).copied())
            .collect();
        if provider.cipher_suites.is_empty() {
            let known: Vec<_> = supported.iter().map(java_name).collect();
            Err(
                TlsFailure::config(format!("no cipher suite of {} is supported", names.join(", ")))
                    .with_hint(format!("choose of {}", known.join(", "))),
            )
        } else {
            Ok(provider)
        }
    }
}

#[cfg(test)]
mod tests;
