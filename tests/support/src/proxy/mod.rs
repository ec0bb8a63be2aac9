//! A fault proxy between client and real servers, inserted by the client's own `Connector` hook.
//!
//! It runs in the test's process: each stream that the client dials is a pipe to a relay. The relay
//! decodes HBase's frames, applies the rule to each request, and forwards all other bytes to the
//! server and back unchanged.
//!
//! | file | what |
//! |---|---|
//! | `frames` | splits a stream into requests and answers, and decodes the parts that the rule uses |
//! | `mutations` | the mutations in a request |
//! | `relay` | one connection: both directions, and the effects of the rule |
//! | `late` | requests that reach the server after their callers have given them up |
//! | `client_end` | the client's end of the stream; its writes can be made to fail |

mod client_end;
mod frames;
mod late;
pub mod mutations;
mod relay;

use std::{
    collections::HashMap,
    fmt, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use hbase_txn::client::{Connector, DialTarget, Io, ServiceKind};
use tokio::net::TcpStream;

use bytes::Bytes;
use client_end::ClientEnd;
use late::Late;
use mutations::SentMutation;

/// The name of a `Multi` that probes whether a server honours conditions.
pub const PROBE: &str = "Multi, to prove conditions";

/// A request, as the rule sees it.
#[derive(Clone, Debug)]
pub struct Request {
    pub service: ServiceKind,
    /// The server's port.
    pub port: u16,
    /// For a `Multi` that probes whether the server honours conditions: [`PROBE`].
    pub method: String,
    /// The number of earlier requests of this method.
    pub earlier: usize,
    /// The preamble and the header of its connection.
    opening: Bytes,
    frame: Bytes,
}

impl Request {
    /// The mutations of a `Multi` or of a transaction.
    pub fn mutations(&self) -> Vec<SentMutation> {
        mutations::of_request(&self.method, &self.frame)
    }

    /// The request attributes.
    pub fn attributes(&self) -> Vec<(String, Bytes)> {
        frames::request_attributes(&self.frame)
    }

    /// The attributes of the connection.
    pub fn connection_attributes(&self) -> Vec<(String, Bytes)> {
        frames::connection_attributes(&self.opening)
    }
}

/// The treatment of a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Pass,
    /// The server performs it, and its answer is dropped.
    DropAnswer,
    /// The server never sees it.
    DropRequest,
    /// The server never sees it, and the client gets the answer that the region is too busy.
    Refuse,
    DelayRequest(Duration),
    DelayAnswer(Duration),
    /// The server gets it twice, and answers twice.
    Duplicate,
    /// The server gets it after this delay, over its own connection: independent of this
    /// connection, and without an answer to the client.
    Detour(Duration),
    /// The server gets it at once, and again after this delay, over its own connection.
    Again(Duration),
    /// The server gets it when it is [released](Proxy::release), over its own connection.
    Hold,
    /// The connection closes before the server gets any byte of the request.
    CutBeforeRequest,
    /// The connection closes with half the request at the server.
    CutInRequest,
    /// The connection closes as soon as the server has the request, which it may or may not
    /// perform.
    CutAfterRequest,
    /// The server performs it, and the connection closes instead of its answer.
    CutBeforeAnswer,
    /// The server performs it, and the connection closes with half the answer at the client.
    CutInAnswer,
    /// This connection forwards no more bytes, and stays open.
    Blackhole,
    /// The server performs it, and this connection forwards no more bytes.
    BlackholeAnswers,
    /// The same as [`Blackhole`](Self::Blackhole), but the server gets the request after this
    /// delay, over its own connection.
    BlackholeUntil(Duration),
    /// The server gets the `Multi` without its conditions, as if it did not know them.
    DropConditions,
}

type Rule = Box<dyn FnMut(&Request) -> Action + Send>;

