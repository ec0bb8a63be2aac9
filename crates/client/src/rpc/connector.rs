//! Connectors, which open the streams to servers.

use std::{any::Any, fmt, io, net::SocketAddr, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::sleep,
};

use crate::{
    config::{HostPort, MappedAddress},
    wire::connection_header::Service,
};

/// A way to reach servers: the address to dial, and the transport.
///
/// A target has the name that the cluster uses for the server (in `hbase:meta` or the registry), or the
/// address that the [address map](crate::Config::with_address_map) has for it. The map is enough where
/// another address leads to the server. Implement this trait for another transport: a tunnel, or a proxy
/// that injects faults. With TLS, the handshake runs over the stream, and the certificate of the server
/// must have the name that the cluster uses, which may be an address. The address that the connector
/// dials does not count.
///
/// ZooKeeper is not dialled through it: where the quorum cannot be reached by the address map either,
/// connect by `hbase+rpc://`. Pass a connector to [`Connection::builder`](crate::Connection::builder) with
/// [`connector`](crate::ConnectionBuilder::connector).
///
/// # Example
///
/// Dial every server of the cluster through forwarded ports on this machine:
///
/// ```
/// use std::io;
/// use futures::future::BoxFuture;
/// use hbase_client::{Connector, DialTarget, Io};
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
    /// Opens a stream to the target. The caller limits the time to the connect timeout; dropping
    /// the future must cancel the attempt.
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;

    /// Returns whether its streams pass on bytes as TCP does: if a write fails, the server gets no
    /// other bytes than those that were reported as taken. `false` by default; a [`TcpStream`] is
    /// recognised without it.
    ///
    /// A request that a transparent stream did not take as a whole was certainly not executed, so the
    /// client sends it again. A stream that sends records, as with TLS or SSH, may have sent one
    /// although its write failed. Without this promise, the outcome of such a request is unknown.
    fn is_transparent(&self) -> bool {
        false
    }
}

/// The server and service that a connection is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DialTarget {
    /// Host and port, as the cluster names the server, or as the [address
    /// map](crate::Config::with_address_map) has them.
    pub address: HostPort,
    /// The service of the connection. A connection serves one service.
    pub service: ServiceKind,
}

/// The service that a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ServiceKind {
    /// Reads and writes of rows, on a region server.
    Client,
    /// Flushes and compactions of regions, on a region server.
    Admin,
    /// Tables and regions, on the active master.
    Master,
    /// Locks of names, on the active master.
    Lock,
    /// The RPC registry, on a master or (from 2.5 on) any region server.
    Registry,
}

impl ServiceKind {
    pub(super) fn wire(self) -> Service {
        match self {
            Self::Client => Service::Client,
            Self::Admin => Service::Admin,
            Self::Master => Service::Master,
            Self::Lock => Service::Lock,
            Self::Registry => Service::ClientMeta,
        }
    }
}

/// A stream of bytes to a server.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Returns whether this is a [`TcpStream`].
    fn is_tcp_stream(&self) -> bool;
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {
    fn is_tcp_stream(&self) -> bool {
        (self as &dyn Any).is::<TcpStream>()
    }
}

/// A [`Connector`] over TCP. Resolves the name, and tries its addresses in order. An address that
/// does not answer delays the next one by at most a quarter of a second (RFC 8305, "connection
/// attempt delay"); the first connection wins.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

const PATIENCE: Duration = Duration::from_millis(250);

impl Connector for TcpConnector {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let address = target.address.clone();
        Box::pin(async move { Ok(Box::new(dial_tcp(&address).await?) as Box<dyn Io>) })
    }
}

/// Dials a server at the address that the map has for it, or else at its own.
pub(crate) async fn dial_mapped<T, D: Future<Output = io::Result<T>>>(
    map: &[MappedAddress],
    address: &HostPort,
    dial: impl FnOnce(HostPort) -> D,
) -> io::Result<T> {
    let Some(mapped) = MappedAddress::of(map, address) else {
        return dial(address.clone()).await;
    };
    let stream = dial(mapped.clone()).await;
    stream.map_err(|error| io::Error::new(error.kind(), format!("{error}, dialled as {mapped}")))
}

/// Returns what a server did when it could not be dialled.
pub(crate) fn no_connection(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused if error.get_ref().is_none() => "refused the connection".to_owned(),
        _ => format!("can't be reached ({error})"),
    }
}

/// Opens a TCP connection as [`TcpConnector`] does.
///
/// # Errors
///
/// Returns an error of the kind `NotFound` if the name of the host is not known.
pub(crate) async fn dial_tcp(address: &HostPort) -> io::Result<TcpStream> {
    let addresses = lookup_host((address.host.as_str(), address.port)).await;
    let addresses = addresses.map_err(|error| {
        let why = format!("the name {} is not known here: {error}", address.host);
        io::Error::new(io::ErrorKind::NotFound, why)
    })?;
    let stream = first_of(addresses.collect(), TcpStream::connect).await?;
    // Queued requests are written together; a single one must not wait for more.
    stream.set_nodelay(true)?;
    end_when_dead(&stream, KEEPALIVE)?;
    Ok(stream)
}

