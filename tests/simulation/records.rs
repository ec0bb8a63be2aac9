//! A transport that sends records, as TLS does: a write may fail although its bytes have left.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use fastrand::Rng;
use futures::future::BoxFuture;
use hbase_fake::FakeConnector;
use hbase_txn::client::{Connector, DialTarget, Io};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The part of the writes that fail, after the server has sent anything: a client of a server that hangs up
/// before tries other ways to authenticate.
const FAILURES: f64 = 0.03;

#[derive(Debug)]
pub(crate) struct Records {
    inner: FakeConnector,
    rng: Arc<Mutex<Rng>>,
}

struct RecordStream {
    inner: Box<dyn Io>,
    has_heard: bool,
    rng: Arc<Mutex<Rng>>,
}

impl Records {
    pub(crate) fn new(inner: FakeConnector, rng: Rng) -> Self {
        Self {
            inner,
            rng: Arc::new(Mutex::new(rng)),
        }
    }
}

impl Connector for Records {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (inner, rng) = (self.inner.connect(target), Arc::clone(&self.rng));
        Box::pin(async move {
            let inner = inner.await?;
            Ok(Box::new(RecordStream {
                inner,
                has_heard: false,
                rng,
            }) as Box<dyn Io>)
        })
    }
}

impl AsyncRead for RecordStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.has_heard |= buffer.filled().len() > filled;
        read
    }
}

impl AsyncWrite for RecordStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if self.has_heard
            && matches!(written, Poll::Ready(Ok(_)))
            && self.rng.lock().unwrap().f64() < FAILURES
        {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
