//! One socket, with many calls in flight.
//!
//! Two tasks own the socket's halves. The writer takes requests from a bounded queue and writes all
//! queued requests at once. The reader cuts answers out of the stream and hands each to its waiter.
//! Neither ever waits for a caller.

mod heard;
mod liveness;
mod shared;

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::panicking,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared as SharedFuture},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    runtime::Handle,
    sync::{
        Notify,
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    time::{Instant, sleep_until, timeout_at},
};

pub(super) use self::heard::Heard;
pub(super) use self::liveness::Liveness;
use self::{
    liveness::{Check, IDLE, PING_TIMEOUT},
    shared::{Calls, Ending, Shared},
};
use super::{call_error::CallError, connector::Io, frame_queue::FrameQueue};
use crate::{
    error::RemoteException,
    observe::{TraceHeaders, client_metrics::CONNECTIONS},
    wire::{
        call_table::CallTable,
        connection_header::Service,
        frame::{AnswerError, Body, FrameError, RequestFrame, ResponseDecoder},
        ping, tls,
    },
};

/// The maximum number of calls in flight on one connection, far above the length of a server's
/// queues.
const CALLS_IN_FLIGHT: usize = 100_000;
/// The maximum number of requests that wait for the socket. Callers hold further ones.
const QUEUED_REQUESTS: usize = 1_024;
/// The number of bytes that the writer gathers before a write: enough to fill a socket's buffer,
/// little enough to start early.
const GATHERED_BYTES: usize = 256 << 10;

pub(super) type Answer = Result<Body, CallError>;

/// A connection to one service of one server. It ends when it is dropped, or with its socket.
#[derive(Debug)]
pub(super) struct RpcConnection {
    shared: Arc<Shared>,
    outbox: mpsc::Sender<Outgoing>,
    service: Service,
    is_private: bool,
    /// Each of the two tasks has a receiver for as long as it holds its half of the socket.
    alive: watch::Sender<()>,
    /// The runtime of the connection's tasks.
    runtime: Handle,
    /// The ping in flight, shared by all calls that wait for its answer.
    ping: Mutex<Option<SharedFuture<BoxFuture<'static, bool>>>>,
}

/// The deadline of an attempt, whether it may be given up earlier, and its trace.
#[derive(Clone, Debug)]
pub(crate) struct AttemptLimit {
    pub(crate) deadline: Instant,
    /// Whether the call may be repeated, and so is given up as soon as its connection turns out to
    /// be silent.
    pub(crate) repeatable: bool,
    /// If set, only the process that the call's location names may execute it. The location was read after
    /// this time, so a connection that was opened later may lead to another process.
    pub(crate) connected_before: Option<Instant>,
    /// If set, only the opening of the region that the call's location names may execute it. The location
    /// was asked for at this time. If a connection to the server has ended since then, the region may have
    /// been elsewhere and have come back.
    pub(crate) located_at: Option<Instant>,
    /// The trace that the server continues.
    pub(crate) trace: TraceHeaders,
}

impl AttemptLimit {
    /// Creates the limit of an attempt that is not traced.
    pub(crate) fn new(deadline: Instant, repeatable: bool) -> Self {
        Self {
            deadline,
            repeatable,
            connected_before: None,
            located_at: None,
            trace: TraceHeaders::default(),
        }
    }

    /// Returns the limit of a call for two attempts. It continues the trace of the first one.
    pub(crate) fn with(self, other: Self) -> Self {
        let earliest = |one: Option<Instant>, other| one.into_iter().chain(other).min();
        Self {
            deadline: self.deadline.max(other.deadline),
            repeatable: self.repeatable && other.repeatable,
            connected_before: earliest(self.connected_before, other.connected_before),
            located_at: earliest(self.located_at, other.located_at),
            trace: self.trace,
        }
    }
}

#[derive(Debug)]
struct Outgoing {
    call_id: u32,
    frame: RequestFrame,
}

/// A new stream to a server.
pub(super) struct Link {
    pub(super) io: Box<dyn Io>,
    /// Whether it may send records, as with TLS: some of them may have left when it reports that a
    /// write has failed.
    pub(super) sealed: bool,
    /// Whether the client encrypts what it sends, and decrypts what it reads.
    pub(super) is_private: bool,
    pub(super) liveness: Arc<Liveness>,
    /// How long the connection stays open without calls.
    pub(super) idle_timeout: Duration,
}