/// The proxy: a connector for the client, with controls for the test.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    rule: Mutex<Rule>,
    requests: Mutex<HashMap<String, usize>>,
    open: AtomicUsize,
    dialled: AtomicUsize,
    /// The number of next dials that fail.
    refused_dials: AtomicUsize,
    /// The number of bytes that the next write to a region server takes before it fails.
    break_write: Mutex<Option<usize>>,
    held: Mutex<Vec<Late>>,
    /// The number of requests that are still delayed or held.
    under_way: AtomicUsize,
}

impl Default for Proxy {
    fn default() -> Self {
        Self::new()
    }
}

impl Proxy {
    /// Creates a proxy that forwards everything.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                rule: Mutex::new(Box::new(|_| Action::Pass)),
                requests: Mutex::default(),
                open: AtomicUsize::new(0),
                dialled: AtomicUsize::new(0),
                refused_dials: AtomicUsize::new(0),
                break_write: Mutex::default(),
                held: Mutex::default(),
                under_way: AtomicUsize::new(0),
            }),
        }
    }

    /// Applies this rule to every request from now on, on old connections and new ones.
    pub fn rule(&self, rule: impl FnMut(&Request) -> Action + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    /// Applies this fault to the next request of a method, and forwards all others.
    pub fn once(&self, method: &'static str, action: Action) {
        let mut left = Some(action);
        self.rule(move |request| {
            if request.method == method {
                left.take().unwrap_or(Action::Pass)
            } else {
                Action::Pass
            }
        });
    }

    pub fn pass_all(&self) {
        self.rule(|_| Action::Pass);
    }

    /// Makes the next write to a region server take this many bytes and then fail.
    pub fn break_next_write_after(&self, bytes: usize) {
        *self.shared.break_write.lock().unwrap() = Some(bytes);
    }

    pub fn refuse_dials(&self, count: usize) {
        self.shared.refused_dials.store(count, Ordering::Relaxed);
    }

    /// Returns the number of requests that are delayed, held or not answered yet.
    pub fn under_way(&self) -> usize {
        self.shared.under_way.load(Ordering::Acquire)
    }

    /// Sends the held requests to the servers, and waits until they are done. Returns the number of
    /// answered requests: a server that has died does not answer.
    pub async fn release(&self) -> usize {
        let held = std::mem::take(&mut *self.shared.held.lock().unwrap());
        let mut answered = 0;
        for late in held {
            answered += usize::from(late.deliver().await.is_ok());
        }
        answered
    }

    /// Returns the number of whole requests of a method that the client has sent, over all
    /// connections.
    pub fn requests(&self, method: &str) -> usize {
        self.shared
            .requests
            .lock()
            .unwrap()
            .get(method)
            .copied()
            .unwrap_or(0)
    }

    /// Returns the number of open connections of the client.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were ever opened.
    pub fn dialled(&self) -> usize {
        self.shared.dialled.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn decide(
        &self,
        service: ServiceKind,
        port: u16,
        method: String,
        (opening, frame): (Bytes, Bytes),
    ) -> Action {
        let earlier = {
            let mut requests = self.requests.lock().unwrap();
            let count = requests.entry(method.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let request = Request {
            service,
            port,
            method,
            earlier,
            opening,
            frame,
        };
        (self.rule.lock().unwrap())(&request)
    }

    fn refuses_dial(&self) -> bool {
        self.refused_dials
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }
}

impl Connector for Proxy {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (shared, target) = (Arc::clone(&self.shared), target.clone());
        Box::pin(async move {
            if shared.refuses_dial() {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let server = TcpStream::connect((target.address.host.as_str(), target.address.port)).await?;
            server.set_nodelay(true)?;
            shared.dialled.fetch_add(1, Ordering::Relaxed);
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            tokio::spawn(relay::relay(Arc::clone(&shared), target.service, theirs, server));
            Ok(Box::new(ClientEnd::new(ours, target.service, shared)) as Box<dyn Io>)
        })
    }

    fn is_transparent(&self) -> bool {
        true
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({} open)", self.open())
    }
}
