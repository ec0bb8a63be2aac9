//! A gateway as its clients see it: a few connections, each for one call at a time, and threads that wait for the answers.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant as StdInstant},
};

use hbase_thrift::hbase::{HbaseSyncClient, THbaseSyncClient, TThriftServerType};
use thrift::{ApplicationErrorKind, protocol::TBinaryOutputProtocol};
use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::{Framing, answer::Answers, failure, socket::Socket};
use crate::{
    client::CallKind,
    config::HostPort,
    error::{Effect, Error, ErrorKind, Result},
};

/// HBase's own port for it.
const DEFAULT_PORT: u16 = 9_090;
/// A table that there is always.
const META: &[u8] = b"hbase:meta";
/// A gateway closes a connection that nobody used for a minute, and a call that is sent at that moment is lost.
const LONGEST_IDLE: Duration = Duration::from_secs(20);
/// Sequence numbers have 31 bits.
const MOST_CALLS: u32 = 1_000_000;
/// The thread that waits for an answer knows better than the clock what went wrong, and is let say so.
const GRACE: Duration = Duration::from_millis(100);

/// The calls of the gateway.
pub(super) type Client = HbaseSyncClient<Answers, TBinaryOutputProtocol<Socket>>;

/// HBase behind a Thrift gateway (`hbase thrift`: the first API, binary protocol).
///
/// For processes that can't reach HBase itself. What a gateway can't do is not there: no transactions, no batches, no fences.
/// See [`ThriftLockManager`](super::ThriftLockManager) for what it can.
///
/// Cheap to clone; clones share their connections. Calls wait for their answers on threads of tokio's blocking pool, one for each
/// call and as many at most as there are [connections](ThriftConnectionBuilder::connections).
///
/// A connection serves one call at a time, and none any more after a call that failed on it or had no answer in time: an answer
/// that comes late finds nobody, and is never taken for that to another call. A future that is dropped leaves its call to its thread,
/// which ends by the call's deadline; a runtime that ends waits for such threads (`Runtime::shutdown_timeout` does not).
///
/// Neither TLS, nor SASL, nor Thrift over HTTP is spoken: the gateway is to be reached over a network that may be trusted.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> hbase_txn::Result<()> {
/// use hbase_txn::ThriftConnection;
///
/// let gateway = ThriftConnection::connect("gateway.example:9090").await?;
/// # Ok(()) }
/// ```
///
/// There is no transaction over a gateway. What compiles with a connection to HBase itself,
///
/// ```no_run
/// # async fn example(connection: hbase_txn::Connection) -> hbase_txn::Result<()> {
/// let orders = hbase_txn::PartitionedTable::open(&connection, "orders".parse()?).await?;
/// # Ok(()) }
/// ```
///
/// does not with this:
///
/// ```compile_fail,E0308
/// # async fn example(gateway: hbase_txn::ThriftConnection) -> hbase_txn::Result<()> {
/// let orders = hbase_txn::PartitionedTable::open(&gateway, "orders".parse()?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ThriftConnection {
    shared: Arc<Shared>,
}

/// How a gateway is reached.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until connect is called"]
pub struct ThriftConnectionBuilder {
    gateway: String,
    framing: Framing,
    connections: usize,
    timeout: Duration,
}

struct Shared {
    gateway: HostPort,
    framing: Framing,
    timeout: Duration,
    /// One for each connection that may be there.
    permits: Arc<Semaphore>,
    connections: usize,
    idle: Mutex<Vec<Wire>>,
}

/// One connection.
struct Wire {
    socket: Socket,
    client: Client,
    used: StdInstant,
    calls: u32,
}

impl ThriftConnectionBuilder {
    /// The most connections that there can be.
    const MOST_CONNECTIONS: usize = 1_000;

    /// For gateways that talk in frames (`hbase thrift --framed`, and all its non-blocking servers). Not so by default, here and there.
    pub fn framed(mut self) -> Self {
        self.framing = Framing::Framed;
        self
    }

    /// The most connections, and calls at a time: 1 to 1,000, 8 unless said. The gateway has a thread for each.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long a call may take, the wait for a free connection and dialling included; 60 s unless said.
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects, and asks what is there.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) or [`InvalidInput`](ErrorKind::InvalidInput) for an address or a number that can't
    /// be; [`Unreachable`](ErrorKind::Unreachable); [`Protocol`](ErrorKind::Protocol) for what is no gateway of the first API, or talks
    /// in frames where none were named, or none where they were; [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) when nothing answers.
    pub async fn connect(self) -> Result<ThriftConnection> {
        if !(1..=Self::MOST_CONNECTIONS).contains(&self.connections) {
            return Err(Error::invalid(format!(
                "{} connections to a gateway; take 1 to {}",
                self.connections,
                Self::MOST_CONNECTIONS
            )));
        }
        let gateway = HostPort::parse(&self.gateway, DEFAULT_PORT)?;
        let connection = ThriftConnection {
            shared: Arc::new(Shared {
                gateway,
                framing: self.framing,
                timeout: self.timeout,
                permits: Arc::new(Semaphore::new(self.connections)),
                connections: self.connections,
                idle: Mutex::default(),
            }),
        };
        connection.probe().await?;
        Ok(connection)
    }
}

impl ThriftConnection {
    /// A gateway at `host:port`, or `host` for port 9090.
    pub fn builder(gateway: impl Into<String>) -> ThriftConnectionBuilder {
        ThriftConnectionBuilder {
            gateway: gateway.into(),
            framing: Framing::Buffered,
            connections: 8,
            timeout: Duration::from_secs(60),
        }
    }

