//! A connector that counts dials and calls, and can redirect them.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use hbase_txn::client::{Connector, DialTarget, Io, ServiceKind};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// The column that identifies a call as a probe for conditions.
const PROBE: &[u8] = b"hbase-txn.probe";

/// The numbers of calls by method.
#[derive(Debug, Default)]
struct Calls {
    /// Each open stream has a further reference.
    open: Arc<()>,
    endpoint: AtomicUsize,
    multi: AtomicUsize,
    probe: AtomicUsize,
    scan: AtomicUsize,
    meta_replica: AtomicUsize,
}

/// Dials like the library, records the targets, and counts the calls of endpoints, `Multi` and
/// `Scan` on the wire.
#[derive(Clone, Debug, Default)]
pub struct Spy {
    dials: Arc<Mutex<Vec<DialTarget>>>,
    calls: Arc<Calls>,
    /// The service whose connections are redirected, and their port.
    detour: Option<(ServiceKind, u16)>,
}

impl Calls {
    fn count(&self, written: &[u8]) {
        // With the length prefix, as in a request's header, because other names have the same
        // beginning.
        for (method, counter) in [
            (&b"\x0bExecService"[..], &self.endpoint),
            (b"\x05Multi", &self.multi),
            (b"\x04Scan", &self.scan),
            // The name of the region, in place of a method.
            (b"hbase:meta,,1_000", &self.meta_replica),
        ] {
            let calls = written.windows(method.len()).filter(|part| *part == method);
            counter.fetch_add(calls.count(), Ordering::SeqCst);
        }
        let named = written.windows(PROBE.len()).filter(|part| *part == PROBE);
        // The name occurs in the condition, as column and value, and in its mutation.
        let probes = named.count() / 3;
        self.multi.fetch_sub(probes, Ordering::SeqCst);
        self.probe.fetch_add(probes, Ordering::SeqCst);
    }
}

impl Spy {
    /// Redirects every connection for rows to this port of this machine.
    pub fn with_detour(port: u16) -> Self {
        Self::with_detour_for(ServiceKind::Client, port)
    }

    /// Redirects every connection for one service to this port of this machine.
    pub fn with_detour_for(service: ServiceKind, port: u16) -> Self {
        Self {
            detour: Some((service, port)),
            ..Self::default()
        }
    }

    pub fn dials(&self, service: ServiceKind) -> usize {
        let dials = self.dials.lock().unwrap();
        dials.iter().filter(|target| target.service == service).count()
    }

    /// Returns the number of streams that are open.
    pub fn open_streams(&self) -> usize {
        Arc::strong_count(&self.calls.open) - 1
    }

    pub fn targets(&self) -> Vec<DialTarget> {
        self.dials.lock().unwrap().clone()
    }

    pub fn endpoint_calls(&self) -> usize {
        self.calls.endpoint.load(Ordering::SeqCst)
    }

    /// Returns the number of `Multi` calls without probes for conditions.
    pub fn multi_calls(&self) -> usize {
        self.calls.multi.load(Ordering::SeqCst)
    }

    /// Returns the number of probes for conditions.
    pub fn probes(&self) -> usize {
        self.calls.probe.load(Ordering::SeqCst)
    }

    /// Returns the number of scanner calls, of `hbase:meta` too.
    pub fn scan_calls(&self) -> usize {
        self.calls.scan.load(Ordering::SeqCst)
    }

    /// Returns the number of calls of replicas of `hbase:meta`.
    pub fn meta_replica_calls(&self) -> usize {
        self.calls.meta_replica.load(Ordering::SeqCst)
    }
}

impl Connector for Spy {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        self.dials.lock().unwrap().push(target.clone());
        let address = match self.detour {
            Some((service, port)) if target.service == service => ("127.0.0.1".to_owned(), port),
            _ => (target.address.host.clone(), target.address.port),
        };
        let (calls, open) = (Arc::clone(&self.calls), Arc::clone(&self.calls.open));
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(Watched {
                stream,
                calls,
                _open: open,
            }) as Box<dyn Io>)
        })
    }

    fn is_transparent(&self) -> bool {
        true
    }
}

struct Watched {
    stream: TcpStream,
    calls: Arc<Calls>,
    _open: Arc<()>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            self.calls.count(&bytes[..*count]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
