//! The connections of a client: one per server, service and codec, dialled when first needed, or as
//! many to a region server as are configured.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, join_all},
};
use hbase_security::{DelegationToken, KdcClock};
use prost::Message;
use tokio::{
    runtime::Handle,
    task::JoinError,
    time::{Instant, timeout, timeout_at},
};

use super::{
    call_error::CallError,
    connection::{AttemptLimit, RpcConnection},
    connector::{Connector, DialTarget, ServiceKind},
    dialler::Dialler,
};
use crate::{
    config::{Config, HostPort},
    environment::Environment,
    observe::{
        Timer,
        client_metrics::{CALL_DURATION, CALLS, CALLS_IN_FLIGHT, DIALS},
    },
    wire::{
        cell_block::{CellBlockDecoder, Codec},
        frame, parts,
    },
};

/// All connections of one client.
#[derive(Debug)]
pub(crate) struct RpcClient {
    /// The runtime in which the client was made. The tasks of its connections run there.
    runtime: Handle,
    dialler: Dialler,
    max_frame_size: usize,
    connections_per_server: u8,
    connections: Mutex<Pool>,
    /// Connections out of use that may still have calls in flight. Closing the client ends them
    /// too.
    retired: Mutex<Vec<Weak<RpcConnection>>>,
    /// The servers of which a connection has ended or was retired: the next one may lead to another
    /// process.
    lost: Mutex<BTreeSet<HostPort>>,
    /// Whether any server ever sent anything.
    has_heard: AtomicBool,
}

#[derive(Debug)]
enum Pool {
    /// In order, so that connections are closed in the same order in every run.
    Open(BTreeMap<Line, Slot>),
    Closed,
}

/// The key of a connection: its server, and the parameters negotiated when it was opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    target: DialTarget,
    codec: Codec,
    /// The number of the connection among those that are otherwise equal.
    number: u8,
}

#[derive(Clone, Debug)]
enum Slot {
    Dialling(Dial),
    Connected(Arc<RpcConnection>),
}

impl Slot {
    fn is_usable(&self) -> bool {
        match self {
            Self::Dialling(dial) => dial.peek().is_none(),
            Self::Connected(connection) => connection.is_open(),
        }
    }

    /// Whether it was a connection that is not open any more.
    fn has_ended(&self) -> bool {
        matches!(self, Self::Connected(connection) if !connection.is_open())
    }
}

/// How long the tasks of connections may take to release their sockets; they only have to be woken.
const CLOSING: Duration = Duration::from_secs(1);

/// The opening of a connection, by a task.
type Dial = Shared<BoxFuture<'static, Result<Arc<RpcConnection>, CallError>>>;

/// The parameters that all calls of a table handle share.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallOptions {
    /// The encoding of cells in answers.
    pub(crate) codec: Codec,
    /// The priority of calls to tables of users, if the handle has one.
    pub(crate) priority: Option<u32>,
    /// The request attributes.
    pub(crate) attributes: Arc<Vec<(String, Bytes)>>,
    /// Whether calls fail on a connection that is not encrypted.
    pub(crate) requires_privacy: bool,
}

/// One call: its target, its method, and its limits.
#[derive(Debug)]
pub(crate) struct Call<'a, M> {
    pub(crate) server: &'a HostPort,
    pub(crate) service: ServiceKind,
    pub(crate) options: CallOptions,
    /// The method, spelt as the server spells it.
    pub(crate) method: &'static str,
    pub(crate) request: &'a M,
    /// The cells behind the request.
    pub(crate) cells: Bytes,
    /// Above the normal priority; set only for calls on system tables.
    pub(crate) priority: Option<u32>,
    pub(crate) limit: AttemptLimit,
}

impl RpcClient {
    /// Creates a client of the current runtime.
    pub(crate) fn new(config: &Config, connector: Arc<dyn Connector>) -> Self {
        Self {
            runtime: Handle::current(),
            dialler: Dialler::new(config, connector),
            max_frame_size: config.max_frame_size(),
            connections_per_server: config.connections_per_server(),
            connections: Mutex::new(Pool::Open(BTreeMap::new())),
            retired: Mutex::default(),
            lost: Mutex::default(),
            has_heard: AtomicBool::new(false),
        }
    }

