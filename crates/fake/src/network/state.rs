//! The state that all connections share.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::{Bytes, BytesMut};
use hbase_protocol as pb;
use prost::Message;
use tokio::time::Instant;

use super::{
    faults::{Action, DialAction, Faults, Latency, ReceivedCall, draw},
    frame::{self, Request},
    opening::{ConnectionId, Opened},
    plan::Plan,
    server_life::{Life, ServerLife},
    signal::Signal,
    trace::{Called, Dialled, Event, Trace},
};
use crate::{
    cluster::{self, Answer, ServerIndex, Service, World},
    exception::{Exception, Result},
};

/// One mutex around everything. It is never held across an await.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cluster and its network.
#[derive(Debug)]
pub(super) struct State {
    pub(super) world: World,
    pub(super) faults: Faults,
    pub(super) trace: Trace,
    pub(super) latency: Latency,
    /// How many bytes a stream carries at once, at least and at most.
    pub(super) chunks: Option<(usize, usize)>,
    rng: fastrand::Rng,
    start: Instant,
    /// The time at the start, in milliseconds since 1970; none if the time is the system's.
    wall: Option<u64>,
    lives: Vec<Signal<Life>>,
    closed: bool,
    connections: u64,
    calls: u64,
    /// What clients sent that is not modelled, in frames and headers.
    pub(super) refusals: Vec<String>,
}

/// A dial that is under way.
pub(super) struct Dialling {
    pub(super) server: ServerIndex,
    pub(super) delay: Duration,
    /// Whether nothing answers.
    pub(super) lost: bool,
}

impl State {
    pub(super) fn new(world: World, seed: u64, wall: Option<u64>) -> Self {
        let lives = world.servers().iter().map(|server| Signal::new(Life::of(server)));
        Self {
            lives: lives.collect(),
            world,
            faults: Faults::default(),
            trace: Trace::default(),
            latency: Latency::NONE,
            chunks: None,
            rng: fastrand::Rng::with_seed(seed),
            start: Instant::now(),
            wall,
            closed: false,
            connections: 0,
            calls: 0,
            refusals: Vec::new(),
        }
    }

    /// Keeps an exception for something that is not modelled, because clients may hide it.
    pub(super) fn note_refusal(&mut self, exception: &Exception) {
        if exception.is_not_modelled() {
            self.refusals.push(exception.message.clone());
        }
    }

