//! A session with one server of a quorum, over any stream.

use std::{io, time::Duration};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[cfg(feature = "kerberos")]
use crate::rpc::{AuthenticationError, QuorumExchange, Step};
use crate::{
    rpc::Io,
    wire::zookeeper::{self as wire, ErrorCode, FrameError, PREFIX, Request},
};

/// Why a server of the quorum gave no answer, as what it did.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// It closes connections while it belongs to no quorum, also those of clients that do not
    /// accept a read-only session.
    #[error("closed the connection instead of opening a session")]
    NotServing,
    #[error("opened no session")]
    Refused,
    #[error("closed the connection before it answered")]
    Closed,
    #[error("ended the connection ({0})")]
    Io(#[from] io::Error),
    #[error("does not answer as ZooKeeper does: {0}")]
    Frame(#[from] FrameError),
    #[error("answered {0}")]
    Failed(ErrorCode),
    #[cfg(feature = "kerberos")]
    #[error("did not authenticate this client: {0}")]
    Unauthenticated(#[from] AuthenticationError),
}

/// The maximum number of tokens that a client sends. Kerberos needs three.
#[cfg(feature = "kerberos")]
const MAX_TOKENS: usize = 10;

/// An open session. It sends no heartbeats: the server ends it when it is silent for its timeout.
/// A dropped session closes its connection, and ends with that timeout.
#[derive(Debug)]
pub(super) struct Session<S> {
    stream: S,
    last_xid: i32,
}

impl<S: Io> Session<S> {
    /// Opens a session that ends when it is silent for this time, or for the shortest time that
    /// the server accepts.
    pub(super) async fn open(mut stream: S, timeout: Duration) -> Result<Self, SessionError> {
        stream.write_all(&wire::connect_request(timeout)).await?;
        stream.flush().await?;
        let response = match read_frame(&mut stream).await {
            Err(SessionError::Closed) => return Err(SessionError::NotServing),
            response => response?,
        };
        match wire::decode_connect_response(response)? {
            true => Ok(Self { stream, last_xid: 0 }),
            false => Err(SessionError::Refused),
        }
    }

    /// Exchanges tokens until the client is authenticated.
    #[cfg(feature = "kerberos")]
    pub(super) async fn authenticate(&mut self, mut exchange: QuorumExchange) -> Result<(), SessionError> {
        let mut received = Bytes::new();
        for _ in 0..MAX_TOKENS {
            let (token, is_last) = match exchange.step(received).await? {
                Step::Continue(token) => (token, false),
                Step::Last(token) => (token, true),
                Step::Complete => return Ok(()),
            };
            let reply = self.call(Request::Sasl(&token)).await?;
            let answer = wire::decode_token(reply.map_err(SessionError::Failed)?)?;
            received = match answer {
                _ if is_last => return Ok(()),
                Some(token) => token,
                None => return Err(AuthenticationError::QuorumWithoutKerberos.into()),
            };
        }
        Err(AuthenticationError::BadToken.into())
    }

    /// Returns the data of a znode, or `None` if the znode does not exist.
    pub(super) async fn data(&mut self, path: &str) -> Result<Option<Bytes>, SessionError> {
        match self.call(Request::GetData(path)).await? {
            Ok(body) => Ok(Some(wire::decode_data(body)?)),
            Err(ErrorCode::NO_NODE) => Ok(None),
            Err(code) => Err(SessionError::Failed(code)),
        }
    }

    /// Returns whether a znode exists.
    pub(super) async fn exists(&mut self, path: &str) -> Result<bool, SessionError> {
        match self.call(Request::Exists(path)).await? {
            Ok(body) => {
                wire::decode_stat(&body)?;
                Ok(true)
            }
            Err(ErrorCode::NO_NODE) => Ok(false),
            Err(code) => Err(SessionError::Failed(code)),
        }
    }

    /// Ends the session. The server reads the request before the end of the stream, so nothing
    /// waits for its reply.
    pub(super) async fn close(mut self) -> Result<(), SessionError> {
        self.send(Request::CloseSession).await?;
        self.stream.shutdown().await?;
        Ok(())
    }

    async fn call(&mut self, request: Request<'_>) -> Result<Result<Bytes, ErrorCode>, SessionError> {
        self.send(request).await?;
        let frame = read_frame(&mut self.stream).await?;
        Ok(wire::decode_reply(frame, self.last_xid)?)
    }

    async fn send(&mut self, request: Request<'_>) -> io::Result<()> {
        self.last_xid += 1;
        self.stream.write_all(&request.encode(self.last_xid)).await?;
        self.stream.flush().await
    }
}

/// Reads a frame. Room grows with the bytes that arrive, not with the announced length.
async fn read_frame(stream: &mut impl Io) -> Result<Bytes, SessionError> {
    let mut prefix = [0; PREFIX];
    match stream.read_exact(&mut prefix).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(SessionError::Closed),
        read => read?,
    };
    let length = wire::frame_length(prefix)?;
    let mut frame = Vec::new();
    stream.take(length as u64).read_to_end(&mut frame).await?;
    if frame.len() < length {
        return Err(SessionError::Closed);
    }
    Ok(frame.into())
}

#[cfg(test)]
#[cfg(feature = "kerberos")]
mod tests;
