//! The server's side of a connection.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use hbase_protocol as pb;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::yield_now,
};

use super::{
    delivery::{Delivery, Outgoing},
    frame::{self, BadRequest, Piece, Request},
    opening::{self, ConnectionId, Opened, PREAMBLE, Preamble, Rejection},
    server_life::ServerLife,
    state::Shared,
    trace::Event,
};
use crate::exception::Exception;

/// The room for bytes of a read.
const READ: usize = 8 << 10;
/// A client that takes no answers is not read from while more than this waits for it.
const MAX_UNSENT: usize = 16 << 20;

/// How far the opening of a connection is.
#[derive(Debug)]
enum Stage {
    Preamble,
    Header,
    Calls(Opened),
}

/// The reason for which a connection is closed, after what was queued is sent.
#[derive(Debug)]
struct Close(String);

#[derive(Debug)]
pub(super) struct Connection {
    id: ConnectionId,
    shared: Arc<Shared>,
    life: ServerLife,
    stage: Stage,
    input: BytesMut,
    output: BytesMut,
    answers: mpsc::UnboundedSender<Outgoing>,
    close: Option<Close>,
    /// Whether it receives and sends nothing any more.
    muted: bool,
    /// How many bytes are sent at once.
    chunk: usize,
}

/// What the connection waits for.
enum Step {
    Stopped,
    Answer(Outgoing),
    Sent(usize),
    /// The client hung up if there are no bytes.
    Received(usize),
    Failed,
}

impl Connection {
    /// Serves a connection to its end.
    pub(super) async fn serve<S: AsyncRead + AsyncWrite>(
        shared: Arc<Shared>,
        id: ConnectionId,
        life: ServerLife,
        chunk: Option<usize>,
        stream: S,
    ) {
        let (answers, mut outgoing) = mpsc::unbounded_channel();
        let mut connection = Self {
            id,
            shared,
            life,
            stage: Stage::Preamble,
            input: BytesMut::new(),
            output: BytesMut::new(),
            answers,
            close: None,
            muted: false,
            chunk: chunk.unwrap_or(usize::MAX),
        };
        let reason = connection.run(stream, &mut outgoing).await;
        connection.shared.lock().record(Event::Closed {
            connection: id.number,
            reason,
        });
    }

    /// Returns the reason for which it ended.
    async fn run<S: AsyncRead + AsyncWrite>(
        &mut self,
        stream: S,
        outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
    ) -> String {
        let (mut reader, mut writer) = tokio::io::split(stream);
        loop {
            if !self.life.runs().await {
                return "server ended".to_owned();
            }
            if let Some(Close(reason)) = &self.close
                && self.output.is_empty()
            {
                let reason = reason.clone();
                // The client may be gone.
                let _ = writer.shutdown().await;
                return reason;
            }
            let step = {
                let open = self.close.is_none();
                let reads = open && self.output.len() < MAX_UNSENT;
                let sends = !self.output.is_empty();
                self.input.reserve(READ);
                let mut chunk = (&mut self.output).take(self.chunk);
                tokio::select! {
                    biased;
                    () = self.life.stops() => Step::Stopped,
                    Some(answer) = outgoing.recv(), if open => Step::Answer(answer),
                    sent = writer.write_buf(&mut chunk), if sends => sent.map_or(Step::Failed, Step::Sent),
                    received = reader.read_buf(&mut self.input), if reads => received.map_or(Step::Failed, Step::Received),
                }
            };
            match step {
                Step::Answer(answer) => {
                    self.queue(answer);
                    // All that are there are sent together.
                    while self.close.is_none()
                        && let Ok(answer) = outgoing.try_recv()
                    {
                        self.queue(answer);
                    }
                }
                Step::Sent(0) | Step::Received(0) | Step::Failed => return "client hung up".to_owned(),
                Step::Sent(_) if self.chunk < usize::MAX => yield_now().await,
                Step::Sent(_) | Step::Stopped => {}
                Step::Received(_) => {
                    if let Err(close) = self.read() {
                        self.close = Some(close);
                    }
                }
            }
        }
    }

    fn queue(&mut self, outgoing: Outgoing) {
        if self.muted {
            return;
        }
        match outgoing {
            Outgoing::Frame(frame) => self.output.extend_from_slice(&frame),
            Outgoing::Last(frame) => {
                self.output.extend_from_slice(&frame);
                self.close = Some(Close("fault".to_owned()));
            }
        }
    }