    /// Returns the runtime in which the client was made.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns this failure, or [`CallError::NotDriven`] for a timeout in another runtime while tasks wait
    /// in that of the client.
    pub(crate) fn unless_not_driven(&self, failure: CallError) -> CallError {
        let (waited, sent) = match failure {
            CallError::Timeout { waited, sent } => (waited, sent),
            CallError::DialTimeout(waited) => (waited, false),
            _ => return failure,
        };
        let is_elsewhere = Handle::try_current().is_ok_and(|current| current.id() != self.runtime.id());
        if is_elsewhere && self.runtime.metrics().global_queue_depth() > 0 {
            CallError::NotDriven { waited, sent }
        } else {
            failure
        }
    }

    /// Sets the delegation token that connections are authenticated with.
    pub(crate) fn use_token(&self, token: DelegationToken, environment: Arc<dyn Environment>) {
        if let Some(authenticator) = self.dialler.authenticator() {
            authenticator.use_token(token, move |bytes| environment.fill_random(bytes));
        }
    }

    /// Compares the wall clock with that of a key distribution centre. Returns `None` if connections
    /// need no ticket.
    pub(crate) async fn kdc_clock(
        &self,
        environment: Arc<dyn Environment>,
    ) -> Result<Option<KdcClock>, CallError> {
        match self.dialler.authenticator() {
            Some(authenticator) => Ok(authenticator.kdc_clock(move || environment.wall_clock()).await?),
            None => Ok(None),
        }
    }

    /// Returns how the client authenticates to ZooKeeper. Returns `None` without Kerberos.
    #[cfg(feature = "zookeeper")]
    pub(crate) fn quorum_login(&self) -> Option<hbase_security::QuorumLogin> {
        self.dialler.authenticator()?.quorum_login()
    }

    /// Asks a server of the registry for the id of its cluster, without authentication. Returns `None`
    /// if it does not answer, as servers before 2.6.
    pub(crate) async fn cluster_id(&self, server: &HostPort) -> Option<String> {
        let target = DialTarget {
            address: server.clone(),
            service: ServiceKind::Registry,
        };
        self.dialler.cluster_id(&target).await
    }

    /// Makes a call: dials if there is no connection yet, sends, waits for the answer. Returns the
    /// message and its cells.
    pub(crate) async fn call<M: Message, R: Message + Default>(
        self: &Arc<Self>,
        call: Call<'_, M>,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        let (method, timer) = (call.method, Timer::start());
        let in_flight = CALLS_IN_FLIGHT.raise();
        let answer = self.attempt(&call).await;
        let answer = answer.map_err(|failure| self.unless_not_driven(failure));
        drop(in_flight);
        CALLS.count(|| [method, answer.as_ref().map_or_else(CallError::reason, |_| "ok")]);
        CALL_DURATION.record_since(timer, || [method]);
        answer
    }

