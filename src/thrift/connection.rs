//! A gateway as its clients see it: a few connections, each for one call at a time, and threads
//! that wait for the answers.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant as StdInstant},
};

use hbase_client::{Effect, HostPort, low_level::CallKind};
use hbase_thrift::hbase::{HbaseSyncClient, THbaseSyncClient, TThriftServerType};
use thrift::{ApplicationErrorKind, protocol::TBinaryOutputProtocol};
use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::{Framing, answer::Answers, failure, socket::Socket};
use crate::error::{ClientErrorKind, Error, Result};

/// HBase's own port for it.
const DEFAULT_PORT: u16 = 9_090;
/// A table that there is always.
const META: &[u8] = b"hbase:meta";
/// A gateway closes a connection that was not used for a minute, and a call that is sent at that
/// moment is lost.
const MAX_IDLE: Duration = Duration::from_secs(20);
/// Sequence numbers have 31 bits.
const MAX_CALLS: u32 = 1_000_000;
/// How long one call may take unless said otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The thread that waits for an answer knows better than the clock what went wrong, and is let say
/// so.
const GRACE: Duration = Duration::from_millis(100);

/// The calls of the gateway.
pub(super) type Client = HbaseSyncClient<Answers, TBinaryOutputProtocol<Socket>>;

/// HBase behind a Thrift gateway (`hbase thrift`: the first API, binary protocol).
///
/// For processes that can't reach HBase itself. What a gateway can't do is not there: no
/// transactions, no batches, no fences. See [`ThriftLockManager`](super::ThriftLockManager) for
/// what it can.
///
/// Cheap to clone; clones share their connections. Each call has a connection and a thread of
/// tokio's blocking pool to itself. There are at most
/// [`connections`](ThriftConnectionBuilder::connections) of both for calls in general, as many more
/// for renewals and as many more for releases: up to three times that number.
///
/// A call that is not answered within the [call timeout](ThriftConnectionBuilder::call_timeout)
/// fails, however much longer its operation may take. Calls of different regions do not hold up
/// renewals and releases, which have connections of their own.
///
/// A connection serves one call at a time, and none any more after a call that failed on it or had
/// no answer in time: a late answer is dropped, and is never taken for that to
/// another call. A future that is dropped leaves its call to its thread, which ends by the call's
/// deadline; a runtime that ends waits for such threads (`Runtime::shutdown_timeout` does not).
///
/// Neither TLS, nor SASL, nor Thrift over HTTP is spoken: the gateway is to be reached over a
/// network that may be trusted.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> hbase_txn::Result<()> {
/// use hbase_txn::thrift::ThriftConnection;
///
/// let gateway = ThriftConnection::connect("gateway.example:9090").await?;
/// # Ok(()) }
/// ```
///
/// There is no transaction over a gateway. What compiles with a connection to HBase itself,
///
/// ```no_run
/// # async fn example(connection: hbase_txn::Connection) -> hbase_txn::Result<()> {
/// let orders = hbase_txn::PartitionedTable::open(&connection, "orders").await?;
/// # Ok(()) }
/// ```
///
/// does not with this:
///
/// ```compile_fail,E0308
/// # async fn example(gateway: hbase_txn::thrift::ThriftConnection) -> hbase_txn::Result<()> {
/// let orders = hbase_txn::PartitionedTable::open(&gateway, "orders").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ThriftConnection {
    shared: Arc<Shared>,
    lane: Lane,
}

/// What calls are for: which connections they may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Those for all calls.
    Common,
    /// Those, and when all are in use the ones reserved for renewals.
    Renewals,
    /// The same for releases.
    Releases,
}

/// The options of a connection to a gateway.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until connect is called"]
pub struct ThriftConnectionBuilder {
    gateway: String,
    framing: Framing,
    connections: usize,
    timeout: Duration,
    call_timeout: Duration,
}

struct Shared {
    gateway: HostPort,
    framing: Framing,
    timeout: Duration,
    call_timeout: Duration,
    /// One for each connection that may be there.
    permits: Arc<Semaphore>,
    for_renewals: Arc<Semaphore>,
    for_releases: Arc<Semaphore>,
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
    const MAX_CONNECTIONS: usize = 1_000;

    /// Uses framed transport, for `hbase thrift --framed` and all non-blocking servers. Neither
    /// side uses it by default.
    pub fn framed(mut self) -> Self {
        self.framing = Framing::Framed;
        self
    }

