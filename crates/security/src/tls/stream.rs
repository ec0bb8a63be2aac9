//! The stream of a TLS connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client;

use super::failure::Peer;
use crate::tls_failure::TlsFailure;

/// A TLS connection to a server.
///
/// With TLS 1.3 the server checks the client's certificate after the handshake. Its refusal
/// arrives at the first read, and fails it with a [`TlsFailure`].
#[derive(Debug)]
pub struct TlsStream<S> {
    inner: client::TlsStream<S>,
    peer: Peer,
    /// Whether the server has sent data, so it has accepted the connection.
    is_accepted: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    pub(super) fn new(inner: client::TlsStream<S>, peer: Peer) -> Self {
        Self {
            inner,
            peer,
            is_accepted: false,
        }
    }

    /// Whether a write failed because the server has hung up before it sent data. The reason is in
    /// the bytes that were not read yet, so such a write succeeds and the read fails.
    fn is_for_the_reader(&self, error: &io::Error) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        !self.is_accepted && matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, buffer));
        self.is_accepted |= buffer.filled().len() > filled;
        Poll::Ready(read.map_err(|error| match error.kind() {
            // A server that is killed says no goodbye.
            io::ErrorKind::UnexpectedEof => io::ErrorKind::UnexpectedEof.into(),
            _ if self.is_accepted => error,
            _ => TlsFailure::explain(error, &self.peer),
        }))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(Pin::new(&mut self.inner).poll_write(context, bytes)) {
            Err(error) if self.is_for_the_reader(&error) => Poll::Ready(Ok(bytes.len())),
            written => Poll::Ready(written),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match ready!(Pin::new(&mut self.inner).poll_write_vectored(context, slices)) {
            Err(error) if self.is_for_the_reader(&error) => {
                Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
            }
            written => Poll::Ready(written),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.inner).poll_flush(context)) {
            Err(error) if self.is_for_the_reader(&error) => Poll::Ready(Ok(())),
            flushed => Poll::Ready(flushed),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
