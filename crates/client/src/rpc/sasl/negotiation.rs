//! The exchange of tokens with a server.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    authentication_error::AuthenticationError,
    mechanism::{Mechanism, SecurityLayer, Step},
    thread::take_step,
};
use crate::{
    rpc::{call_error::CallError, connector::Io},
    wire::{
        frame::{AnswerError, FrameError, ResponseDecoder},
        preamble::preamble,
        sasl::{Reply, decode_reply, token},
    },
};

/// The maximum size of a frame instead of a token: an exception with its trace.
const MAX_FRAME: usize = 1 << 20;

/// How a server accepted the client.
#[derive(Debug)]
pub(super) enum Accepted {
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
pub(super) async fn negotiate<S: Io>(
    stream: &mut S,
    mechanism: Box<dyn Mechanism>,
) -> Result<Accepted, CallError> {
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
                return Err(lost(error));
            }
            unsent.clear();
        }
        if is_last {
            return match received.len() {
                0 => Ok(Accepted::Authenticated(mechanism.into_layer())),
                len => Err(garbled(FrameError::Trailing(len))),
            };
        }
        match read_reply(stream, &mut received).await? {
            Reply::Token(token) => {
                (mechanism, next) = take_step(mechanism, token).await?;
            }
            Reply::UseSimple => return Ok(Accepted::Simple),
            Reply::Error(error) => return Err(AuthenticationError::from(error).into()),
            Reply::Frame => return Err(read_fault(stream, received).await),
        }
    }
}

async fn read_reply<S: Io>(stream: &mut S, received: &mut BytesMut) -> Result<Reply, CallError> {
    loop {
        if let Some(reply) = decode_reply(received).map_err(garbled)? {
            return Ok(reply);
        }
        read(stream, received).await?;
    }
}

/// Reads the frame of a server that does not accept the method at all.
async fn read_fault<S: Io>(stream: &mut S, mut received: BytesMut) -> CallError {
    let mut decoder = ResponseDecoder::new(MAX_FRAME);
    loop {
        match decoder.decode(&mut received) {
            Ok(Some(answer)) => {
                return match answer.outcome {
                    Err(AnswerError::Fault(fault)) => CallError::Refused {
                        sent: false,
                        fault: Arc::new(fault),
                    },
                    _ => CallError::BadAnswer(Arc::from("it is no token of the authentication")),
                };
            }
            Ok(None) => {
                if let Err(error) = read(stream, &mut received).await {
                    return error;
                }
            }
            Err(error) => return garbled(error),
        }
    }
}

async fn read<S: Io>(stream: &mut S, received: &mut BytesMut) -> Result<(), CallError> {
    match stream.read_buf(received).await {
        Ok(0) => Err(lost(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the server closed the connection while it authenticated the client",
        ))),
        Ok(_) => Ok(()),
        Err(error) => Err(lost(error)),
    }
}

fn lost(error: io::Error) -> CallError {
    CallError::of_socket(error)
}

fn garbled(error: FrameError) -> CallError {
    CallError::Garbled {
        sent: false,
        cause: Arc::new(error),
    }
}

#[cfg(test)]
mod tests;