impl RpcConnection {
    /// Runs calls over a new stream. `greeting` (preamble and header) is sent with the first
    /// request: the server does not answer it, and some servers are slow with preambles that arrive
    /// in pieces.
    pub(super) fn start(
        Link {
            io,
            sealed,
            is_private,
            liveness,
            idle_timeout,
        }: Link,
        service: Service,
        greeting: Bytes,
        max_frame_size: usize,
    ) -> Self {
        let (read_half, write_half) = tokio::io::split(io);
        let (outbox, inbox) = mpsc::channel(QUEUED_REQUESTS);
        let shared = Arc::new(Shared {
            calls: Mutex::new(Calls::Open(CallTable::new(CALLS_IN_FLIGHT))),
            idle: Notify::new(),
            liveness,
            tasks: OnceLock::new(),
        });
        let (alive, writer_lives) = watch::channel(());
        let reader_lives = writer_lives.clone();
        let writer = tokio::spawn({
            let task = Task(Arc::clone(&shared));
            async move {
                let _lives = writer_lives;
                if let Err(error) = write_requests(&task.0, write_half, sealed, inbox, greeting).await {
                    task.0.end(&Ending::Lost(Arc::new(error)));
                }
            }
        });
        let reader = tokio::spawn({
            let task = Task(Arc::clone(&shared));
            async move {
                let _lives = reader_lives;
                let _open = CONNECTIONS.raise();
                tokio::select! {
                    ending = read_answers(&task.0, read_half, max_frame_size) => task.0.end(&ending),
                    () = end_when_idle(&task.0, idle_timeout) => {}
                }
            }
        });
        let _ = shared.tasks.set([writer.abort_handle(), reader.abort_handle()]);
        if shared.ending().is_some() {
            // The connection ended before its tasks were registered.
            shared.abort_tasks();
        }
        Self {
            shared,
            outbox,
            service,
            is_private,
            alive,
            runtime: Handle::current(),
            ping: Mutex::default(),
        }
    }

    /// Returns whether messages are encrypted by TLS or by the authentication.
    pub(super) fn is_private(&self) -> bool {
        self.is_private
    }

    /// Sends a request and waits for its answer until the deadline, or until the connection turns
    /// out to be silent if the call is repeatable. Dropping the future forgets the call, and a late
    /// answer is skipped.
    ///
    /// `encode` gets the call's id.
    pub(super) async fn call(
        &self,
        limit: &AttemptLimit,
        encode: impl FnOnce(u32) -> Result<RequestFrame, FrameError>,
    ) -> Answer {
        if limit
            .connected_before
            .is_some_and(|time| self.is_younger_than(time))
        {
            return Err(CallError::NewConnection);
        }
        let began = Instant::now();
        let (waiter, answer) = oneshot::channel();
        let mut call = InFlight {
            shared: &self.shared,
            call_id: self.shared.enter(waiter)?,
        };
        let frame = encode(call.call_id).map_err(|error| CallError::Unsendable(Arc::new(error)))?;
        let outgoing = Outgoing {
            call_id: call.call_id,
            frame,
        };
        let mut exchange = pin!(async {
            // A queue without a receiver belongs to a connection that has ended. The waiter
            // receives the reason.
            if let Err(TrySendError::Full(outgoing)) = self.outbox.try_send(outgoing) {
                let _ = Box::pin(self.outbox.send(outgoing)).await;
            }
            answer.await
        });
        tokio::select! {
            biased;
            answer = &mut exchange => answer.unwrap_or_else(|_| {
                Err(self.shared.ending().unwrap_or(Ending::Closed).into_call_error(true))
            }),
            () = self.end_of_patience(limit, began) => Err(CallError::Timeout {
                waited: began.elapsed(),
                sent: call.give_up(),
            }),
        }
    }

    /// Returns when a call that waits since `since` is given up: at its deadline, or, if it is repeatable,
    /// as soon as the peer turns out to be silent.
    async fn end_of_patience(&self, limit: &AttemptLimit, since: Instant) {
        let mut next = limit.deadline;
        loop {
            if limit.repeatable {
                next = match self.shared.liveness.check(since) {
                    Check::Again(at) => at.min(limit.deadline),
                    Check::Ping => match timeout_at(limit.deadline, self.ping()).await {
                        Ok(_) => continue,
                        Err(_) => return,
                    },
                    Check::Silent => return,
                };
            }
            sleep_until(next).await;
            if next == limit.deadline {
                return;
            }
        }
    }