    /// Returns the time in milliseconds since 1970, without the skew of servers.
    pub(super) fn wall(&self) -> u64 {
        let (start, passed) = match self.wall {
            Some(start) => (start, self.start.elapsed()),
            None => (
                0,
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            ),
        };
        start.saturating_add(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn record(&mut self, event: Event) {
        self.trace.add(self.start.elapsed(), event);
    }

    /// Ends all connections, and lets no new ones begin.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.update_lives();
    }

    /// Ends the connections of servers that have crashed, and stops those of servers that hang.
    pub(super) fn update_lives(&mut self) {
        for server in 0..self.lives.len() {
            self.update_life(ServerIndex(server));
        }
    }

    fn update_life(&mut self, server: ServerIndex) {
        let life = if self.closed {
            Life::Down
        } else {
            Life::of(self.world.server(server))
        };
        self.lives[server.0].set(life);
    }

    /// Begins a dial.
    pub(super) fn dial(&mut self, host: &str, port: u16) -> io::Result<Dialling> {
        let Some(server) = self.world.server_at(host, port) else {
            let message = format!("hbase-fake has no server {host}:{port}");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        self.dial_server(server)
    }

    pub(super) fn dial_server(&mut self, server: ServerIndex) -> io::Result<Dialling> {
        let fault = self.faults.of_dial(server.0);
        let delay = match fault {
            Some(DialAction::Refuse) => return Err(self.refuse(server)),
            Some(DialAction::Delay(delay)) => delay,
            Some(DialAction::Lose) => {
                let address = self.address(server);
                self.record(Event::Dialled {
                    address,
                    outcome: Dialled::Lost,
                });
                return Ok(Dialling {
                    server,
                    delay: Duration::ZERO,
                    lost: true,
                });
            }
            None => Duration::ZERO,
        };
        let there = draw(&self.latency.request, &mut self.rng);
        let back = draw(&self.latency.answer, &mut self.rng);
        Ok(Dialling {
            server,
            delay: delay + there + back,
            lost: false,
        })
    }

    /// Ends a dial. Returns the connection, and the number of bytes that its stream carries at once.
    pub(super) fn connect(
        &mut self,
        server: ServerIndex,
    ) -> io::Result<(ConnectionId, ServerLife, Option<usize>)> {
        self.update_life(server);
        let Some(life) = ServerLife::new(self.lives[server.0].clone()) else {
            return Err(self.refuse(server));
        };
        self.connections += 1;
        let connection = self.connections;
        let address = self.address(server);
        self.record(Event::Dialled {
            address,
            outcome: Dialled::Connected { connection },
        });
        let chunk = self
            .chunks
            .map(|(least, most)| self.rng.usize(least..=most).max(1));
        let id = ConnectionId {
            number: connection,
            server,
        };
        Ok((id, life, chunk))
    }

    fn refuse(&mut self, server: ServerIndex) -> io::Error {
        let address = self.address(server);
        let message = format!("{address} refuses the connection");
        self.record(Event::Dialled {
            address,
            outcome: Dialled::Refused,
        });
        io::Error::new(io::ErrorKind::ConnectionRefused, message)
    }

    fn address(&self, server: ServerIndex) -> String {
        let name = &self.world.server(server).name;
        format!("{}:{}", name.host, name.port)
    }

    /// Counts a call that a client sent, and returns it with what happens to it.
    pub(super) fn receive(
        &mut self,
        connection: ConnectionId,
        opened: &Opened,
        request: Request,
    ) -> (cluster::Call, Plan) {
        let Request {
            id,
            method,
            parameter,
            cells,
            priority,
            timeout,
            trace,
            attributes,
        } = request;
        let call = cluster::Call {
            server: connection.server,
            service: opened.service,
            tags: opened.tags,
            has_codec: opened.has_codec,
            id,
            method,
            parameter,
            cells,
            timeout,
            cells_in_time: None,
        };
        let subject = self.world.subject(&call);
        self.calls += 1;
        let received = ReceivedCall {
            number: self.calls,
            connection: connection.number,
            user: Arc::clone(&opened.user),
            server: connection.server.0,
            method: method_of(&call),
            table: subject.table,
            region: subject.region,
            rows: subject.rows,
            parameter: call.parameter.clone(),
            cells: call.cells.clone(),
            priority,
            timeout,
            attributes,
            connection_attributes: opened.attributes.clone(),
            trace,
        };
        let applied = self.faults.of_call(&received);
        let fault = applied.as_ref().map(|applied| applied.action.to_string());
        self.record(Event::Called(Box::new(Called::new(&received, fault))));
        self.trace.add_bytes(&received.parameter);
        self.trace.add_bytes(&received.cells);
        let plan = Plan {
            call: received.number,
            request: draw(&self.latency.request, &mut self.rng),
            queue: draw(&self.latency.queue, &mut self.rng),
            answer: draw(&self.latency.answer, &mut self.rng),
            applied,
        };
        (call, plan)
    }

    /// Executes a call. Returns `None` if the server of the connection does not run at the moment.
    pub(super) fn execute(
        &mut self,
        call: &cluster::Call,
        number: u64,
        life: &ServerLife,
        fault: Option<&Action>,
    ) -> Option<Result<Answer>> {
        if self.closed || !life.is_running_as(Life::of(self.world.server(call.server))) {
            return None;
        }
        let outcome = match fault {
            Some(Action::FailBefore(exception)) => Err(exception.clone()),
            Some(Action::EndAfterCells(cells)) => {
                let timed = cluster::Call {
                    cells_in_time: Some(*cells),
                    ..call.clone()
                };
                let wall = self.wall();
                self.world.execute(&timed, wall)
            }
            _ => {
                let wall = self.wall();
                self.world.execute(call, wall)
            }
        };
        let failure = outcome.as_ref().err().map(|exception| exception.class.to_owned());
        self.record(Event::Executed {
            call: number,
            failure,
        });
        // A call of the master can stop servers; so can the time that the call made pass.
        match call.service {
            Service::Client => self.update_life(call.server),
            Service::Admin | Service::Master | Service::Lock | Service::ClientMeta => self.update_lives(),
        }
        Some(match fault {
            Some(Action::FailAfter(exception)) => Err(exception.clone()),
            _ => outcome,
        })
    }

    /// Appends the frame of an answer.
    pub(super) fn answer(&mut self, number: u64, id: u32, outcome: &Result<Answer>, out: &mut BytesMut) {
        let start = out.len();
        frame::answer(id, outcome, out);
        self.record(Event::Answered { call: number });
        self.trace.add_bytes(&out[start..]);
    }
}

/// Returns the method of a call. It is the endpoint's method if the call is one of an endpoint.
fn method_of(call: &cluster::Call) -> String {
    if call.method == "ExecService"
        && let Ok(request) = pb::CoprocessorServiceRequest::decode(Bytes::clone(&call.parameter))
    {
        return request.call.method_name;
    }
    call.method.clone()
}
