//! A fault proxy between client and real servers, put in by the client's own `Connector` hook.
//!
//! It runs in the test's process: each stream that the client dials is a pipe to a relay, which
//! knows HBase's frames, asks the rule what to do with each request, and carries the rest to the
//! server and back unchanged.
//!
//! | file | what |
//! |---|---|
//! | `frames` | cuts requests and answers out of a stream, and reads what the rule wants to know of them |
//! | `mutations` | the mutations that a request carries |
//! | `relay` | one connection: both directions, and what the rule does to them |
//! | `late` | requests that reach the server when everybody has given them up |
//! | `client_end` | the stream that the client gets; its writes can be made to fail |

mod client_end;
mod frames;
mod late;
pub(crate) mod mutations;
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
use hbase_txn::{Connector, DialTarget, Io, ServiceKind};
use tokio::net::TcpStream;

use bytes::Bytes;
use client_end::ClientEnd;
use late::Late;
use mutations::SentMutation;

/// The name of a `Multi` that proves that a server honours conditions.
pub(crate) const PROBE: &str = "Multi, to prove conditions";

/// A request, as the rule sees it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) service: ServiceKind,
    /// The port of the server that it is for.
    pub(crate) port: u16,
    /// Of a `Multi` that proves that the server honours conditions, [`PROBE`].
    pub(crate) method: String,
    /// How many requests of this method came before it.
    pub(crate) earlier: usize,
    frame: Bytes,
}

impl Request {
    /// The mutations of a `Multi` or of a transaction.
    pub(crate) fn mutations(&self) -> Vec<SentMutation> {
        mutations::of_request(&self.method, &self.frame)
    }
}

/// What is done with a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pass,
    /// The server does it; nobody hears of it.
    DropAnswer,
    /// The server never sees it.
    DropRequest,
    /// The server never sees it, and the client is answered that the region is too busy.
    Refuse,
    DelayRequest(Duration),
    DelayAnswer(Duration),
    /// The server gets it twice, and answers twice.
    Duplicate,
    /// The server gets it so much later, by a connection of its own: it arrives whatever becomes of
    /// this one, and nobody hears the answer.
    Detour(Duration),
    /// The server gets it at once, and so much later again, by a connection of its own.
    Again(Duration),
    /// The server gets it when it is [released](Proxy::release), by a connection of its own.
    Hold,
    /// The connection ends before the server gets anything of the request.
    CutBeforeRequest,
    /// The connection ends with half the request at the server.
    CutInRequest,
    /// The connection ends as soon as the server has the request, which it may do or not.
    CutAfterRequest,
    /// The server does it, and the connection ends in place of its answer.
    CutBeforeAnswer,
    /// The server does it, and the connection ends with half the answer at the client.
    CutInAnswer,
    /// From now on nothing passes on this connection, and it stays open.
    Blackhole,
    /// The server does it, and nothing passes on this connection any more.
    BlackholeAnswers,
    /// The same as [`Blackhole`](Self::Blackhole), but the server gets the request so much later,
    /// by a connection of its own.
    BlackholeUntil(Duration),
    /// The server gets the `Multi` without its conditions, as if it did not know them.
    DropConditions,
}

type Rule = Box<dyn FnMut(&Request) -> Action + Send>;

/// The proxy: a connector for the client, and the test's hand on it.
#[derive(Clone)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    rule: Mutex<Rule>,
    requests: Mutex<HashMap<String, usize>>,
    open: AtomicUsize,
    dialled: AtomicUsize,
    /// How many of the next dials fail.
    refused_dials: AtomicUsize,
    /// The next write to a region server takes so many bytes and then fails.
    break_write: Mutex<Option<usize>>,
    held: Mutex<Vec<Late>>,
    /// How many requests are still on their detour.
    under_way: AtomicUsize,
}

impl Proxy {
    /// A proxy that lets everything pass.
    pub(crate) fn new() -> Self {
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

    /// Decides from now on over every request, on old connections and new ones.
    pub(crate) fn rule(&self, rule: impl FnMut(&Request) -> Action + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    /// Does this to the next request of a method, and lets all others pass.
    pub(crate) fn once(&self, method: &'static str, action: Action) {
        let mut left = Some(action);
        self.rule(move |request| match request.method == method {
            true => left.take().unwrap_or(Action::Pass),
            false => Action::Pass,
        });
    }

    pub(crate) fn pass_all(&self) {
        self.rule(|_| Action::Pass);
    }

    /// Makes the next write to a region server take so many bytes and then fail.
    pub(crate) fn break_next_write_after(&self, bytes: usize) {
        *self.shared.break_write.lock().unwrap() = Some(bytes);
    }

    pub(crate) fn refuse_dials(&self, count: usize) {
        self.shared.refused_dials.store(count, Ordering::Relaxed);
    }

    /// How many requests are on a detour, or were answered by nobody yet.
    pub(crate) fn under_way(&self) -> usize {
        self.shared.under_way.load(Ordering::Acquire)
    }

    /// Hands the held requests over to the servers, and waits until they are done. Returns how many
    /// were answered: a server that is gone does not.
    pub(crate) async fn release(&self) -> usize {
        let held = std::mem::take(&mut *self.shared.held.lock().unwrap());
        let mut answered = 0;
        for late in held {
            answered += usize::from(late.deliver().await.is_ok());
        }
        answered
    }

    /// How many whole requests of a method the client has handed over, over all connections.
    pub(crate) fn requests(&self, method: &str) -> usize {
        self.shared
            .requests
            .lock()
            .unwrap()
            .get(method)
            .copied()
            .unwrap_or(0)
    }

    /// How many connections the client holds open.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// How many connections were ever made.
    pub(crate) fn dialled(&self) -> usize {
        self.shared.dialled.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn decide(&self, service: ServiceKind, port: u16, method: String, frame: Bytes) -> Action {
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
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({} open)", self.open())
    }
}