    /// Returns whether the peer answers a request that every server answers at once, for example by
    /// rejecting it.
    ///
    /// Boxed: a call that waits pings, and a ping is a call.
    fn ping(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            let limit = AttemptLimit::new(Instant::now() + PING_TIMEOUT, false);
            let answer = self.call(&limit, |call_id| {
                ping::request(self.service, call_id, PING_TIMEOUT)
            });
            matches!(answer.await, Ok(_) | Err(CallError::Remote(_)))
        })
    }

    /// Sends such a request with a block of cells, and returns its answer.
    pub(super) async fn ping_with(&self, cells: Bytes, deadline: Instant) -> Answer {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let encode = |call_id| ping::with_cells(self.service, call_id, timeout, cells);
        self.call(&AttemptLimit::new(deadline, false), encode).await
    }

    /// Returns whether calls that must not be repeated can be made on it: bytes came in recently,
    /// or the peer answers a ping. Concurrent calls share one.
    pub(super) async fn is_alive(self: &Arc<Self>) -> bool {
        if self.shared.liveness.silent_for() < IDLE {
            return true;
        }
        let ping = {
            let ping = || {
                let connection = Arc::clone(self);
                let ping = self.runtime.spawn(async move {
                    let is_alive = connection.ping().await;
                    *connection.ping_in_flight() = None;
                    is_alive
                });
                ping.map(|ended| ended.unwrap_or(false)).boxed().shared()
            };
            self.ping_in_flight().get_or_insert_with(ping).clone()
        };
        ping.await
    }

    fn ping_in_flight(&self) -> MutexGuard<'_, Option<SharedFuture<BoxFuture<'static, bool>>>> {
        self.ping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it was opened after this time.
    pub(super) fn is_younger_than(&self, time: Instant) -> bool {
        self.shared.liveness.born() > time
    }

    /// Returns whether calls can still be made on it.
    pub(super) fn is_open(&self) -> bool {
        self.shared.ending().is_none()
    }

    /// Returns the number of calls that wait for an answer.
    pub(super) fn calls_in_flight(&self) -> usize {
        match &*self.shared.calls() {
            Calls::Open(table) => table.len(),
            Calls::Ended(_) => 0,
        }
    }

    /// Returns whether any bytes came in.
    pub(super) fn has_heard(&self) -> bool {
        self.shared.liveness.has_heard()
    }

    /// Returns whether no bytes came in for this long, or the peer showed no life after a ping.
    pub(super) fn is_silent(&self, for_this_long: Duration) -> bool {
        let liveness = &self.shared.liveness;
        liveness.is_silent() || liveness.silent_for() >= for_this_long
    }

    /// Waits until no call is in flight.
    pub(super) async fn drained(&self) {
        loop {
            let idle = self.shared.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            match &*self.shared.calls() {
                Calls::Open(table) if !table.is_empty() => {}
                _ => return,
            }
            idle.await;
        }
    }

    /// Ends the connection. Calls in flight fail because the client was closed.
    pub(super) fn close(&self) {
        self.shared.end(&Ending::Closed);
    }

    /// Waits until the socket of a connection that has ended is closed.
    pub(super) async fn closed(&self) {
        self.alive.closed().await;
    }
}

impl Drop for RpcConnection {
    fn drop(&mut self) {
        self.close();
    }
}

/// One of the two tasks. The connection ends with it, also if the runtime shuts down or the stream
/// panics.
struct Task(Arc<Shared>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.end(&if panicking() {
            Ending::Lost(Arc::new(io::Error::other("the task of the connection panicked")))
        } else {
            Ending::RuntimeEnded
        });
    }
}

/// A call's entry in the table, which is removed when the caller stops waiting.
struct InFlight<'a> {
    shared: &'a Shared,
    call_id: u32,
}

