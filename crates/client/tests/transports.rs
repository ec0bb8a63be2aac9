//! Transports of an application, on a fake cluster.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use hbase_client::{Append, Connection, Connector, DialTarget, Get, Io};
use hbase_fake::{FakeConnector, FakeHBase};
use rstest::rstest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose next write that has a mutation fails, before or after it sent the bytes.
struct Failing {
    inner: Box<dyn Io>,
    sends_first: bool,
    armed: Arc<AtomicBool>,
}

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for Failing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let fails =
            bytes.windows(6).any(|part| part == b"Mutate") && self.armed.swap(false, Ordering::Relaxed);
        if fails && !self.sends_first {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if fails {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        } else {
            written
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[derive(Debug)]
struct Tunnel {
    inner: FakeConnector,
    /// Whether it sends bytes whose write fails, as TLS may.
    sends_records: bool,
    armed: Arc<AtomicBool>,
}

impl Connector for Tunnel {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (inner, sends_first, armed) = (
            self.inner.connect(target),
            self.sends_records,
            Arc::clone(&self.armed),
        );
        Box::pin(async move {
            let inner = inner.await?;
            Ok(Box::new(Failing {
                inner,
                sends_first,
                armed,
            }) as Box<dyn Io>)
        })
    }

    fn is_transparent(&self) -> bool {
        !self.sends_records
    }
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn append_whose_write_fails_is_applied_once_or_unknown(#[values(false, true)] sends_records: bool) {
    let hbase = FakeHBase::start();
    hbase.create_table("orders", &["f"], &[]);
    let armed = Arc::new(AtomicBool::new(false));
    let tunnel = Tunnel {
        inner: hbase.connector(),
        sends_records,
        armed: Arc::clone(&armed),
    };
    let connection = Connection::builder(hbase.config().with_nonces(false))
        .connector(tunnel)
        .environment(hbase.environment())
        .connect()
        .await
        .unwrap();
    let orders = connection.table("orders").unwrap();
    orders.get(Get::new("a")).await.unwrap();
    armed.store(true, Ordering::Relaxed);
    let appended = orders.append(Append::new("a").cell("f", "q", "x")).await;
    match (sends_records, appended) {
        (false, Ok(_)) => {}
        (true, Err(error)) => assert!(error.is_outcome_unknown(), "{error}"),
        (_, other) => panic!("{other:?}"),
    }
    let row = orders.get(Get::new("a")).await.unwrap().unwrap();
    assert_eq!(row.get::<&str>("f", "q").unwrap(), Some("x"));
}
