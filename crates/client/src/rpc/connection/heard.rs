//! A stream that records its signs of life.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::liveness::Liveness;
use crate::rpc::connector::Io;

/// A stream below SASL, whose layer returns nothing before a message is whole. A server wraps a large
/// answer as one message, and is not silent while that comes in.
pub(in crate::rpc) struct Heard {
    inner: Box<dyn Io>,
    liveness: Arc<Liveness>,
}

impl Heard {
    pub(in crate::rpc) fn new(inner: Box<dyn Io>, liveness: &Arc<Liveness>) -> Self {
        Self {
            inner,
            liveness: Arc::clone(liveness),
        }
    }
}

impl AsyncRead for Heard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, buffer));
        if buffer.filled().len() > filled {
            self.liveness.hear();
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Heard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn bytes_that_come_in_are_signs_of_life() {
        let (ours, mut theirs) = duplex(16);
        let liveness = Arc::new(Liveness::new());
        let mut heard = Heard::new(Box::new(ours), &liveness);
        heard.write_all(b"?").await.unwrap();
        assert!(!liveness.has_heard());
        theirs.write_all(b"!").await.unwrap();
        assert_eq!(heard.read_u8().await.unwrap(), b'!');
        assert!(liveness.has_heard());
    }
}