impl InFlight<'_> {
    /// Removes the call from the table, and returns whether its request was handed to the socket. A
    /// call that is no longer in the table has just been answered, or ended with its connection.
    fn give_up(&mut self) -> bool {
        let mut calls = self.shared.calls();
        match &mut *calls {
            Calls::Open(table) => {
                let sent = table.cancel(self.call_id).is_none_or(|(sent, _)| sent);
                if table.is_empty() {
                    self.shared.idle.notify_waiters();
                }
                sent
            }
            Calls::Ended(_) => true,
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

async fn write_requests(
    shared: &Shared,
    mut socket: WriteHalf<Box<dyn Io>>,
    sealed: bool,
    mut inbox: mpsc::Receiver<Outgoing>,
    greeting: Bytes,
) -> io::Result<()> {
    let mut queue = FrameQueue::default();
    queue.push(greeting);
    // The calls in the queue, each with the end of its request.
    let mut queued: Vec<(u32, usize)> = Vec::new();
    while let Some(mut outgoing) = inbox.recv().await {
        loop {
            if shared.mark_sent(outgoing.call_id) {
                queue.push(outgoing.frame.head);
                queue.push(outgoing.frame.cells);
                queued.push((outgoing.call_id, queue.remaining()));
            }
            if queue.remaining() >= GATHERED_BYTES {
                break;
            }
            match inbox.try_recv() {
                Ok(next) => outgoing = next,
                Err(_) => break,
            }
        }
        let offered = queue.remaining();
        if let Err(error) = write_queue(shared, &mut socket, &mut queue).await {
            // No server executes an incomplete request.
            let taken = offered - queue.remaining();
            let unsent = queued.iter().filter(|(_, end)| !sealed && *end > taken);
            shared.mark_unsent(unsent.map(|(call_id, _)| *call_id));
            return Err(error);
        }
        queued.clear();
        socket.flush().await?;
    }
    Ok(())
}

/// Writes the whole queue. A write that had to wait for room is a sign of life, because the peer
/// took bytes from the full socket. One that did not wait is none, because a socket without a peer
/// accepts bytes until it is full.
async fn write_queue(
    shared: &Shared,
    socket: &mut WriteHalf<Box<dyn Io>>,
    queue: &mut FrameQueue,
) -> io::Result<()> {
    while queue.has_remaining() {
        let mut has_waited = false;
        let mut write = pin!(socket.write_buf(queue));
        let written = poll_fn(|context| {
            let written = write.as_mut().poll(context);
            has_waited |= written.is_pending();
            written
        });
        if written.await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if has_waited {
            shared.liveness.note_sign();
        }
    }
    Ok(())
}

async fn read_answers(shared: &Shared, mut socket: ReadHalf<Box<dyn Io>>, max_frame_size: usize) -> Ending {
    let mut decoder = ResponseDecoder::new(max_frame_size);
    // A server that answers a call has accepted the connection.
    let mut accepted = false;
    let mut begun = false;
    let mut buffer = BytesMut::new();
    loop {
        // It makes room in the buffer, of which answers are slices.
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(answer)) if answer.is_about_the_connection() => {
                    if let Err(AnswerError::Fault(fault)) = answer.outcome {
                        // A server that rejects a connection from the start reads no call. Later it
                        // may have executed any.
                        return if accepted {
                            Ending::Lost(Arc::new(io::Error::other(RemoteException::from(fault))))
                        } else {
                            Ending::Refused(Arc::new(fault))
                        };
                    }
                }
                Ok(Some(answer)) => {
                    accepted = true;
                    let outcome = answer.outcome.map_err(|error| match error {
                        AnswerError::Fault(fault) => CallError::Remote(Arc::new(fault)),
                        AnswerError::TooLarge { len, limit } => CallError::AnswerTooLarge { len, limit },
                    });
                    shared.complete(answer.call_id, outcome);
                }
                Ok(None) => break,
                Err(error) => return Ending::Garbled(Arc::new(error)),
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) => return Ending::Lost(Arc::new(io::Error::from(io::ErrorKind::UnexpectedEof))),
            Ok(_) => {}
            Err(error) => return Ending::of_socket(error),
        }
        shared.liveness.hear();
        if !begun && tls::is_answer(&buffer) {
            return Ending::Garbled(Arc::new(FrameError::Tls));
        }
        // Fewer bytes are not a frame yet and stay in the buffer. Later bytes may look like TLS
        // within an answer.
        begun |= buffer.len() >= tls::BEGINNING;
    }
}

/// Ends the connection once it has carried no call for this long.
async fn end_when_idle(shared: &Shared, idle_timeout: Duration) {
    let mut next = shared.liveness.born() + idle_timeout;
    loop {
        sleep_until(next).await;
        let (now, due) = (Instant::now(), shared.liveness.last_heard() + idle_timeout);
        next = if due > now {
            due
        } else if shared.end_if_unused() {
            return;
        } else {
            now + idle_timeout
        };
    }
}

#[cfg(test)]
mod tests;
