//! How a server is dialled.

use std::{fmt, io};

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use crate::{config::HostPort, wire::connection_header::Service};

/// How to reach a server: which address to dial for it, and over what.
///
/// Servers are named by what the cluster calls them (`hbase:meta`, the registry). Implement this where those
/// names don't lead there: behind a tunnel, a port-forward, a container network, or a proxy that injects faults.
///
/// ZooKeeper is not dialled through it: where the quorum can't be reached directly, connect by `hbase+rpc://`. It is
/// plugged in by [`Connection::builder`](crate::Connection::builder) and
/// [`connector`](crate::ConnectionBuilder::connector).
///
/// # Example
///
/// Dial every server of the cluster through forwarded ports on this machine:
///
/// ```
/// use std::io;
/// use futures::future::BoxFuture;
/// use hbase_txn::{Connector, DialTarget, Io};
/// use tokio::net::TcpStream;
///
/// #[derive(Debug)]
/// struct Forwarded;
///
/// impl Connector for Forwarded {
///     fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
///         let port = target.address.port;
///         Box::pin(async move {
///             Ok(Box::new(TcpStream::connect(("127.0.0.1", port)).await?) as Box<dyn Io>)
///         })
///     }
/// }
/// ```
pub trait Connector: Send + Sync + fmt::Debug + 'static {
    /// Opens a stream to the target. The caller bounds the time by the connect timeout; dropping the future
    /// must give the attempt up.
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;
}

/// Which server is dialled, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DialTarget {
    /// Host and port, as the cluster names the server.
    pub address: HostPort,
    /// What the connection is for; a connection serves one service.
    pub service: ServiceKind,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServiceKind {
    /// Reads and writes of rows, on a region server.
    Client,
    /// Flushes and compactions of regions, on a region server.
    Admin,
    /// Tables and regions, on the active master.
    Master,
    /// The RPC registry, on a master or (from 2.5 on) any region server.
    Registry,
}

impl ServiceKind {
    pub(super) fn wire(self) -> Service {
        match self {
            Self::Client => Service::Client,
            Self::Admin => Service::Admin,
            Self::Master => Service::Master,
            Self::Registry => Service::ClientMeta,
        }
    }
}

/// A stream of bytes to a server.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// Dials by TCP: resolves the name, tries its addresses in turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let HostPort { host, port } = target.address.clone();
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            // Requests are written together where they queue up; a lone one must not wait for more.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }
}
