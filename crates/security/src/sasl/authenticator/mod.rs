//! How connections of a client are authenticated.

use std::{
    fmt,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::{Bytes, BytesMut};
use hbase_gssapi::{Credentials, Keytab};
use hbase_protocol as pb;
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    task::spawn_blocking,
    time::timeout,
};

use super::{
    aes::{AesLayer, CIPHER},
    base64::base64,
    digest::Digest,
    gssapi::Gssapi,
    kdc_time,
    negotiation::{Accepted, negotiate},
    principal::{MASTER, REGION_SERVER, ServerPrincipal},
    quorum_login::QuorumLogin,
    stream::{IsRefusal, SaslStream},
};
use crate::{
    authentication_error::{AuthenticationError, ServerError},
    authentication_options::AuthenticationOptions,
    delegation_token::{DelegationToken, latest_token},
    handshake::{HandshakeError, Introduction, MessageError, Opened, Role, Target},
    kdc_clock::KdcClock,
    kerberos::{Kerberos, TicketSource},
    protection::Protection,
    token_file::read_token_file,
};

/// The maximum size of the server's keys for AES.
const MAX_KEYS: usize = 4 << 10;

/// Authenticates the connections of a client.
#[derive(Debug)]
pub struct Authenticator {
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

/// Fills bytes with random numbers.
type FillRandom = dyn Fn(&mut [u8]) + Send + Sync;

/// A delegation token, and the random numbers for its nonces.
struct TokenLogin {
    token: Mutex<DelegationToken>,
    /// The file that may have a later token.
    file: Option<PathBuf>,
    fill_random: Box<FillRandom>,
}

impl TokenLogin {
    /// Returns the token for a new connection. Reads the file, which may have another one now.
    async fn token(&self) -> DelegationToken {
        let known = || self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = &self.file else {
            return known().clone();
        };
        let path = file.clone();
        let read = spawn_blocking(move || read_token_file(&path)).await;
        let mut known = known();
        match read {
            Ok(Ok(tokens)) => match latest_token(&tokens, known.cluster_id()) {
                Some(token) => known.clone_from(token),
                None => tracing::warn!("the token file has no token of the cluster any more"),
            },
            Ok(Err(error)) => tracing::warn!(
                error = %format_args!("token file {}: {error}", file.display()),
                "the former delegation token stays in use"
            ),
            // The runtime is shutting down.
            Err(_) => {}
        }
        known.clone()
    }
}

impl fmt::Debug for TokenLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenLogin")
            .field("token", &self.token)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Returns the authenticator of a client. `None` means SIMPLE authentication. The timeout limits
    /// the question for the time, and half of it the wait for keys; the size is that of answers.
    #[must_use]
    pub fn new(
        options: &AuthenticationOptions,
        connect_timeout: Duration,
        max_frame_size: usize,
    ) -> Option<Self> {
        if options.is_simple() {
            return None;
        }
        let kerberos = options.kerberos.as_ref().map(|kerberos| {
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
            token_file: options.token_file.clone(),
            protection: options.protection.clone(),
            fallback_to_simple: options.fallback_to_simple,
            aes: options.aes,
            effective_user: options.effective_user.clone(),
            connect_timeout,
            max_frame_size,
        })
    }

    /// Sets the token of the cluster, once. The function fills bytes with random numbers.
    pub fn use_token(&self, token: DelegationToken, fill_random: impl Fn(&mut [u8]) + Send + Sync + 'static) {
        self.token.get_or_init(|| TokenLogin {
            token: Mutex::new(token),
            file: self.token_file.clone(),
            fill_random: Box::new(fill_random),
        });
    }

    /// Returns how the client authenticates to ZooKeeper. Returns `None` without Kerberos.
    #[must_use]
    pub fn quorum_login(&self) -> Option<QuorumLogin> {
        let (kerberos, credentials) = self.kerberos.as_ref()?;
        let service = kerberos.zookeeper_service().to_owned();
        Some(QuorumLogin::new(credentials.clone(), service))
    }