    /// Handles all that has come as a whole.
    fn read(&mut self) -> Result<(), Close> {
        if matches!(self.stage, Stage::Preamble) && !self.preamble()? {
            return Ok(());
        }
        loop {
            match frame::cut(&mut self.input) {
                Piece::Incomplete => return Ok(()),
                Piece::Frame(bytes) => self.frame(bytes)?,
                Piece::TooBig { call_id, length } => return Err(self.too_big(call_id, length)),
                Piece::Broken(reason) => return Err(Close(reason.to_owned())),
            }
        }
    }

    /// Returns whether the preamble has come as a whole.
    fn preamble(&mut self) -> Result<bool, Close> {
        while let Some(bytes) = self.input.first_chunk::<PREAMBLE>().copied() {
            self.input.advance(PREAMBLE);
            let cluster_id = self.shared.lock().world.registry_preamble();
            match opening::preamble(bytes, cluster_id.is_some()) {
                Preamble::Calls => {
                    self.stage = Stage::Header;
                    return Ok(true);
                }
                Preamble::ClusterId => {
                    let answer = pb::GetConnectionRegistryResponse {
                        cluster_id: cluster_id.unwrap_or_default(),
                    };
                    frame::preamble_answer(&answer, &mut self.output);
                    return Err(Close("Regist answered".to_owned()));
                }
                // Another preamble follows.
                Preamble::Principal => {
                    let exception = Exception::new("ipc.SecurityNotEnabledException", "");
                    frame::connection_failure(&exception, &mut self.output);
                }
                Preamble::Bad(exception) => return Err(self.fail(&exception)),
            }
        }
        Ok(false)
    }

    fn frame(&mut self, bytes: Bytes) -> Result<(), Close> {
        let Stage::Calls(opened) = &self.stage else {
            let opened = self.header(&bytes)?;
            self.stage = Stage::Calls(opened);
            return Ok(());
        };
        match frame::request(bytes, opened.has_codec) {
            Ok(request) => self.call(request),
            Err(BadRequest::Connection(reason)) => return Err(Close(reason.to_owned())),
            Err(BadRequest::Call { id, exception }) => {
                self.shared.lock().note_refusal(&exception);
                frame::answer(id, &Err(exception), &mut self.output);
            }
        }
        Ok(())
    }

    fn header(&mut self, bytes: &Bytes) -> Result<Opened, Close> {
        let opened = match opening::header(bytes) {
            Ok(opened) => opened,
            Err(Rejection::Silent(reason)) => return Err(Close(reason)),
            Err(Rejection::Reported(exception)) => return Err(self.fail(&exception)),
        };
        let mut state = self.shared.lock();
        if !state.world.offers(self.id.server, opened.service) {
            let service = opened.service;
            return Err(Close(format!("UnknownServiceException: {service:?}")));
        }
        state.record(Event::Opened {
            connection: self.id.number,
            user: Arc::clone(&opened.user),
            service: opened.service,
        });
        Ok(opened)
    }

    /// Handles a call: at once, unless something delays it or happens to it.
    fn call(&mut self, request: Request) {
        let Stage::Calls(opened) = &self.stage else {
            return;
        };
        let mut state = self.shared.lock();
        let (call, plan) = state.receive(self.id, opened, request);
        self.muted |= plan.mutes();
        if self.muted {
            let (call, reason) = (plan.call, "connection muted");
            state.record(Event::Dropped { call, reason });
            return;
        }
        if plan.is_immediate()
            && let Some(outcome) = state.execute(&call, plan.call, &self.life, None)
        {
            state.answer(plan.call, call.id, &outcome, &mut self.output);
            return;
        }
        drop(state);
        let delivery = Delivery {
            shared: Arc::clone(&self.shared),
            call,
            plan,
            life: self.life.clone(),
            answers: self.answers.clone(),
        };
        tokio::spawn(delivery.run());
    }

    fn too_big(&mut self, call_id: u32, length: usize) -> Close {
        let exception = Exception::new(
            "exceptions.RequestTooBigException",
            format!(
                "RPC data length of {length} is greater than max allowed {}. Set \
                 \"hbase.ipc.max.request.size\" on server to override this limit (not recommended)",
                frame::MAX_REQUEST
            ),
        );
        let reason = exception.message.clone();
        frame::answer(call_id, &Err(exception), &mut self.output);
        Close(reason)
    }

    fn fail(&mut self, exception: &Exception) -> Close {
        self.shared.lock().note_refusal(exception);
        frame::connection_failure(exception, &mut self.output);
        Close(exception.message.clone())
    }
}
