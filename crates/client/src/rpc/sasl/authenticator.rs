//! How connections of a client are authenticated.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use hbase_gssapi::{Credentials, Keytab};
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::spawn_blocking,
    time::timeout,
};

#[cfg(feature = "zookeeper")]
use super::quorum_login::QuorumLogin;
use super::{
    aes::{AesLayer, CIPHER},
    authentication_error::AuthenticationError,
    digest::Digest,
    gssapi::Gssapi,
    kdc_clock,
    negotiation::{Accepted, negotiate},
    principal::{MASTER, REGION_SERVER, ServerPrincipal},
    registry_query,
    stream::SaslStream,
};
use crate::{
    config::{Config, Kerberos, Protection, TicketSource, TokenFile},
    environment::Environment,
    error::RemoteException,
    model::{DelegationToken, KdcClock},
    rpc::{
        call_error::CallError,
        connector::{DialTarget, Io, ServiceKind},
    },
    wire::{base64::base64, connection_header::Header, frame::FrameError, pb},
};

/// The maximum size of the server's keys for AES.
const MAX_KEYS: usize = 4 << 10;

/// Authenticates the connections of a client.
#[derive(Debug)]
pub(in crate::rpc) struct Authenticator {
    kerberos: Option<(Kerberos, Credentials)>,
    /// The token of the cluster, which takes precedence over Kerberos.
    token: OnceLock<TokenLogin>,
    token_file: Option<PathBuf>,
    protection: Vec<Protection>,
    fallback_to_simple: bool,
    aes: bool,
    effective_user: Option<String>,
    connect_timeout: Duration,
    max_frame_size: usize,
}

/// A delegation token, and the random numbers for its nonces.
#[derive(Debug)]
struct TokenLogin {
    token: Mutex<DelegationToken>,
    /// The file that may have a later token.
    file: Option<PathBuf>,
    environment: Arc<dyn Environment>,
}

impl TokenLogin {
    /// Returns the token for a new connection. Reads the file, which may have another one now.
    async fn token(&self) -> DelegationToken {
        let known = || self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = self.file.clone() else {
            return known().clone();
        };
        let read = spawn_blocking(|| TokenFile::read(path)).await;
        let mut known = known();
        match read {
            Ok(Ok(file)) => match DelegationToken::latest(file.tokens(), known.cluster_id()) {
                Some(token) => known.clone_from(token),
                None => tracing::warn!("the token file has no token of the cluster any more"),
            },
            Ok(Err(error)) => tracing::warn!(%error, "the former delegation token stays in use"),
            // The runtime is shutting down.
            Err(_) => {}
        }
        known.clone()
    }
}

/// An authenticated stream.
pub(in crate::rpc) struct Opened {
    pub(in crate::rpc) stream: Box<dyn Io>,
    /// The bytes to send before the first request.
    pub(in crate::rpc) greeting: Bytes,
    /// Whether the authentication encrypts messages.
    pub(in crate::rpc) is_private: bool,
}

impl Authenticator {
    /// Returns the authenticator of a client. `None` means SIMPLE authentication.
    pub(in crate::rpc) fn new(config: &Config) -> Option<Self> {
        if config.kerberos().is_none() && config.delegation_tokens().is_empty() {
            return None;
        }
        let kerberos = config.kerberos().map(|kerberos| {
            let credentials = match kerberos.ticket() {
                TicketSource::DefaultCache => Credentials::DefaultCache,
                TicketSource::Cache(name) => Credentials::Cache(name.clone()),
                TicketSource::Keytab { file, principal } => Credentials::Keytab(Keytab::new(file, principal)),
            };
            (kerberos.clone(), credentials)
        });
        Some(Self {
            kerberos,
            token: OnceLock::new(),
            token_file: config.token_file().map(Path::to_owned),
            protection: config.protection().to_vec(),
            fallback_to_simple: config.fallback_to_simple(),
            aes: config.aes(),
            effective_user: config.effective_user().map(str::to_owned),
            connect_timeout: config.connect_timeout(),
            max_frame_size: config.max_frame_size(),
        })
    }

    /// Sets the token of the cluster, once.
    pub(in crate::rpc) fn use_token(&self, token: DelegationToken, environment: Arc<dyn Environment>) {
        self.token.get_or_init(|| TokenLogin {
            token: Mutex::new(token),
            file: self.token_file.clone(),
            environment,
        });
    }