    /// Sets the maximum number of connections, and so of calls at a time: 1 to 1,000, 8 unless
    /// specified. The gateway has a thread for each.
    ///
    /// Renewals of locks can open as many more while all are in use, and so can releases: calls
    /// that wait for one region do not hold them up.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the timeout of an operation, with all of its calls and the wait for free connections;
    /// 60 s unless specified.
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the timeout of one call, from when it has a connection or begins to dial; 10 s unless
    /// specified. It limits how long a silent connection or region delays an operation. The
    /// operation timeout ends a call too.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Connects, and checks that the peer is an HBase gateway.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](ClientErrorKind::InvalidConfig) or
    /// [`InvalidInput`](ClientErrorKind::InvalidInput) for an address or a number that can't be;
    /// [`Unreachable`](ClientErrorKind::Unreachable); [`Protocol`](ClientErrorKind::Protocol) for
    /// what is no gateway of the first API, or talks in frames where none were named, or none where
    /// they were; [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) when nothing answers.
    pub async fn connect(self) -> Result<ThriftConnection> {
        if !(1..=Self::MAX_CONNECTIONS).contains(&self.connections) {
            return Err(Error::invalid(format!(
                "{} connections to a gateway; take 1 to {}",
                self.connections,
                Self::MAX_CONNECTIONS
            )));
        }
        let gateway = HostPort::parse(&self.gateway, DEFAULT_PORT)?;
        let connection = ThriftConnection {
            shared: Arc::new(Shared {
                gateway,
                framing: self.framing,
                timeout: self.timeout,
                call_timeout: self.call_timeout,
                permits: Arc::new(Semaphore::new(self.connections)),
                for_renewals: Arc::new(Semaphore::new(self.connections)),
                for_releases: Arc::new(Semaphore::new(self.connections)),
                connections: self.connections,
                idle: Mutex::default(),
            }),
            lane: Lane::Common,
        };
        connection.probe().await?;
        Ok(connection)
    }
}

impl ThriftConnection {
    /// Creates options for a gateway at `host:port`, or at `host` with port 9090.
    pub fn builder(gateway: impl Into<String>) -> ThriftConnectionBuilder {
        ThriftConnectionBuilder {
            gateway: gateway.into(),
            framing: Framing::Buffered,
            connections: 8,
            timeout: Duration::from_secs(60),
            call_timeout: CALL_TIMEOUT,
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

    /// Returns its address.
    #[must_use]
    pub fn gateway(&self) -> &HostPort {
        &self.shared.gateway
    }

    /// The same connection, for calls of this lane.
    pub(super) fn in_lane(&self, lane: Lane) -> Self {
        Self { lane, ..self.clone() }
    }

    /// When an operation that begins now must be over.
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
        Err(Error::new(
            ClientErrorKind::Protocol,
            "this is a Thrift gateway of the second API",
        )
        .with_hint("name one of the first: hbase thrift start")
        .at_operation("asking what the gateway is")
        .at_server(self.gateway()))
    }

    /// Makes one call. It ends within the call timeout, and by the deadline; the thread that waits
    /// for its answer does so too.
    ///
    /// What changes nothing, or the same twice, is sent again by itself when a connection that had
    /// been waiting for work turns out to be dead.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        kind: CallKind,
        deadline: Instant,
        work: impl Fn(&mut Client) -> thrift::Result<T> + Send + 'static,
    ) -> Result<T> {
        let in_context = |error: Error| error.at_operation(operation).at_server(self.gateway());
        let permit = timeout_at(deadline, self.permit())
            .await
            .map_err(|_| {
                Error::new(
                    ClientErrorKind::DeadlineExceeded,
                    format!(
                        "all {} connections to the Thrift gateway were in use",
                        self.shared.connections
                    ),
                )
                .with_retryable(true)
                .with_hint("allow more connections, or make fewer calls at a time")
            })
            .and_then(|permit| {
                permit.map_err(|_| Error::new(ClientErrorKind::Closed, "the connection is closed"))
            })
            .map_err(in_context)?;
        let shared = Arc::clone(&self.shared);
        let until = deadline.min(Instant::now() + self.shared.call_timeout);
        let answer = spawn_blocking(move || {
            // Until the thread has ended, awaited or not.
            let _permit = permit;
            shared.run(kind, until.into_std(), work)
        });
        match timeout_at(until + GRACE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::new(
                ClientErrorKind::Closed,
                "the call was ended with the runtime that it ran on",
            )
            .with_effect(effect_of(kind))),
            Err(_) => {
                self.shared.drop_silent();
                Err(failure::late(self.gateway(), effect_of(kind)))
            }
        }
        .map_err(in_context)
    }
}

impl ThriftConnection {
    /// Waits for a connection that may be used.
    async fn permit(&self) -> std::result::Result<OwnedSemaphorePermit, AcquireError> {
        let of = |permits: &Arc<Semaphore>| Arc::clone(permits).acquire_owned();
        let Shared {
            permits,
            for_renewals,
            for_releases,
            ..
        } = &*self.shared;
        let reserved = match self.lane {
            Lane::Common => return of(permits).await,
            Lane::Renewals => for_renewals,
            Lane::Releases => for_releases,
        };
        tokio::select! {
            biased;
            permit = of(permits) => permit,
            permit = of(reserved) => permit,
        }
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
                        // It died while it was idle. The next is another one, and in the end a
                        // new one.
                        continue;
                    } else if failure::is_late(&error) {
                        self.drop_silent();
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
            if wire.used.elapsed() < MAX_IDLE && wire.calls < MAX_CALLS && wire.socket.is_usable() {
                return Some(wire);
            }
        }
    }

    fn keep(&self, mut wire: Wire) {
        wire.used = StdInstant::now();
        self.idle().push(wire);
    }

    /// Drops idle connections after a call that was not answered: what made its connection silent
    /// may have silenced them too.
    fn drop_silent(&self) {
        self.idle().clear();
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
