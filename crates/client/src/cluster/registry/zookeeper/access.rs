//! How the servers of a quorum are reached.

#[cfg(feature = "tls")]
use std::sync::Arc;
use std::{io, time::Duration};

use tokio::net::TcpStream;
#[cfg(feature = "kerberos")]
use tokio::time::timeout;

#[cfg(feature = "kerberos")]
use super::session::SessionError;
use super::{failure::Failure, session::Session};
#[cfg(feature = "kerberos")]
use crate::rpc::{AuthenticationError, QuorumLogin};
#[cfg(feature = "tls")]
use crate::{config::TlsKeys, tls::TlsClient};
use crate::{
    config::{Config, HostPort, MappedAddress},
    rpc::{self, Io, RpcClient},
};

type OpenSession = Session<Box<dyn Io>>;

/// The way to the servers of a quorum: addresses, TLS, and the authentication if they require it.
#[derive(Debug)]
pub(in crate::cluster::registry) struct Access {
    address_map: Vec<MappedAddress>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<TlsClient>>,
    #[cfg(feature = "kerberos")]
    login: Option<QuorumLogin>,
}

impl Access {
    #[cfg_attr(
        not(feature = "kerberos"),
        allow(unused_variables, reason = "the feature reads the client")
    )]
    pub(in crate::cluster::registry) fn new(config: &Config, rpc: &RpcClient) -> Self {
        Self {
            address_map: config.address_map().to_vec(),
            #[cfg(feature = "tls")]
            tls: config
                .zookeeper_tls()
                .map(|options| Arc::new(TlsClient::new(options.clone(), &TlsKeys::ZOOKEEPER))),
            #[cfg(feature = "kerberos")]
            login: rpc.quorum_login(),
        }
    }

    /// Whether connections have TLS.
    pub(super) fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
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
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let secured = tls.handshake(stream, &host.host).await;
            return Ok(Box::new(secured.map_err(Failure::Tls)?));
        }
        Ok(Box::new(stream))
    }

    /// Opens a session, and authenticates. Returns `None` if the client can't.
    #[cfg(feature = "kerberos")]
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
        match timeout(patience, session.authenticate(exchange)).await {
            Ok(Ok(())) => Ok(Some(session)),
            Ok(Err(SessionError::Failed(code))) => Err(login.refused(&host.host, code).into()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(AuthenticationError::Timeout(patience).into()),
        }
    }

    /// Returns `None`: the client can't authenticate.
    #[cfg(not(feature = "kerberos"))]
    pub(super) async fn open_authenticated(
        &self,
        _: &HostPort,
        _: Duration,
    ) -> Result<Option<OpenSession>, Failure> {
        Ok(None)
    }
}
