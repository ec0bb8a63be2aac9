//! How the servers of a quorum are reached.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use hbase_security::{AuthenticationError, QuorumExchange, QuorumLogin, Step, TlsClient, TlsKeys};
use hbase_zookeeper::{Session, SessionError};
use tokio::{net::TcpStream, time::timeout};

use super::failure::Failure;
use crate::{
    config::{Config, HostPort, MappedAddress},
    rpc::{self, Io, RpcClient},
};

type OpenSession = Session<Box<dyn Io>>;

/// The maximum number of tokens that a client sends. Kerberos needs three.
const MAX_TOKENS: usize = 10;

/// The way to the servers of a quorum: addresses, TLS, and the authentication if they require it.
#[derive(Debug)]
pub(in crate::cluster::registry) struct Access {
    address_map: Vec<MappedAddress>,
    tls: Option<Arc<TlsClient>>,
    login: Option<QuorumLogin>,
}

impl Access {
    pub(in crate::cluster::registry) fn new(config: &Config, rpc: &RpcClient) -> Self {
        Self {
            address_map: config.address_map().to_vec(),
            tls: config
                .zookeeper_tls()
                .map(|options| Arc::new(TlsClient::new(options.clone(), &TlsKeys::ZOOKEEPER))),
            login: rpc.quorum_login(),
        }
    }

    /// Whether connections have TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Opens an anonymous session.
    pub(super) async fn open(&self, host: &HostPort, limit: Duration) -> Result<OpenSession, Failure> {
        let stream = self.dial(host).await?;
        Ok(Session::open(stream, limit).await?)
    }

    /// Opens a TCP connection.
    pub(super) async fn connect(&self, host: &HostPort) -> io::Result<TcpStream> {
        let dial = async |address| rpc::dial_tcp(&address).await;
        rpc::dial_mapped(&self.address_map, host, dial).await
    }

    async fn dial(&self, host: &HostPort) -> Result<Box<dyn Io>, Failure> {
        let stream = self.connect(host).await.map_err(Failure::Dial)?;
        if let Some(tls) = &self.tls {
            let secured = tls.handshake(stream, &host.host).await;
            return Ok(Box::new(secured.map_err(Failure::Tls)?));
        }
        Ok(Box::new(stream))
    }

    /// Opens a session, and authenticates. Returns `None` if the client can't.
    pub(super) async fn open_authenticated(
        &self,
        host: &HostPort,
        limit: Duration,
    ) -> Result<Option<OpenSession>, Failure> {
        let Some(login) = &self.login else {
            return Ok(None);
        };
        let mut session = self.open(host, limit).await?;
        // The whole query has the limit, and its end would not tell the reason.
        let patience = limit / 2;
        let exchange = login.exchange_with(&host.host);
        match timeout(patience, authenticate(&mut session, exchange)).await {
            Ok(Ok(())) => Ok(Some(session)),
            Ok(Err(Failure::Session(SessionError::Failed(code)))) => {
                Err(login.refused(&host.host, code).into())
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(AuthenticationError::Timeout(patience).into()),
        }
    }
}

/// The tokens of a client for one server, which tests replace.
trait Tokens: Send {
    /// Reads a token of the server, which is empty at first.
    fn step(&mut self, token: Bytes) -> impl Future<Output = Result<Step, AuthenticationError>> + Send;
}

impl Tokens for QuorumExchange {
    async fn step(&mut self, token: Bytes) -> Result<Step, AuthenticationError> {
        self.step(token).await
    }
}

/// Exchanges tokens until the client is authenticated.
async fn authenticate(session: &mut Session<impl Io>, mut tokens: impl Tokens) -> Result<(), Failure> {
    let mut received = Bytes::new();
    for _ in 0..MAX_TOKENS {
        let (token, is_last) = match tokens.step(received).await? {
            Step::Continue(token) => (token, false),
            Step::Last(token) => (token, true),
            Step::Complete => return Ok(()),
        };
        received = match session.exchange(&token).await? {
            _ if is_last => return Ok(()),
            Some(token) => token,
            None => return Err(AuthenticationError::QuorumWithoutKerberos.into()),
        };
    }
    Err(AuthenticationError::BadToken.into())
}

#[cfg(test)]
mod tests;
