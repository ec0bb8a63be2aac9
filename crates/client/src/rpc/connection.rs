//! One socket, and the many calls in flight on it.
//!
//! Two tasks own the socket's halves. The writer takes requests from a bounded queue and writes all
//! that has queued up at once; the reader cuts answers out of the stream and hands each to its
//! waiter. Neither ever waits for a caller.

mod liveness;
mod shared;

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout_at},
};

use self::{
    liveness::{Check, IDLE, Liveness, PING_TIMEOUT},
    shared::{Calls, Ending, Shared},
};
use super::{call_error::CallError, connector::Io, frame_queue::FrameQueue};
use crate::{
    error::RemoteException,
    wire::{
        call_table::CallTable,
        connection_header::Service,
        frame::{AnswerError, Body, FrameError, RequestFrame, ResponseDecoder},
        ping, tls,
    },
};

/// Calls that may wait for an answer on one connection; far above what a server's queues take.
const CALLS_IN_FLIGHT: usize = 100_000;
/// Requests that may wait for the socket; more wait with their callers.
const QUEUED_REQUESTS: usize = 1_024;
/// What the writer gathers before it writes: enough to fill a socket's buffer, little enough to
/// start early.
const GATHERED_BYTES: usize = 256 << 10;
/// Room that is kept free for what arrives.
const READ_ROOM: usize = 64 << 10;

type Answer = Result<Body, CallError>;

/// A connection to one service of one server. Ends when dropped, or with its socket.
#[derive(Debug)]
pub(super) struct RpcConnection {
    shared: Arc<Shared>,
    outbox: mpsc::Sender<Outgoing>,
    service: Service,
    /// Each of the two tasks has a receiver for as long as it holds its half of the socket.
    alive: watch::Sender<()>,
}

/// When an attempt must be answered, and whether it may be given up before that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptLimit {
    pub(crate) deadline: Instant,
    /// Whether the call may be sent again, and so is given up as soon as its connection turns out
    /// to be silent.
    pub(crate) repeatable: bool,
}

#[derive(Debug)]
struct Outgoing {
    call_id: u32,
    frame: RequestFrame,
}

impl RpcConnection {
    /// Runs calls over a stream that was just opened. `greeting` (preamble and header) goes out
    /// with the first request: the server says nothing when it accepts, and some servers are slow
    /// with piecemeal preambles.
    pub(super) fn start(
        stream: Box<dyn Io>,
        service: Service,
        greeting: Bytes,
        max_frame_size: usize,
    ) -> Self {
        let (read_half, write_half) = tokio::io::split(stream);
        let (outbox, inbox) = mpsc::channel(QUEUED_REQUESTS);
        let shared = Arc::new(Shared {
            calls: Mutex::new(Calls::Open(CallTable::new(CALLS_IN_FLIGHT))),
            idle: Notify::new(),
            liveness: Liveness::new(),
            tasks: OnceLock::new(),
        });
        let (alive, writer_lives) = watch::channel(());
        let reader_lives = writer_lives.clone();
        let writer = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                let _lives = writer_lives;
                if let Err(error) = write_requests(&shared, write_half, inbox, greeting).await {
                    shared.end(&Ending::Lost(Arc::new(error)));
                }
            }
        });
        let reader = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                let _lives = reader_lives;
                let ending = read_answers(&shared, read_half, max_frame_size).await;
                shared.end(&ending);
            }
        });
        let _ = shared.tasks.set([writer.abort_handle(), reader.abort_handle()]);
        if shared.ending().is_some() {
            // It ended before its tasks were known.
            shared.abort_tasks();
        }
        Self {
            shared,
            outbox,
            service,
            alive,
        }
    }

    /// Sends a request and waits for its answer until the deadline; if it may be sent again, not on
    /// a connection that turns out to be silent. Dropping the future forgets the call; its answer,
    /// if one comes, is skipped.
    ///
    /// `encode` gets the call's id.
    pub(super) async fn call(
        &self,
        limit: AttemptLimit,
        encode: impl FnOnce(u32) -> Result<RequestFrame, FrameError>,
    ) -> Answer {
        let began = Instant::now();
        let exchange = self.exchange(limit.deadline, encode);
        if !limit.repeatable {
            return exchange.await;
        }
        let mut exchange = pin!(exchange);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            () = self.silence(began) => Err(CallError::Timeout { waited: began.elapsed(), sent: true }),
        }
    }

    /// Ends when the peer turns out to be silent, as seen by a call that waits since then.
    async fn silence(&self, since: Instant) {
        loop {
            match self.shared.liveness.check(since) {
                Check::Again(at) => sleep_until(at).await,
                Check::Ping => {
                    self.ping().await;
                }
                Check::Silent => return,
            }
        }
    }

    /// Whether the peer answers a request that any server answers at once, with a refusal for
    /// example.
    async fn ping(&self) -> bool {
        let deadline = Instant::now() + PING_TIMEOUT;
        let answer = self.exchange(deadline, |call_id| {
            ping::request(self.service, call_id, PING_TIMEOUT)
        });
        matches!(answer.await, Ok(_) | Err(CallError::Remote(_)))
    }

    /// Whether calls that must not be sent twice can be made on it: something came in lately, or a
    /// ping is answered.
    pub(super) async fn is_alive(&self) -> bool {
        self.shared.liveness.silent_for() < IDLE || self.ping().await
    }

    async fn exchange(
        &self,
        deadline: Instant,
        encode: impl FnOnce(u32) -> Result<RequestFrame, FrameError>,
    ) -> Answer {
        let began = Instant::now();
        let (waiter, answer) = oneshot::channel();
        let mut call = InFlight {
            shared: &self.shared,
            call_id: self.shared.enter(waiter)?,
        };
        let frame = encode(call.call_id).map_err(|error| CallError::Unsendable(Arc::new(error)))?;
        let exchange = async {
            // A queue whose receiver is gone belongs to a connection that ended; the waiter knows
            // why.
            let _ = self
                .outbox
                .send(Outgoing {
                    call_id: call.call_id,
                    frame,
                })
                .await;
            answer.await
        };
        match timeout_at(deadline, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(self
                .shared
                .ending()
                .unwrap_or(Ending::Closed)
                .into_call_error(true)),
            Err(_) => Err(CallError::Timeout {
                waited: began.elapsed(),
                sent: call.give_up(),
            }),
        }
    }

    /// Whether calls can still be made on it.
    pub(super) fn is_open(&self) -> bool {
        // The tasks of a runtime that was shut down end without a word.
        self.shared.ending().is_none() && !self.outbox.is_closed()
    }

    /// Whether anything came in.
    pub(super) fn has_heard(&self) -> bool {
        self.shared.liveness.has_heard()
    }

    /// Whether nothing came in for this long, or the peer showed no life after a ping.
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

    /// Ends the connection; calls still in flight learn that the client was closed.
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