    /// Connects to a gateway that is as they are unless told otherwise.
    ///
    /// # Errors
    ///
    /// As [`ThriftConnectionBuilder::connect`].
    pub async fn connect(gateway: impl Into<String>) -> Result<Self> {
        Self::builder(gateway).connect().await
    }

    /// Its address.
    #[must_use]
    pub fn gateway(&self) -> &HostPort {
        &self.shared.gateway
    }

    /// When a call that begins now must be over.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.shared.timeout
    }

    async fn probe(&self) -> Result<()> {
        let deadline = self.deadline();
        let server = self
            .call("asking what the gateway is", CallKind::Read, deadline, |client| {
                match client.get_thrift_server_type() {
                    // Of a release that does not know the question: there was only this one.
                    Err(thrift::Error::Application(error))
                        if error.kind == ApplicationErrorKind::UnknownMethod =>
                    {
                        client.is_table_enabled(META.to_vec())?;
                        Ok(TThriftServerType::ONE)
                    }
                    answer => answer,
                }
            })
            .await?;
        if server == TThriftServerType::ONE {
            return Ok(());
        }
        Err(
            Error::new(ErrorKind::Protocol, "this is a Thrift gateway of the second API")
                .with_hint("name one of the first: hbase thrift start")
                .at_operation("asking what the gateway is")
                .at_server(self.gateway()),
        )
    }

    /// Makes one call. It ends by the deadline; the thread that waits for its answer does so too.
    ///
    /// What changes nothing, or the same twice, is sent again by itself when a connection that had been waiting for work turns out
    /// to be dead.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        kind: CallKind,
        deadline: Instant,
        work: impl Fn(&mut Client) -> thrift::Result<T> + Send + 'static,
    ) -> Result<T> {
        let blame = |error: Error| error.at_operation(operation).at_server(self.gateway());
        let permit = timeout_at(deadline, Arc::clone(&self.shared.permits).acquire_owned())
            .await
            .map_err(|_| {
                Error::new(
                    ErrorKind::DeadlineExceeded,
                    format!(
                        "all {} connections to the Thrift gateway were in use",
                        self.shared.connections
                    ),
                )
                .with_retryable(true)
                .with_hint("allow more connections, or make fewer calls at a time")
            })
            .and_then(|permit| permit.map_err(|_| Error::new(ErrorKind::Closed, "the connection is closed")))
            .map_err(blame)?;
        let shared = Arc::clone(&self.shared);
        let until = deadline.into_std();
        let answer = spawn_blocking(move || {
            // Until the thread is through, whoever waits for it.
            let _permit = permit;
            shared.run(kind, until, work)
        });
        match timeout_at(deadline + GRACE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::new(
                ErrorKind::Closed,
                "the call was ended with the runtime that it ran on",
            )
            .with_effect(effect_of(kind))),
            Err(_) => Err(failure::late(self.gateway(), effect_of(kind))),
        }
        .map_err(blame)
    }
}

/// What a call of this kind may leave behind.
fn effect_of(kind: CallKind) -> Effect {
    match kind {
        CallKind::Read => Effect::None,
        _ => Effect::Unknown,
    }
}

impl Shared {
    fn run<T>(
        &self,
        kind: CallKind,
        deadline: StdInstant,
        work: impl Fn(&mut Client) -> thrift::Result<T>,
    ) -> Result<T> {
        loop {
            let (mut wire, is_new) = match self.waiting() {
                Some(wire) => (wire, false),
                None => (self.dial(deadline)?, true),
            };
            wire.socket.begin(deadline);
            wire.calls += 1;
            let answer = work(&mut wire.client);
            let (sent, absurdity) = (wire.socket.was_sent(), wire.socket.absurdity());
            match answer {
                Ok(answer) => {
                    self.keep(wire);
                    return Ok(answer);
                }
                Err(error) => {
                    if failure::was_answered(&error) {
                        self.keep(wire);
                    } else if failure::is_lost(&error)
                        && absurdity.is_none()
                        && !is_new
                        && (!sent || kind != CallKind::Write)
                    {
                        // It died while nobody looked. The next is another one, and in the end a new one.
                        continue;
                    }
                    let effect = if sent { effect_of(kind) } else { Effect::None };
                    return Err(failure::translate(&self.gateway, error, absurdity, effect));
                }
            }
        }
    }

    /// A connection that waits for work, and can do some.
    fn waiting(&self) -> Option<Wire> {
        loop {
            let wire = self.idle().pop()?;
            if wire.used.elapsed() < LONGEST_IDLE && wire.calls < MOST_CALLS && wire.socket.is_usable() {
                return Some(wire);
            }
        }
    }

    fn keep(&self, mut wire: Wire) {
        wire.used = StdInstant::now();
        self.idle().push(wire);
    }

    fn dial(&self, deadline: StdInstant) -> Result<Wire> {
        let socket = Socket::dial(&self.gateway, self.framing, deadline)
            .map_err(|error| failure::unreachable(&self.gateway, error))?;
        let answers = Answers(socket.clone());
        let requests = TBinaryOutputProtocol::new(socket.clone(), true);
        Ok(Wire {
            socket,
            client: HbaseSyncClient::new(answers, requests),
            used: StdInstant::now(),
            calls: 0,
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Wire>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ThriftConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftConnection")
            .field("gateway", &self.shared.gateway)
            .field("framing", &self.shared.framing)
            .field("connections", &self.shared.connections)
            .finish_non_exhaustive()
    }
}
