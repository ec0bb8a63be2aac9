//! How connections are opened.
//!
//! HBase loads the class of a compressor when a connection opens, and hangs up without an answer if
//! there is none. It needs the class's library for the first cells only, and a call whose answer has
//! any may then end without an answer. So each connection with a compressor begins with a request
//! that has cells.

use std::{io, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt;
use hbase_security::{Authenticator, TlsClient, TlsFailure, TlsKeys};
use tokio::time::{Instant, timeout};

use super::{
    authentication_probe,
    call_error::CallError,
    connection::{Answer, Heard, Link, Liveness, RpcConnection},
    connector::{Connector, DialTarget, Io, ServiceKind, dial_mapped},
    registry_query, security, tls_probe,
};
use crate::{
    config::{Config, MappedAddress},
    wire::{cell_block::Codec, compression::Compression, connection_header::Header, frame::FrameError, ping},
};

/// The exception that a ping with cells gets if its cells were read.
const NO_REGION: &str = "org.apache.hadoop.hbase.NotServingRegionException";

/// What all connections of a client have in common.
#[derive(Debug)]
pub(super) struct Dialler {
    connector: Arc<dyn Connector>,
    address_map: Vec<MappedAddress>,
    user: String,
    attributes: Vec<(String, Bytes)>,
    connect_timeout: Duration,
    max_frame_size: usize,
    idle_timeout: Duration,
    compression: Option<Compression>,
    /// Whether connections have TLS or SASL of this client.
    seals: bool,
    tls: Option<Arc<TlsClient>>,
    authenticator: Option<Authenticator>,
}

impl Dialler {
    pub(super) fn new(config: &Config, connector: Arc<dyn Connector>) -> Self {
        let mut dialler = Self {
            connector,
            address_map: config.address_map().to_vec(),
            user: config.user().to_owned(),
            attributes: config.connection_attributes().to_vec(),
            connect_timeout: config.connect_timeout(),
            max_frame_size: config.max_frame_size(),
            idle_timeout: config.idle_timeout(),
            compression: config.compression(),
            seals: false,
            tls: config
                .tls()
                .map(|options| Arc::new(TlsClient::new(options.clone(), &TlsKeys::HBASE))),
            authenticator: Authenticator::new(
                config.authentication(),
                config.connect_timeout(),
                config.max_frame_size(),
            ),
        };
        dialler.seals = dialler.has_tls() || !dialler.is_simple();
        dialler
    }

    /// Whether connections have TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the compression of the cells of a service. The messages of all but one have none.
    pub(super) fn compression_to(&self, service: ServiceKind) -> Option<Compression> {
        self.compression.filter(|_| service == ServiceKind::Client)
    }

    /// Returns whether connections have SIMPLE authentication.
    pub(super) fn is_simple(&self) -> bool {
        self.authenticator.is_none()
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// Returns [`CallError::Compressor`] if the server can use a connection without the compressor,
    /// but none with it, in two attempts. Returns the failure of the last attempt otherwise.
    pub(super) async fn open(&self, target: &DialTarget, codec: Codec) -> Result<RpcConnection, CallError> {
        let Some(compression) = self.compression_to(target.service) else {
            let connection = self.dial(target, codec, None).await?;
            return if self.seals {
                self.accepted(connection).await
            } else {
                Ok(connection)
            };
        };
        let (connection, answer) = self.dial_and_ping(target, codec, Some(compression)).await?;
        if has_read(&answer) {
            return Ok(connection);
        }
        let (_, plain) = self.dial_and_ping(target, codec, None).await?;
        if !has_read(&plain) {
            return Err(failure(answer).before_any_call());
        }
        // The server may have stopped and started meanwhile.
        let (connection, answer) = self.dial_and_ping(target, codec, Some(compression)).await?;
        match answer {
            _ if has_read(&answer) => Ok(connection),
            Err(CallError::Remote(fault) | CallError::Refused { fault, .. }) => Err(CallError::Compressor {
                class: compression.class(),
                fault: Some(fault),
            }),
            Err(CallError::Lost { .. }) => Err(CallError::Compressor {
                class: compression.class(),
                fault: None,
            }),
            answer => Err(failure(answer).before_any_call()),
        }
    }

    /// Opens a connection, and sends a request with cells.
    async fn dial_and_ping(
        &self,
        target: &DialTarget,
        codec: Codec,
        compression: Option<Compression>,
    ) -> Result<(RpcConnection, Answer), CallError> {
        let cells = Bytes::from_static(ping::CELL);
        let cells = match compression {
            Some(compression) => compression.compress(&cells).map_err(CallError::uncompressible)?,
            None => cells,
        };
        let connection = self.dial(target, codec, compression).await?;
        let deadline = Instant::now() + self.connect_timeout;
        let answer = connection.ping_with(cells, deadline).await;
        Ok((connection, answer))
    }

    async fn dial(
        &self,
        target: &DialTarget,
        codec: Codec,
        compression: Option<Compression>,
    ) -> Result<RpcConnection, CallError> {
        let stream = self.connect(target).await?;
        let is_transparent = self.connector.is_transparent() || (*stream).is_tcp_stream();
        let sealed = self.seals || !is_transparent;
        let liveness = Arc::new(Liveness::new());
        let header = Header {
            service: target.service.wire(),
            codec,
            compression,
            effective_user: Some(&self.user),
            cipher: None,
            attributes: &self.attributes,
        };
        let has_tls = self.has_tls();
        let start = |io, liveness, greeting, is_private| {
            let link = Link {
                io,
                sealed,
                is_private: is_private || has_tls,
                liveness,
                idle_timeout: self.idle_timeout,
            };
            RpcConnection::start(link, header.service, greeting, self.max_frame_size)
        };
        if let Some(authenticator) = &self.authenticator {
            let heard = |stream| -> Box<dyn Io> { Box::new(Heard::new(stream, &liveness)) };
            let again = async { self.connect(target).await.map(heard) };
            let limit = self.connect_timeout;
            let opened = security::authenticate(authenticator, heard(stream), again, target, header, limit);
            let opened = opened.await?;
            return Ok(start(opened.stream, liveness, opened.greeting, opened.is_private));
        }
        Ok(start(stream, liveness, header.opening(), false))
    }

    /// Returns a connection with TLS or SASL when the server has answered a ping. Until then, a refusal
    /// of the connection is not sealed. An attacker could send one for a call that the server has
    /// executed.
    async fn accepted(&self, connection: RpcConnection) -> Result<RpcConnection, CallError> {
        let deadline = Instant::now() + self.connect_timeout;
        match connection.ping_with(Bytes::new(), deadline).await {
            Ok(_) | Err(CallError::Remote(_)) => Ok(connection),
            Err(error) => Err(error.before_any_call()),
        }
    }

    /// Returns the authenticator, if connections are authenticated.
    pub(super) fn authenticator(&self) -> Option<&Authenticator> {
        self.authenticator.as_ref()
    }

    /// Asks a server for the id of its cluster. Returns `None` if it does not answer.
    pub(super) async fn cluster_id(&self, target: &DialTarget) -> Option<String> {
        let mut stream = self.connect(target).await.ok()?;
        timeout(self.connect_timeout, registry_query::cluster_id(&mut stream))
            .await
            .ok()?
    }

    /// Returns the reason why a server hangs up, if a new connection shows it.
    pub(super) async fn why_it_hangs_up(&self, target: &DialTarget, deadline: Instant) -> Option<CallError> {
        if !self.has_tls() && tls_probe::is_spoken(self.dialled(target), deadline).await {
            let cause = Arc::new(FrameError::Tls);
            return Some(CallError::Garbled { sent: false, cause });
        }
        if self.has_tls() && authentication_probe::is_answered(self.dialled(target), deadline).await {
            return Some(CallError::Tls(Arc::new(TlsFailure::not_spoken(&TlsKeys::HBASE))));
        }
        let requires_more =
            self.is_simple() && authentication_probe::is_required(self.connect(target), deadline).await;
        requires_more.then_some(CallError::AuthenticationRequired)
    }

    /// Opens a stream to a server by the connector.
    async fn dialled(&self, target: &DialTarget) -> io::Result<Box<dyn Io>> {
        let service = target.service;
        let dial = |address| self.connector.connect(&DialTarget { address, service });
        dial_mapped(&self.address_map, &target.address, dial).await
    }

    /// Opens a stream to a server, with TLS if the client has it.
    pub(super) async fn connect(&self, target: &DialTarget) -> Result<Box<dyn Io>, CallError> {
        let stream = timeout(self.connect_timeout, async {
            let stream = self.dialled(target).await?;
            self.secured(stream, target).await
        });
        // A connector is the user's code. If it panics, its target must not stay in the dialling
        // state.
        let stream = AssertUnwindSafe(stream)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Ok(Err(io::Error::other("the connector panicked"))));
        match stream {
            Ok(stream) => stream.map_err(CallError::of_dial),
            Err(_) => Err(CallError::DialTimeout(self.connect_timeout)),
        }
    }

    /// Returns the stream with TLS, if the client has it. The cluster's name of the server counts,
    /// because a connector may dial another one.
    async fn secured(&self, stream: Box<dyn Io>, target: &DialTarget) -> io::Result<Box<dyn Io>> {
        let Some(tls) = &self.tls else {
            return Ok(stream);
        };
        let stream = tls.handshake(stream, &target.address.host).await?;
        Ok(Box::new(stream))
    }
}

fn has_read(answer: &Answer) -> bool {
    matches!(answer, Err(CallError::Remote(fault)) if fault.class == NO_REGION)
}

fn failure(answer: Answer) -> CallError {
    match answer {
        Err(error) => error,
        Ok(_) => CallError::BadAnswer(Arc::from("it is a row of a region that does not exist")),
    }
}

#[cfg(test)]
#[cfg(feature = "compression")]
mod tests;
