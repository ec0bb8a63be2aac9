//! The exchange of tokens with a server.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{
    mechanism::{Mechanism, SecurityLayer},
    messages::{Reply, decode_reply, token},
    thread::take_step,
};
use crate::{
    authentication_error::AuthenticationError,
    handshake::{HandshakeError, MessageError, Step},
    preamble::preamble,
};

/// How a server accepted the client.
#[derive(Debug)]
pub enum Accepted {
    /// The client is authenticated, and what follows is protected by this layer.
    Authenticated(Option<Box<dyn SecurityLayer>>),
    /// The server authenticates no clients. The connection header follows, with the user's name.
    Simple,
}

/// Sends the preamble, and exchanges tokens until the client is authenticated. The server may still
/// refuse the last token, after this function has returned.
///
/// # Cancel safety
///
/// A step that blocks ends on its own thread.
pub(super) async fn negotiate<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    mechanism: Box<dyn Mechanism>,
) -> Result<Accepted, HandshakeError> {
    let mut received = BytesMut::new();
    let mut unsent = preamble(mechanism.method()).to_vec();
    let (mut mechanism, mut next) = take_step(mechanism, Bytes::new()).await?;
    loop {
        let is_last = match next {
            Step::Continue(ref bytes) | Step::Last(ref bytes) => {
                unsent.extend_from_slice(&token(bytes));
                !matches!(next, Step::Continue(_))
            }
            Step::Complete => true,
        };
        if !unsent.is_empty() {
            let sent = async {
                stream.write_all(&unsent).await?;
                stream.flush().await
            };
            // The answer of a server that hung up explains more than the failed write.
            if let Err(error) = sent.await
                && is_last
            {
                return Err(error.into());
            }
            unsent.clear();
        }
        if is_last {
            return match received.len() {
                0 => Ok(Accepted::Authenticated(mechanism.into_layer())),
                len => Err(MessageError::Trailing(len).into()),
            };
        }
        match read_reply(stream, &mut received).await? {
            Reply::Token(token) => {
                (mechanism, next) = take_step(mechanism, token).await?;
            }
            Reply::UseSimple => return Ok(Accepted::Simple),
            Reply::Error(error) => return Err(AuthenticationError::from(error).into()),
            Reply::Frame => return Err(HandshakeError::Frame(received)),
        }
    }
}

async fn read_reply<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    received: &mut BytesMut,
) -> Result<Reply, HandshakeError> {
    loop {
        if let Some(reply) = decode_reply(received)? {
            return Ok(reply);
        }
        read(stream, received).await?;
    }
}

async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    received: &mut BytesMut,
) -> Result<(), HandshakeError> {
    match stream.read_buf(received).await? {
        0 => Err(closed().into()),
        _ => Ok(()),
    }
}

/// Returns the error of a stream whose server has closed it.
fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the server closed the connection while it authenticated the client",
    )
}

#[cfg(test)]
mod tests;