/// When the system ends a connection whose peer's machine is gone.
#[derive(Clone, Copy, Debug)]
struct Keepalive {
    /// How long a peer may be quiet before the system sends probes.
    idle: Duration,
    /// The interval of probes, in whole seconds.
    interval: Duration,
    /// The number of probes that may stay unanswered.
    count: u32,
}

const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(30),
    interval: Duration::from_secs(10),
    count: 3,
};

/// Makes the system end the connection when the peer's machine is gone.
///
/// There is no `TCP_USER_TIMEOUT`: it also ends a connection whose peer is alive and reads nothing
/// for as long, as in a pause of its JVM. While bytes are unacknowledged, the system sends no probes;
/// pings find a dead peer then.
fn end_when_dead(stream: &TcpStream, keepalive: Keepalive) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(stream, keepalive.idle)?;
        sockopt::set_tcp_keepintvl(stream, keepalive.interval)?;
        sockopt::set_tcp_keepcnt(stream, keepalive.count)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = keepalive;
    Ok(())
}

/// Returns the stream of the first address that answers, or the error of the last one if none does.
async fn first_of<T, D: Future<Output = io::Result<T>>>(
    addresses: Vec<SocketAddr>,
    dial: impl Fn(SocketAddr) -> D,
) -> io::Result<T> {
    let mut addresses = addresses.into_iter();
    let mut dialled = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        dialled.extend(addresses.next().map(&dial));
        tokio::select! {
            biased;
            answer = dialled.next() => match answer {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => failure = error,
                None => return Err(failure),
            },
            () = sleep(PATIENCE), if addresses.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::Instant,
    };

    use super::*;

    /// More than the buffers of both ends.
    const SENT: usize = 32 << 20;

    /// Port 1 is silent, port 2 refuses at once, any other port answers after a second.
    async fn dial(address: SocketAddr) -> io::Result<u16> {
        match address.port() {
            1 => pending().await,
            2 => Err(io::ErrorKind::ConnectionRefused.into()),
            port => {
                sleep(Duration::from_secs(1)).await;
                Ok(port)
            }
        }
    }

    fn at(ports: &[u16]) -> Vec<SocketAddr> {
        let ports = ports.iter();
        ports.map(|port| ([127, 0, 0, 1], *port).into()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_dead_keeps_nobody_from_the_next() {
        let began = Instant::now();
        assert_eq!(first_of(at(&[2, 2, 5]), dial).await.unwrap(), 5);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        assert_eq!(first_of(at(&[1, 2, 1, 5]), dial).await.unwrap(), 5);
        assert_eq!(began.elapsed(), Duration::from_secs(2) + 2 * PATIENCE);
        // A slow address is not overtaken by later ones.
        assert_eq!(first_of(at(&[5, 6, 7]), dial).await.unwrap(), 5);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn dialled_sockets_end_when_the_peer_is_dead() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        end_when_dead(&stream, KEEPALIVE).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KEEPALIVE.idle);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), KEEPALIVE.interval);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), KEEPALIVE.count);
        // It would end connections to peers that are alive.
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 0);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn peer_that_reads_nothing_for_a_while_keeps_its_connection() {
        const PAUSE: Duration = Duration::from_secs(4);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let keepalive = Keepalive {
            idle: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            count: 1,
        };
        end_when_dead(&stream, keepalive).unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let reader = tokio::spawn(async move {
            sleep(PAUSE).await;
            let mut read = 0;
            let mut buffer = vec![0; 1 << 16];
            while read < SENT {
                read += peer.read(&mut buffer).await.unwrap();
            }
            peer.write_all(b"!").await.unwrap();
        });
        let began = Instant::now();
        stream.write_all(&vec![0; SENT]).await.unwrap();
        assert!(began.elapsed() >= PAUSE, "the window was not full");
        assert_eq!(stream.read_u8().await.unwrap(), b'!');
        reader.await.unwrap();
    }

    #[tokio::test]
    async fn mapped_address_is_dialled_and_named_in_the_error() {
        let map = ["rs:1=localhost:2".parse().unwrap()];
        let refuse = |dialled: HostPort| async move {
            assert_eq!(dialled.host, "localhost");
            io::Result::<()>::Err(io::ErrorKind::ConnectionRefused.into())
        };
        let address = HostPort::parse("rs:1", 1).unwrap();
        let refused = dial_mapped(&map, &address, refuse).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(
            no_connection(&refused).contains("dialled as localhost:2"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn name_that_is_unknown_is_told_from_a_server_that_is_gone() {
        // No resolver asks for a label of more than 63 characters.
        let address = HostPort {
            host: "a".repeat(64),
            port: 1,
        };
        let unknown = dial_tcp(&address).await.unwrap_err();
        assert_eq!(unknown.kind(), io::ErrorKind::NotFound);
        assert!(unknown.to_string().contains("is not known here"), "{unknown}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_address_that_answers_is_an_error_of_the_last() {
        let refused = first_of(at(&[2, 2]), dial).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let none = first_of(Vec::new(), dial).await.unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}