/// A call's place in the table; leaves it when the caller stops waiting.
struct InFlight<'a> {
    shared: &'a Shared,
    call_id: u32,
}

impl InFlight<'_> {
    /// Takes the call out of the table, and says whether its request was handed to the socket. A
    /// call that is not in the table any more was answered, or ended with its connection, in this
    /// very moment.
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
    mut inbox: mpsc::Receiver<Outgoing>,
    greeting: Bytes,
) -> io::Result<()> {
    let mut queue = FrameQueue::default();
    queue.push(greeting);
    // The calls in the queue, and where in it their requests end.
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
            // No server does half a request.
            let taken = offered - queue.remaining();
            let unsent = queued.iter().filter(|(_, end)| *end > taken);
            shared.mark_unsent(unsent.map(|(call_id, _)| *call_id));
            return Err(error);
        }
        queued.clear();
        socket.flush().await?;
    }
    Ok(())
}

/// Writes all of the queue. A write that had to wait for room is a sign of life: the peer took what
/// filled the socket. One that did not wait is none, because a socket whose peer is gone takes
/// bytes until it is full.
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
    // A server that answers calls has accepted the connection.
    let mut accepted = false;
    let mut begun = false;
    let mut buffer = BytesMut::with_capacity(READ_ROOM);
    loop {
        match socket.read_buf(&mut buffer).await {
            Ok(0) => return Ending::Lost(Arc::new(io::Error::from(io::ErrorKind::UnexpectedEof))),
            Ok(_) => {}
            Err(error) => return Ending::Lost(Arc::new(error)),
        }
        shared.liveness.hear();
        if !begun && tls::is_answer(&buffer) {
            return Ending::Garbled(Arc::new(FrameError::Tls));
        }
        // Fewer bytes are no frame yet and stay in the buffer. Later ones may look like TLS within
        // an answer.
        begun |= buffer.len() >= tls::BEGINNING;
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(answer)) if answer.is_about_the_connection() => {
                    if let Err(AnswerError::Fault(fault)) = answer.outcome {
                        // What it refuses from the start it does not read; later it may have done
                        // any call.
                        return match accepted {
                            false => Ending::Refused(Arc::new(fault)),
                            true => Ending::Lost(Arc::new(io::Error::other(RemoteException::from(fault)))),
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
        // Answers are slices of this buffer; what is not sliced away moves to a new one when room
        // runs out.
        buffer.reserve(READ_ROOM);
    }
}

#[cfg(test)]
mod tests;
