//! The client's end of a proxied stream.

use std::{
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use hbase_txn::client::ServiceKind;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::Shared;

/// One end of a pipe whose other end the relay has. It is open until the client drops it.
pub(super) struct ClientEnd {
    pipe: DuplexStream,
    service: ServiceKind,
    broken: bool,
    shared: Arc<Shared>,
}

impl ClientEnd {
    pub(super) fn new(pipe: DuplexStream, service: ServiceKind, shared: Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::Relaxed);
        Self {
            pipe,
            service,
            broken: false,
            shared,
        }
    }

    /// Returns how many bytes this write takes before the stream breaks, if this is the write that
    /// must break it.
    fn write_limit(&self) -> Option<usize> {
        match self.service {
            ServiceKind::Client => self.shared.break_write.lock().unwrap().take(),
            _ => None,
        }
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for ClientEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut taken = bytes.len();
        if let Some(limit) = self.write_limit() {
            taken = taken.min(limit);
            self.broken = true;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
        }
        Pin::new(&mut self.pipe).poll_write(context, &bytes[..taken])
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}