    /// Returns how the client authenticates to ZooKeeper. Returns `None` without Kerberos.
    #[cfg(feature = "zookeeper")]
    pub(in crate::rpc) fn quorum_login(&self) -> Option<QuorumLogin> {
        let (kerberos, credentials) = self.kerberos.as_ref()?;
        let service = kerberos.zookeeper_service().to_owned();
        Some(QuorumLogin::new(credentials.clone(), service))
    }

    /// Compares the wall clock with that of a key distribution centre. Returns `None` if connections
    /// need no ticket.
    pub(in crate::rpc) async fn kdc_clock(
        &self,
        environment: Arc<dyn Environment>,
    ) -> Result<Option<KdcClock>, AuthenticationError> {
        match (self.token.get(), &self.kerberos) {
            (None, Some((_, credentials))) => {
                let compared = kdc_clock::compare(credentials.clone(), environment, self.connect_timeout);
                compared.await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Authenticates a new connection. `dialled_again` yields another stream to the server. `header` has
    /// the name of the user for a server without security.
    pub(in crate::rpc) async fn authenticate(
        &self,
        stream: Box<dyn Io>,
        dialled_again: impl Future<Output = Result<Box<dyn Io>, CallError>> + Send,
        target: &DialTarget,
        header: Header<'_>,
    ) -> Result<Opened, CallError> {
        let opened = self.open(stream, dialled_again, target, header);
        match timeout(self.connect_timeout, opened).await {
            Ok(opened) => opened,
            Err(_) => Err(AuthenticationError::Timeout(self.connect_timeout).into()),
        }
    }

    async fn open(
        &self,
        stream: Box<dyn Io>,
        dialled_again: impl Future<Output = Result<Box<dyn Io>, CallError>> + Send,
        target: &DialTarget,
        header: Header<'_>,
    ) -> Result<Opened, CallError> {
        let (stream, accepted) = match (self.token.get(), &self.kerberos) {
            (Some(login), _) => self.present_token(stream, login).await?,
            (None, Some((kerberos, credentials))) => {
                let (mut stream, principal) = principal_of(kerberos, stream, dialled_again, target).await?;
                let service = principal.on(&target.address.host, kerberos.host_as_named());
                let mechanism = Gssapi::new(credentials.clone(), service, self.protection.clone());
                let accepted = negotiate_tickets(&mut stream, mechanism, credentials).await?;
                (stream, accepted)
            }
            (None, None) => return Err(AuthenticationError::NoToken.into()),
        };
        self.begin(stream, accepted, header).await
    }

    /// Begins a connection that the server has accepted.
    async fn begin(
        &self,
        stream: Box<dyn Io>,
        accepted: Accepted,
        header: Header<'_>,
    ) -> Result<Opened, CallError> {
        let layer = match (accepted, &self.effective_user) {
            (Accepted::Authenticated(layer), _) => layer,
            (Accepted::Simple, _) if !self.fallback_to_simple => {
                return Err(AuthenticationError::NoSecurity.into());
            }
            (Accepted::Simple, Some(user)) => {
                return Err(AuthenticationError::NoImpersonation(user.clone()).into());
            }
            (Accepted::Simple, None) => {
                tracing::warn!("a server has no security, and the client continues without");
                return Ok(Opened {
                    stream,
                    greeting: header.framed(),
                    is_private: false,
                });
            }
        };
        let header = Header {
            effective_user: self.effective_user.as_deref(),
            cipher: self.aes.then_some(CIPHER),
            ..header
        };
        let is_private = self.aes || layer.as_ref().is_some_and(|layer| layer.is_private());
        let mut stream = SaslStream::new(stream, layer, self.max_frame_size);
        let greeting = match self.aes {
            true => {
                self.switch_to_aes(&mut stream, &header).await?;
                Bytes::new()
            }
            false => header.framed(),
        };
        Ok(Opened {
            stream: Box::new(stream),
            greeting,
            is_private,
        })
    }

    /// Authenticates by the delegation token.
    async fn present_token(
        &self,
        mut stream: Box<dyn Io>,
        login: &TokenLogin,
    ) -> Result<(Box<dyn Io>, Accepted), CallError> {
        let mut nonce = [0; 24];
        login.environment.fill_random(&mut nonce);
        let token = login.token().await;
        let mechanism = Digest::new(&token, base64(&nonce), self.protection.clone());
        match negotiate(&mut stream, Box::new(mechanism)).await {
            Ok(accepted) => Ok((stream, accepted)),
            Err(error) => Err(match refusal(&error) {
                Some(exception) => CallError::from(AuthenticationError::TokenRefused {
                    exception,
                    user: token.user().to_owned(),
                }),
                None => error,
            }),
        }
    }

    /// Sends the header, and waits for the keys that the server sends. A server without AES sends
    /// nothing.
    async fn switch_to_aes(
        &self,
        stream: &mut SaslStream<Box<dyn Io>>,
        header: &Header<'_>,
    ) -> Result<(), CallError> {
        let exchange = async {
            stream.write_all(&header.framed()).await?;
            stream.flush().await?;
            let mut length = [0; 4];
            stream.read_exact(&mut length).await?;
            let length = usize::try_from(i32::from_be_bytes(length)).ok();
            let Some(length) = length.filter(|length| *length <= MAX_KEYS) else {
                return Ok(None);
            };
            let mut keys = BytesMut::zeroed(length);
            stream.read_exact(&mut keys).await?;
            std::io::Result::Ok(pb::ConnectionHeaderResponse::decode(keys).ok())
        };
        // The whole attempt has the connect timeout, and its end would not tell the reason.
        let patience = self.connect_timeout / 2;
        let keys = match timeout(patience, exchange).await {
            Ok(keys) => keys.map_err(CallError::of_socket)?,
            Err(_) => return Err(AuthenticationError::NoCipher(patience).into()),
        };
        let keys = keys.and_then(|keys| keys.crypto_cipher_meta);
        let keys = keys.ok_or(AuthenticationError::BadCipher("no keys for AES that can be read"))?;
        let layer = AesLayer::new(&keys)?;
        match stream.set_layer(Box::new(layer)) {
            0 => Ok(()),
            len => Err(CallError::Garbled {
                sent: false,
                cause: Arc::new(FrameError::Trailing(len)),
            }),
        }
    }
}

/// Returns the exception by which a server refused the tokens of the client.
fn refusal(error: &CallError) -> Option<RemoteException> {
    match error {
        CallError::Unauthenticated(error) => match &**error {
            AuthenticationError::Refused { exception, .. } => Some(exception.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Exchanges tokens. If the server refuses those of a keytab, its key may have changed: forgets
/// the tickets for it.
async fn negotiate_tickets(
    stream: &mut Box<dyn Io>,
    mechanism: Gssapi,
    credentials: &Credentials,
) -> Result<Accepted, CallError> {
    let result = negotiate(stream, Box::new(mechanism)).await;
    if let Err(error) = &result
        && let Some(exception) = refusal(error)
        && let Credentials::Keytab(keytab) = credentials
    {
        return Err(CallError::from(AuthenticationError::Refused {
            exception,
            has_new_tickets: keytab.forget_tickets(),
        }));
    }
    result
}

/// Returns the principal of a server. The registry is served by masters and region servers, so
/// the server is asked for its principal if theirs differ. It may have to be dialled again then.
async fn principal_of<'a>(
    kerberos: &'a Kerberos,
    mut stream: Box<dyn Io>,
    dialled_again: impl Future<Output = Result<Box<dyn Io>, CallError>> + Send,
    target: &DialTarget,
) -> Result<(Box<dyn Io>, ServerPrincipal<'a>), CallError> {
    let master = ServerPrincipal::of_setting(MASTER, kerberos.master_principal());
    let region_server = ServerPrincipal::of_setting(REGION_SERVER, kerberos.region_server_principal());
    match target.service {
        ServiceKind::Master | ServiceKind::Lock => Ok((stream, master?)),
        ServiceKind::Client | ServiceKind::Admin => Ok((stream, region_server?)),
        ServiceKind::Registry => {
            let (master, region_server) = match (master, region_server) {
                (Ok(master), Ok(region_server)) if master != region_server => (master, region_server),
                (master, region_server) => return Ok((stream, master.or(region_server)?)),
            };
            let Some(answer) = registry_query::principal(&mut stream).await else {
                return Ok((dialled_again.await?, master));
            };
            // A master in one process with its region server names the user of the system.
            let Some(of_server) = ServerPrincipal::parse(&answer) else {
                return Ok((stream, master));
            };
            let mut settings = [master, region_server].into_iter();
            match settings.find(|setting| setting.matches(&of_server)) {
                Some(principal) => Ok((stream, principal)),
                None => Err(AuthenticationError::UnknownPrincipal(answer).into()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
