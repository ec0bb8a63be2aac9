//! A connection to a gateway: a few sockets, each for one call at a time, and threads that wait for
//! the answers.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant as StdInstant},
};

use hbase_client::{
    Effect, HostPort,
    low_level::{CallKind, KEEP_THE_RUNTIME},
};
use hbase_thrift::hbase::{HbaseSyncClient, THbaseSyncClient, TThriftServerType};
use thrift::{ApplicationErrorKind, protocol::TBinaryOutputProtocol};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use super::{
    Framing,
    answer::Answers,
    failure,
    permits::{Lane, Permits},
    socket::Socket,
};
use crate::error::{ClientErrorKind, Error, Result};

/// HBase's default port of the gateway.
const DEFAULT_PORT: u16 = 9_090;
/// A table that always exists.
const META: &[u8] = b"hbase:meta";
/// A gateway closes a connection that was idle for a minute, and a call that is sent at that moment
/// is lost.
const MAX_IDLE: Duration = Duration::from_secs(20);
/// Sequence numbers have 31 bits.
const MAX_CALLS: u32 = 1_000_000;
/// The default timeout of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Extra time in which the thread that waits for an answer can report a more specific error than
/// the timeout.
const GRACE: Duration = Duration::from_millis(100);

/// The calls of the gateway.
pub(super) type Client = HbaseSyncClient<Answers, TBinaryOutputProtocol<Socket>>;