    async fn attempt<M: Message, R: Message + Default>(
        self: &Arc<Self>,
        call: &Call<'_, M>,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        let mut line = Line {
            target: DialTarget {
                address: call.server.clone(),
                service: call.service,
            },
            codec: call.options.codec,
            number: 0,
        };
        let AttemptLimit {
            deadline,
            repeatable,
            ref trace,
            ..
        } = call.limit;
        let compression = self.dialler.compression_to(call.service);
        let cells = match compression {
            Some(compression) if !call.cells.is_empty() => compression
                .compress(&call.cells)
                .map_err(CallError::uncompressible)?,
            _ => call.cells.clone(),
        };
        let began = Instant::now();
        if began >= deadline {
            // A future is polled once before its timeout is checked, which would be enough to send.
            return Err(CallError::Timeout {
                waited: Duration::ZERO,
                sent: false,
            });
        }
        let found = {
            let mut usable = pin!(self.usable_connection(&mut line, repeatable));
            // Most calls find a connection, and need no timer.
            match usable.as_mut().now_or_never() {
                Some(found) => Ok(found),
                None => timeout_at(deadline, usable).await,
            }
        };
        let connection = match found {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) if error.is_hang_up() => {
                let reason = self.why_it_hangs_up(&line.target, deadline).await;
                return Err(reason.unwrap_or(error));
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(CallError::DialTimeout(began.elapsed())),
        };
        if call.options.requires_privacy && !connection.is_private() {
            return Err(CallError::NotPrivate);
        }
        if let Some(located_at) = call.limit.located_at
            && connection.is_younger_than(located_at)
            && self.has_lost(call.server)
        {
            return Err(CallError::NewConnection);
        }
        let answer = connection
            .call(&call.limit, |call_id| {
                let options = frame::RequestOptions {
                    timeout: deadline.saturating_duration_since(Instant::now()),
                    priority: call.priority,
                    trace_info: trace.trace_info(),
                    attributes: &call.options.attributes,
                };
                frame::encode_request(
                    call_id,
                    call.method,
                    call.request,
                    cells,
                    options,
                    self.max_frame_size,
                )
            })
            .await;
        if let Err(CallError::Timeout { waited, .. }) = answer
            && connection.is_silent(waited)
        {
            // Nothing came in while the call waited, or after a ping: the peer may be gone
            // silently. Later calls get a new connection; those in flight here keep theirs.
            self.retire(&line, &connection);
        }
        if connection.has_heard() {
            self.has_heard.store(true, Ordering::Relaxed);
        } else if matches!(answer, Err(CallError::Lost { .. }))
            && let Some(reason) = self.why_it_hangs_up(&line.target, deadline).await
        {
            return Err(reason);
        }
        let body = answer?;
        let bad_answer = |error: &dyn std::fmt::Display| CallError::BadAnswer(error.to_string().into());
        parts::check(call.method, &body.message).map_err(|error| bad_answer(&error))?;
        let message = body.parse().map_err(|error| bad_answer(&error))?;
        let cells = match compression {
            Some(compression) if !body.cells.is_empty() => compression
                .decompress(&body.cells, self.max_frame_size)
                .map_err(|error| CallError::of_compressed_answer(&error))?,
            _ => body.cells,
        };
        Ok((message, CellBlockDecoder::new(cells, call.options.codec)))
    }

    /// Returns the reason why a server hangs up, if no server has sent anything yet and a new
    /// connection shows it.
    ///
    /// Boxed: it is part of the futures of all calls, whose types are limited in depth.
    fn why_it_hangs_up<'a>(
        &'a self,
        target: &'a DialTarget,
        deadline: Instant,
    ) -> BoxFuture<'a, Option<CallError>> {
        if self.has_heard.load(Ordering::Relaxed) {
            Box::pin(async { None })
        } else {
            Box::pin(self.dialler.why_it_hangs_up(target, deadline))
        }
    }

    /// Waits until no call is in flight, at most until the deadline, then ends all connections.
    /// Rejects calls made meanwhile.
    pub(crate) async fn close(&self, deadline: Instant) {
        let pool = std::mem::replace(&mut *self.pool(), Pool::Closed);
        let Pool::Open(slots) = pool else { return };
        let retired = std::mem::take(&mut *self.retired.lock().unwrap_or_else(PoisonError::into_inner));
        let connections: Vec<_> = slots
            .into_values()
            .filter_map(|slot| match slot {
                Slot::Connected(connection) => Some(connection),
                Slot::Dialling(_) => None,
            })
            .chain(retired.iter().filter_map(Weak::upgrade))
            .collect();
        let drained = join_all(connections.iter().map(|connection| connection.drained()));
        if timeout_at(deadline, drained).await.is_err() {
            tracing::warn!("closed with calls still in flight");
        }
        for connection in &connections {
            connection.close();
        }
        let closed = join_all(connections.iter().map(|connection| connection.closed()));
        if timeout(CLOSING, closed).await.is_err() {
            tracing::warn!("the tasks of a connection do not end");
        }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, BTreeSet<HostPort>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a connection to a server has ended or was retired.
    fn has_lost(&self, server: &HostPort) -> bool {
        let has_ended = match &*self.pool() {
            Pool::Open(slots) => slots
                .iter()
                .any(|(line, slot)| line.target.address == *server && slot.has_ended()),
            Pool::Closed => false,
        };
        has_ended || self.lost().contains(server)
    }

    /// Returns a connection of a line, and sets its number. A call that must not be repeated does not
    /// get a connection that was idle for long and may be dead.
    async fn usable_connection(
        self: &Arc<Self>,
        line: &mut Line,
        repeatable: bool,
    ) -> Result<Arc<RpcConnection>, CallError> {
        loop {
            let connection = self.connection(line).await?;
            if repeatable || connection.is_alive().await {
                return Ok(connection);
            }
            self.retire(line, &connection);
        }
    }

    /// Returns a connection of a line, and sets its number. Concurrent callers share one dial, which
    /// continues when any of them is dropped.
    async fn connection(self: &Arc<Self>, line: &mut Line) -> Result<Arc<RpcConnection>, CallError> {
        match self.slot(line)? {
            Slot::Connected(connection) => Ok(connection),
            Slot::Dialling(dial) => dial.await,
        }
    }

    /// Returns a usable slot of a line, and sets its number. Begins a dial if there is none.
    fn slot(self: &Arc<Self>, line: &mut Line) -> Result<Slot, CallError> {
        let mut pool = self.pool();
        let Pool::Open(slots) = &mut *pool else {
            return Err(CallError::Closed);
        };
        if line.target.service == ServiceKind::Client && self.connections_per_server > 1 {
            let further = choose(slots, line, self.connections_per_server);
            if let Some(number) = further {
                let further = Line {
                    number,
                    ..line.clone()
                };
                self.begin_dial(slots, further);
            }
        }
        if let Some(slot) = slots.get(line).filter(|slot| slot.is_usable()) {
            return Ok(slot.clone());
        }
        Ok(self.begin_dial(slots, line.clone()))
    }

    /// Begins a dial, and removes the connections that have ended.
    fn begin_dial(self: &Arc<Self>, slots: &mut BTreeMap<Line, Slot>, line: Line) -> Slot {
        slots.retain(|line, slot| {
            let has_ended = slot.has_ended();
            if has_ended {
                self.lost().insert(line.target.address.clone());
            }
            !has_ended
        });
        let slot = Slot::Dialling(self.dial(line.clone()));
        slots.insert(line, slot.clone());
        slot
    }

    fn dial(self: &Arc<Self>, line: Line) -> Dial {
        let client = Arc::clone(self);
        let task = self.runtime.spawn(async move {
            let result = client.dialler.open(&line.target, line.codec).await.map(Arc::new);
            DIALS.count(|| [if result.is_ok() { "ok" } else { "failed" }]);
            let DialTarget { address, service } = &line.target;
            tracing::debug!(server = %address, ?service, codec = ?line.codec, ok = result.is_ok(), "dialled");
            client.take(line, result)
        });
        let failure = |error: JoinError| {
            if error.is_cancelled() {
                CallError::RuntimeEnded { sent: false }
            } else {
                CallError::Dial(Arc::new(io::Error::other(error)))
            }
        };
        let result = async move { task.await.unwrap_or_else(|error| Err(failure(error))) };
        result.boxed().shared()
    }

    /// Takes the result of a dial.
    fn take(
        &self,
        line: Line,
        result: Result<Arc<RpcConnection>, CallError>,
    ) -> Result<Arc<RpcConnection>, CallError> {
        let Pool::Open(slots) = &mut *self.pool() else {
            return Err(CallError::Closed);
        };
        match &result {
            Ok(connection) => slots.insert(line, Slot::Connected(Arc::clone(connection))),
            Err(_) => slots.remove(&line),
        };
        result
    }

    /// Takes a connection out of use, if it still is in use.
    fn retire(&self, line: &Line, connection: &Arc<RpcConnection>) {
        if let Pool::Open(slots) = &mut *self.pool()
            && matches!(slots.get(line), Some(Slot::Connected(current)) if Arc::ptr_eq(current, connection))
        {
            slots.remove(line);
            self.lost().insert(line.target.address.clone());
            let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            retired.retain(|connection| connection.strong_count() > 0);
            retired.push(Arc::downgrade(connection));
        }
    }
}

