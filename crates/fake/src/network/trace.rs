//! The trace: what happened on the network, in order.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

use super::faults::ReceivedCall;
use crate::cluster::Service;

/// The number of events that are kept; the hash is over all.
const KEPT: usize = 10_000;
/// The number of rows of a call that are kept.
const ROWS: usize = 4;

/// An event of the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Dialled {
        address: String,
        outcome: Dialled,
    },
    Opened {
        connection: u64,
        user: Arc<str>,
        service: Service,
    },
    Called(Box<Called>),
    Executed {
        call: u64,
        /// The class of the exception.
        failure: Option<String>,
    },
    Answered {
        call: u64,
    },
    /// A call that is not executed, or not answered.
    Dropped {
        call: u64,
        reason: &'static str,
    },
    Closed {
        connection: u64,
        reason: String,
    },
}

/// The outcome of a dial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dialled {
    Connected { connection: u64 },
    Refused,
    Lost,
}

/// A call that a client sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Called {
    call: u64,
    connection: u64,
    user: Arc<str>,
    server: usize,
    method: String,
    table: Option<String>,
    rows: Vec<Bytes>,
    more_rows: usize,
    fault: Option<String>,
}

impl Called {
    pub(super) fn new(call: &ReceivedCall, fault: Option<String>) -> Self {
        // A slice of the request would keep all of it.
        let rows: Vec<_> = call
            .rows
            .iter()
            .take(ROWS)
            .map(|row| Bytes::copy_from_slice(row))
            .collect();
        Self {
            call: call.number,
            connection: call.connection,
            user: Arc::clone(&call.user),
            server: call.server,
            method: call.method.clone(),
            table: call.table.clone(),
            more_rows: call.rows.len() - rows.len(),
            rows,
            fault,
        }
    }
}

/// The latest events, and a hash of all.
#[derive(Debug, Default)]
pub(super) struct Trace {
    events: VecDeque<(Duration, Event)>,
    left_out: usize,
    calls: BTreeMap<String, usize>,
    hasher: DefaultHasher,
}

impl Trace {
    pub(super) fn add(&mut self, at: Duration, event: Event) {
        at.hash(&mut self.hasher);
        event.hash(&mut self.hasher);
        if let Event::Called(called) = &event {
            match self.calls.get_mut(&called.method) {
                Some(calls) => *calls += 1,
                None => {
                    self.calls.insert(called.method.clone(), 1);
                }
            }
        }
        if self.events.len() == KEPT {
            self.events.pop_front();
            self.left_out += 1;
        }
        self.events.push_back((at, event));
    }

    /// Adds bytes that were sent to the hash.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        bytes.hash(&mut self.hasher);
    }

    /// Returns the number of calls of a method that servers were sent.
    pub(super) fn calls(&self, method: &str) -> usize {
        self.calls.get(method).copied().unwrap_or(0)
    }

    /// Returns a number that is equal for two runs in which the same happened.
    pub(super) fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.left_out > 0 {
            writeln!(f, "{} earlier events are left out", self.left_out)?;
        }
        for (at, event) in &self.events {
            writeln!(f, "{:>12.6} {event}", at.as_secs_f64())?;
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dialled { address, outcome } => match outcome {
                Dialled::Connected { connection } => write!(f, "dial {address}: connection {connection}"),
                Dialled::Refused => write!(f, "dial {address}: refused"),
                Dialled::Lost => write!(f, "dial {address}: lost"),
            },
            Self::Opened {
                connection,
                user,
                service,
            } => write!(f, "connection {connection}: {user} opens {service:?}"),
            Self::Called(called) => called.fmt(f),
            Self::Executed { call, failure: None } => write!(f, "#{call} executed"),
            Self::Executed {
                call,
                failure: Some(class),
            } => write!(f, "#{call} failed: {class}"),
            Self::Answered { call } => write!(f, "#{call} answered"),
            Self::Dropped { call, reason } => write!(f, "#{call} dropped: {reason}"),
            Self::Closed { connection, reason } => write!(f, "connection {connection}: closed: {reason}"),
        }
    }
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            connection,
            user,
            server,
            method,
            table,
            rows,
            more_rows,
            fault,
        } = self;
        write!(
            f,
            "#{call} {user} on connection {connection} to server {server}: {method}"
        )?;
        if let Some(table) = table {
            write!(f, " {table}")?;
        }
        for row in rows {
            write!(f, " {}", row.escape_ascii())?;
        }
        if *more_rows > 0 {
            write!(f, " and {more_rows} more")?;
        }
        match fault {
            Some(fault) => write!(f, " [{fault}]"),
            None => Ok(()),
        }
    }
}