/// A connection to HBase through a Thrift gateway (`hbase thrift`: the first API, binary protocol).
///
/// For processes that cannot reach HBase itself. A gateway does not support transactions, batches
/// or fencing. See [`ThriftLockManager`](super::ThriftLockManager) for locks.
///
/// Cheap to clone; clones share their connections. Each call has its own connection and its own
/// thread of tokio's blocking pool. There are at most
/// [`connections`](ThriftConnectionBuilder::connections) of both for calls in general, as many more
/// for renewals, and as many more for releases: up to three times that number.
///
/// A call that is not answered within the [call timeout](ThriftConnectionBuilder::call_timeout)
/// fails, however much longer its operation may take. Renewals and releases have reserved
/// connections, so calls that wait for one region do not delay them.
///
/// A connection serves one call at a time, and is not used again after a call without a valid
/// answer in time: a late answer is dropped, and never counts as that to another call. If a future
/// is dropped, its call continues in its thread, which ends by the call's deadline. A runtime that
/// shuts down waits for such threads (`Runtime::shutdown_timeout` does not).
///
/// The threads, renewals and background releases belong to the runtime in which the connection was
/// made. Calls may be made in any runtime, and fail once that one has ended.
///
/// TLS, SASL and Thrift over HTTP are not supported: use a trusted network to the gateway.
///
/// # Examples
///
/// The [module](super) opens a connection and acquires a lock.
///
/// There are no transactions over a gateway. This compiles with a connection to HBase itself:
///
/// ```
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f"], 3);
/// # let connection = hbase.connect().await?;
/// let orders = hbase_txn::PartitionedTable::open(&connection, "orders").await?;
/// # Ok(()) });
/// ```
///
/// A [`ThriftConnection`] in its place does not compile:
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
    /// The runtime in which the connection was made.
    runtime: Handle,
    gateway: HostPort,
    framing: Framing,
    timeout: Duration,
    call_timeout: Duration,
    /// One for each connection that may be open.
    permits: Permits,
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
    /// The maximum number of connections.
    const MAX_CONNECTIONS: usize = 1_000;

    /// Uses framed transport, for `hbase thrift --framed` and all non-blocking servers. By default,
    /// neither the gateway nor this client uses it.
    pub fn framed(mut self) -> Self {
        self.framing = Framing::Framed;
        self
    }

    /// Sets the maximum number of connections, and so of concurrent calls: 1 to 1,000, 8 unless
    /// specified. The gateway has a thread for each connection.
    ///
    /// While all are in use, renewals of locks can open as many more, and so can releases: calls
    /// that wait for one region do not delay them.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the timeout of an operation, including all of its calls and the wait for free
    /// connections; 60 s unless specified.
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the timeout of one call, from when it has a connection or starts to open one; 10 s
    /// unless specified. It limits how long a silent connection or region delays an operation. The
    /// operation timeout ends a call too.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Connects, and checks that the peer is an HBase gateway.
    ///
    /// # Errors
    ///
    /// - [`InvalidConfig`](ClientErrorKind::InvalidConfig) or
    ///   [`InvalidInput`](ClientErrorKind::InvalidInput) for an invalid address or number;
    /// - [`Unreachable`](ClientErrorKind::Unreachable) if the gateway cannot be reached;
    /// - [`Protocol`](ClientErrorKind::Protocol) if the peer is not a gateway of the first API, or
    ///   its framing differs from that of this builder;
    /// - [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) if nothing answers.
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
                runtime: Handle::current(),
                gateway,
                framing: self.framing,
                timeout: self.timeout,
                call_timeout: self.call_timeout,
                permits: Permits::new(self.connections),
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

    /// Connects to a gateway with the default options.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ThriftConnectionBuilder::connect`].
    pub async fn connect(gateway: impl Into<String>) -> Result<Self> {
        Self::builder(gateway).connect().await
    }

    /// Returns the gateway's address.
    #[must_use]
    pub fn gateway(&self) -> &HostPort {
        &self.shared.gateway
    }

    /// Returns the runtime in which the connection was made.
    pub(super) fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }

    /// Returns the same connection, for calls of this lane.
    pub(super) fn in_lane(&self, lane: Lane) -> Self {
        Self { lane, ..self.clone() }
    }

    /// Returns the deadline of an operation that begins now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.shared.timeout
    }

    async fn probe(&self) -> Result<()> {
        let deadline = self.deadline();
        let server = self
            .call("asking what the gateway is", CallKind::Read, deadline, |client| {
                match client.get_thrift_server_type() {
                    // An older release does not have this method, and has only the first API.
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

    /// Makes one call. The call, and the thread that waits for its answer, end within the call
    /// timeout and by the deadline.
    ///
    /// A read or an idempotent write is sent again if an idle connection turns out to be closed.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        kind: CallKind,
        deadline: Instant,
        work: impl Fn(&mut Client) -> thrift::Result<T> + Send + 'static,
    ) -> Result<T> {
        let in_context = |error: Error| error.at_operation(operation).at_server(self.gateway());
        let permit = timeout_at(deadline, self.shared.permits.take(self.lane)).await;
        let permit = permit.map_err(|_| {
            let error = Error::new(
                ClientErrorKind::DeadlineExceeded,
                format!(
                    "all {} connections to the Thrift gateway were in use",
                    self.shared.connections
                ),
            );
            let hint = "allow more connections, or make fewer calls at a time";
            in_context(error.with_retryable(true).with_hint(hint))
        })?;
        let shared = Arc::clone(&self.shared);
        let until = deadline.min(Instant::now() + self.shared.call_timeout);
        let answer = self.runtime().spawn_blocking(move || {
            // Held until the thread ends, even if its answer is not awaited.
            let _permit = permit;
            shared.run(kind, until.into_std(), work)
        });
        match timeout_at(until + GRACE, answer).await {
            Ok(Ok(answer)) => answer,
            // A call that has begun is not cancelled.
            Ok(Err(ended)) if ended.is_cancelled() => Err(Error::new(
                ClientErrorKind::Closed,
                "the runtime of the connection has ended",
            )
            .with_hint(KEEP_THE_RUNTIME)),
            Ok(Err(panicked)) => {
                Err(Error::new(ClientErrorKind::Protocol, panicked.to_string()).with_effect(effect_of(kind)))
            }
            Err(_) => {
                self.shared.drop_silent();
                Err(failure::late(self.gateway(), effect_of(kind)))
            }
        }
        .map_err(in_context)
    }
}

/// Returns the effect that a failed call of this kind may have had.
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
                        // The connection was closed while it was idle. Another one is used, and in
                        // the end a new one.
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

    /// Takes an idle connection that is still usable.
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

    /// Drops idle connections after a call that was not answered: the same failure may have
    /// silenced them too.
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

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[tokio::test]
    async fn call_after_the_end_of_the_runtime_is_not_made() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let connection = ThriftConnection {
            shared: Arc::new(Shared {
                runtime: runtime.handle().clone(),
                gateway: HostPort::parse("gateway", DEFAULT_PORT).unwrap(),
                framing: Framing::Buffered,
                timeout: CALL_TIMEOUT,
                call_timeout: CALL_TIMEOUT,
                permits: Permits::new(1),
                connections: 1,
                idle: Mutex::default(),
            }),
            lane: Lane::Common,
        };
        runtime.shutdown_background();
        for _ in 0..2 {
            let call = connection.call("call", CallKind::Write, connection.deadline(), |_| Ok(()));
            let error = call.await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
            assert!(!error.is_outcome_unknown(), "{error}");
        }
    }
}
