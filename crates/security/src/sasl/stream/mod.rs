//! The stream of an authenticated connection.

use std::{
    fmt,
    future::Future,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::{
    mechanism::SecurityLayer,
    messages::{self, Reply, decode_reply, is_late_error, take_wrapped},
};
use crate::authentication_error::AuthenticationError;

/// The maximum difference between the size of a wrapped message and that of its contents. A server
/// wraps an answer as a whole, whatever its size.
const MAX_OVERHEAD: usize = 64 << 10;
/// The minimum room to read into.
const ROOM: usize = 16 << 10;

/// Returns whether a message, without its length, is a frame with an exception about the connection.
pub type IsRefusal = fn(&[u8]) -> bool;

/// A stream that wraps what is written and unwraps what is read, if there is a layer.
///
/// A server that refuses the last token of the client sends an error, which is not wrapped, instead
/// of its first answer. Reading it fails with an [`AuthenticationError`] inside the [`io::Error`]. A
/// server that refuses the connection header may send a frame that is not wrapped, which is read as
/// it is: it can only end the connection, on which no call but a ping was made so far.
pub struct SaslStream<S> {
    inner: S,
    layer: Option<Box<dyn SecurityLayer>>,
    is_refusal: IsRefusal,
    /// The maximum size of a wrapped message of the server.
    max_wrapped: usize,
    /// Whether the server has sent anything but an error under the layer.
    is_accepted: bool,
    /// Whether a message could not be read. Nothing behind it may be read either.
    is_broken: bool,
    /// Bytes of the socket that are not unwrapped yet.
    received: BytesMut,
    /// Contents that are not read yet.
    plain: Bytes,
    /// A wrapped message that the socket has not taken yet.
    unsent: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> SaslStream<S> {
    pub(super) fn new(
        inner: S,
        layer: Option<Box<dyn SecurityLayer>>,
        max_frame_size: usize,
        is_refusal: IsRefusal,
    ) -> Self {
        Self {
            inner,
            layer,
            is_refusal,
            max_wrapped: max_frame_size.saturating_add(MAX_OVERHEAD),
            is_accepted: false,
            is_broken: false,
            received: BytesMut::new(),
            plain: Bytes::new(),
            unsent: BytesMut::new(),
        }
    }

    /// Creates the stream of a server without security, which is used as it is.
    pub(super) fn plain(inner: S) -> Self {
        Self {
            is_accepted: true,
            ..Self::new(inner, None, 0, |_| false)
        }
    }

    /// Replaces the layer between two messages. Returns the number of bytes that came in too early,
    /// under the old layer. The server may refuse the connection header only now.
    pub(super) fn set_layer(&mut self, layer: Box<dyn SecurityLayer>) -> usize {
        self.layer = Some(layer);
        self.is_accepted = false;
        self.plain.len()
    }

    /// Takes the contents of the next message, or all bytes if there is no layer. Returns `None` if
    /// the message is incomplete.
    fn take_plain(&mut self) -> io::Result<Option<Bytes>> {
        if self.received.len() < 4 {
            return Ok(None);
        }
        if !self.is_accepted && is_late_error(&self.received) {
            return match decode_reply(&mut self.received).map_err(invalid)? {
                Some(Reply::Error(error)) => Err(io::Error::other(AuthenticationError::from(error))),
                _ => Ok(None),
            };
        }
        let plain = match &mut self.layer {
            None => self.received.split().freeze(),
            Some(layer) => match take_wrapped(&mut self.received, self.max_wrapped).map_err(invalid)? {
                Some(frame) if !self.is_accepted && (self.is_refusal)(&frame) => messages::token(&frame),
                Some(wrapped) => layer.unwrap(wrapped)?,
                None => return Ok(None),
            },
        };
        self.is_accepted = true;
        Ok(Some(plain))
    }

    /// Reads until there are contents or the stream ends.
    fn poll_plain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.plain.is_empty() {
            if let Some(plain) = self.take_plain()? {
                self.plain = plain;
                continue;
            }
            // The room grows with the received bytes and not with the announced length.
            if self.received.capacity() - self.received.len() < ROOM / 4 {
                self.received.reserve(self.received.len().max(ROOM));
            }
            let read = pin!(self.inner.read_buf(&mut self.received));
            if ready!(read.poll(context))? == 0 {
                return Poll::Ready(if self.received.is_empty() {
                    Ok(())
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                });
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the rest of the wrapped message.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let write = pin!(self.inner.write_buf(&mut self.unsent));
            if ready!(write.poll(context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for SaslStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.layer.is_none() && self.is_accepted && self.plain.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        if let Err(error) = ready!(self.poll_plain(context)) {
            self.is_broken = true;
            return Poll::Ready(Err(error));
        }
        let len = self.plain.len().min(buffer.remaining());
        buffer.put_slice(&self.plain.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SaslStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    /// Wraps the first bytes as one message, and begins to write it.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(context))?;
        let this = &mut *self;
        let Some(layer) = &mut this.layer else {
            return Pin::new(&mut this.inner).poll_write_vectored(context, slices);
        };
        let mut message = Vec::new();
        for slice in slices {
            let room = layer.max_message() - message.len();
            message.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        if message.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let wrapped = layer.wrap(&message)?;
        let len = i32::try_from(wrapped.len()).map_err(invalid)?;
        this.unsent.put_i32(len);
        this.unsent.put_slice(&wrapped);
        match this.poll_drain(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(message.len())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.layer.is_some() || self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl<S: fmt::Debug> fmt::Debug for SaslStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslStream")
            .field("inner", &self.inner)
            .field("layer", &self.layer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