/// Sets the number of a line to that of the open connection with the fewest calls in flight, or else
/// of one that is being dialled, or else of one that is not. Returns the number of a further
/// connection that should be dialled, if all open ones have calls in flight and none is being dialled.
fn choose(slots: &BTreeMap<Line, Slot>, line: &mut Line, size: u8) -> Option<u8> {
    let (mut open, mut dialling, mut absent) = (None, None, None);
    for number in 0..size {
        line.number = number;
        match slots.get(line) {
            Some(Slot::Connected(connection)) if connection.is_open() => {
                let candidate = (connection.calls_in_flight(), number);
                open = Some(open.map_or(candidate, |least: (usize, u8)| least.min(candidate)));
            }
            Some(Slot::Dialling(dial)) if dial.peek().is_none() => dialling = dialling.or(Some(number)),
            _ => absent = absent.or(Some(number)),
        }
    }
    match open {
        Some((calls, number)) => {
            line.number = number;
            absent.filter(|_| calls > 0 && dialling.is_none())
        }
        None => {
            line.number = dialling.or(absent).unwrap_or(0);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::{rpc::connector::Io, wire::pb};

    /// Counts its dials, which never complete.
    #[derive(Debug, Default)]
    struct Endless(Arc<AtomicUsize>);

    impl Connector for Endless {
        fn connect(&self, _: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::future::pending().boxed()
        }
    }

    fn client(dials: &Arc<AtomicUsize>) -> Arc<RpcClient> {
        let config = Config::from_uri("hbase+rpc://a").unwrap();
        Arc::new(RpcClient::new(&config, Arc::new(Endless(Arc::clone(dials)))))
    }

    fn line() -> Line {
        Line {
            target: DialTarget {
                address: HostPort {
                    host: "a".into(),
                    port: 1,
                },
                service: ServiceKind::Client,
            },
            codec: Codec::KeyValue,
            number: 0,
        }
    }

    fn runtime() -> Builder {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_all();
        runtime
    }

    /// Returns a client, and the runtime in which it was made.
    fn client_of_another_runtime(dials: &Arc<AtomicUsize>) -> (Arc<RpcClient>, Runtime) {
        let home = runtime().build().unwrap();
        (home.block_on(async { client(dials) }), home)
    }

    async fn call(client: &Arc<RpcClient>) -> Result<pb::GetActiveMasterResponse, CallError> {
        let line = line();
        let answer = client.call(Call {
            server: &line.target.address,
            service: ServiceKind::Client,
            options: CallOptions::default(),
            method: "GetActiveMaster",
            request: &pb::GetActiveMasterRequest {},
            cells: Bytes::new(),
            priority: None,
            limit: AttemptLimit::new(Instant::now() + Duration::from_secs(1), true),
        });
        answer.await.map(|(answer, _)| answer)
    }

    #[test]
    fn call_after_the_end_of_the_runtime_is_not_sent() {
        let dials = Arc::default();
        let (client, home) = client_of_another_runtime(&dials);
        home.shutdown_background();
        for _ in 0..2 {
            let called = runtime().build().unwrap().block_on(call(&client));
            assert!(
                matches!(called, Err(CallError::RuntimeEnded { sent: false })),
                "{called:?}"
            );
        }
        assert_eq!(dials.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn call_names_a_runtime_that_nothing_drives() {
        let dials = Arc::default();
        let (client, home) = client_of_another_runtime(&dials);
        let other = runtime().start_paused(true).build().unwrap();
        let called = other.block_on(call(&client));
        assert!(
            matches!(called, Err(CallError::NotDriven { sent: false, .. })),
            "{called:?}"
        );
        // Driven again, it dials for the next call.
        home.block_on(tokio::task::yield_now());
        assert_eq!(dials.load(Ordering::Relaxed), 1);
    }
}