    /// Compares the wall clock with that of a key distribution centre. Returns `None` if connections
    /// need no ticket.
    ///
    /// # Errors
    ///
    /// Returns an error if no key distribution centre reports its time within the connect timeout.
    pub async fn kdc_clock(
        &self,
        wall_clock: impl Fn() -> SystemTime + Send + 'static,
    ) -> Result<Option<KdcClock>, AuthenticationError> {
        match (self.token.get(), &self.kerberos) {
            (None, Some((_, credentials))) => {
                let compared = kdc_time::compare(credentials.clone(), wall_clock, self.connect_timeout);
                compared.await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns whether a server of this role should be asked for its principal first: the registry is
    /// served by masters and region servers, and their principals differ.
    #[must_use]
    pub fn asks_for_principal(&self, role: Role) -> bool {
        match (self.token.get(), &self.kerberos) {
            (None, Some((kerberos, _))) if role == Role::Registry => {
                matches!(principals(kerberos), (Ok(master), Ok(region_server)) if master != region_server)
            }
            _ => false,
        }
    }

    /// Authenticates a new connection. [`protect`](Self::protect) has to follow.
    ///
    /// # Errors
    ///
    /// Returns an error if the server or this client refuses, or the stream fails.
    ///
    /// # Cancel safety
    ///
    /// A step that blocks ends on its own thread.
    pub async fn negotiate<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        target: Target<'_>,
    ) -> Result<Accepted, HandshakeError> {
        match (self.token.get(), &self.kerberos) {
            (Some(login), _) => self.present_token(stream, login).await,
            (None, Some((kerberos, credentials))) => {
                let service = principal_of(kerberos, target)?.on(target.host, kerberos.host_as_named());
                let mechanism = Gssapi::new(credentials.clone(), service, self.protection.clone());
                negotiate_tickets(stream, mechanism, credentials).await
            }
            (None, None) => Err(AuthenticationError::NoToken.into()),
        }
    }

    /// Protects a stream that the server has accepted. `header` returns the connection header with its
    /// length, and `is_refusal` whether a message of the server refuses the connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has no security and that is not allowed, if it sends no keys for
    /// AES, or if the stream fails.
    pub async fn protect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        accepted: Accepted,
        header: impl Fn(Introduction<'_>) -> Bytes,
        is_refusal: IsRefusal,
    ) -> Result<Opened<SaslStream<S>>, HandshakeError> {
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
                    stream: SaslStream::plain(stream),
                    greeting: header(Introduction::Simple),
                    is_private: false,
                });
            }
        };
        let header = header(Introduction::Authenticated {
            effective_user: self.effective_user.as_deref(),
            cipher: self.aes.then_some(CIPHER),
        });
        let is_private = self.aes || layer.as_ref().is_some_and(|layer| layer.is_private());
        let mut stream = SaslStream::new(stream, layer, self.max_frame_size, is_refusal);
        let greeting = if self.aes {
            self.switch_to_aes(&mut stream, &header).await?;
            Bytes::new()
        } else {
            header
        };
        Ok(Opened {
            stream,
            greeting,
            is_private,
        })
    }

    /// Authenticates by the delegation token.
    async fn present_token<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        login: &TokenLogin,
    ) -> Result<Accepted, HandshakeError> {
        let mut nonce = [0; 24];
        (login.fill_random)(&mut nonce);
        let token = login.token().await;
        let mechanism = Digest::new(&token, base64(&nonce), self.protection.clone());
        match negotiate(stream, Box::new(mechanism)).await {
            Err(error) => Err(match refusal(&error) {
                Some(exception) => HandshakeError::from(AuthenticationError::TokenRefused {
                    exception,
                    user: token.user().to_owned(),
                }),
                None => error,
            }),
            accepted => accepted,
        }
    }

    /// Sends the header, and waits for the keys that the server sends. A server without AES sends
    /// nothing.
    async fn switch_to_aes<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut SaslStream<S>,
        header: &[u8],
    ) -> Result<(), HandshakeError> {
        let exchange = async {
            stream.write_all(header).await?;
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
            Ok(keys) => keys?,
            Err(_) => return Err(AuthenticationError::NoCipher(patience).into()),
        };
        let keys = keys.and_then(|keys| keys.crypto_cipher_meta);
        let keys = keys.ok_or(AuthenticationError::BadCipher("no keys for AES that can be read"))?;
        let layer = AesLayer::new(&keys)?;
        match stream.set_layer(Box::new(layer)) {
            0 => Ok(()),
            len => Err(MessageError::Trailing(len).into()),
        }
    }
}

/// Returns the exception by which a server refused the tokens of the client.
fn refusal(error: &HandshakeError) -> Option<ServerError> {
    match error {
        HandshakeError::Unauthenticated(AuthenticationError::Refused { exception, .. }) => {
            Some(exception.clone())
        }
        _ => None,
    }
}

/// Exchanges tokens. If the server refuses those of a keytab, its key may have changed: forgets
/// the tickets for it.
async fn negotiate_tickets<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    mechanism: Gssapi,
    credentials: &Credentials,
) -> Result<Accepted, HandshakeError> {
    let result = negotiate(stream, Box::new(mechanism)).await;
    if let Err(error) = &result
        && let Some(exception) = refusal(error)
        && let Credentials::Keytab(keytab) = credentials
    {
        return Err(HandshakeError::from(AuthenticationError::Refused {
            exception,
            has_new_tickets: keytab.forget_tickets(),
        }));
    }
    result
}

type Principal<'a> = Result<ServerPrincipal<'a>, AuthenticationError>;

/// Returns the principals of masters and region servers, as they are set.
fn principals(kerberos: &Kerberos) -> (Principal<'_>, Principal<'_>) {
    (
        ServerPrincipal::of_setting(MASTER, kerberos.master_principal()),
        ServerPrincipal::of_setting(REGION_SERVER, kerberos.region_server_principal()),
    )
}

/// Returns the principal of a server. A server of the registry that did not report its principal is
/// taken for a master.
fn principal_of<'a>(kerberos: &'a Kerberos, target: Target<'_>) -> Principal<'a> {
    let (master, region_server) = principals(kerberos);
    let (master, region_server) = match target.role {
        Role::Master => return master,
        Role::RegionServer => return region_server,
        Role::Registry => match (master, region_server) {
            (Ok(master), Ok(region_server)) if master != region_server => (master, region_server),
            (master, region_server) => return master.or(region_server),
        },
    };
    let Some(reported) = target.reported_principal else {
        return Ok(master);
    };
    // A master in one process with its region server names the user of the system.
    let Some(of_server) = ServerPrincipal::parse(reported) else {
        return Ok(master);
    };
    let mut settings = [master, region_server].into_iter();
    settings
        .find(|setting| setting.matches(&of_server))
        .ok_or_else(|| AuthenticationError::UnknownPrincipal(reported.to_owned()))
}

#[cfg(test)]
mod tests;
