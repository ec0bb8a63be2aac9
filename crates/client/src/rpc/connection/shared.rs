//! The state that the callers of a connection share with its two tasks.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use hbase_security::{AuthenticationError, TlsFailure};
use tokio::{
    sync::{Notify, oneshot},
    task::AbortHandle,
};

use super::{Answer, liveness::Liveness};
use crate::{
    rpc::call_error::CallError,
    wire::{
        call_table::CallTable,
        frame::{FrameError, RemoteFault},
    },
};

/// The state that the callers share with the two tasks.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) calls: Mutex<Calls>,
    /// Notified whenever the last call in flight ends.
    pub(super) idle: Notify,
    pub(super) liveness: Arc<Liveness>,
    /// The two tasks, which end together: a single remaining half would keep the socket open.
    pub(super) tasks: OnceLock<[AbortHandle; 2]>,
}

#[derive(Debug)]
pub(super) enum Calls {
    Open(CallTable<oneshot::Sender<Answer>>),
    Ended(Ending),
}

/// The reason why a connection ended, which every call on it receives.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    Lost(Arc<io::Error>),
    Garbled(Arc<FrameError>),
    Refused(Arc<RemoteFault>),
    /// The server refused the connection after the TLS handshake, and read no call.
    Tls(Arc<TlsFailure>),
    Unauthenticated(Arc<AuthenticationError>),
    /// The runtime of its tasks has shut down.
    RuntimeEnded,
    Closed,
}

impl Shared {
    pub(super) fn calls(&self) -> MutexGuard<'_, Calls> {
        // No code panics while it holds the lock, so a poisoned lock has valid contents.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, waiter: oneshot::Sender<Answer>) -> Result<u32, CallError> {
        match &mut *self.calls() {
            Calls::Open(table) => table.insert(waiter).map_err(|_| CallError::Crowded),
            Calls::Ended(ending) => Err(ending.clone().into_call_error(false)),
        }
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        match &*self.calls() {
            Calls::Open(_) => None,
            Calls::Ended(ending) => Some(ending.clone()),
        }
    }

    /// Ends the connection. The first ending counts, and every call in flight receives it.
    pub(super) fn end(&self, ending: &Ending) {
        self.end_locked(self.calls(), ending);
    }

    /// Ends the connection if no call is in flight. Returns whether it has ended.
    pub(super) fn end_if_unused(&self) -> bool {
        let calls = self.calls();
        if matches!(&*calls, Calls::Open(table) if !table.is_empty()) {
            return false;
        }
        // No call receives it but one that has just found the connection, which was not sent.
        let error = io::Error::other("the connection was idle");
        self.end_locked(calls, &Ending::Lost(Arc::new(error)));
        true
    }

    fn end_locked(&self, mut calls: MutexGuard<'_, Calls>, ending: &Ending) {
        if let Calls::Open(table) = &mut *calls {
            let waiters = table.drain();
            *calls = Calls::Ended(ending.clone());
            drop(calls);
            for (_, sent, waiter) in waiters {
                let _ = waiter.send(Err(ending.clone().into_call_error(sent)));
            }
            self.idle.notify_waiters();
            self.abort_tasks();
        }
    }

    pub(super) fn abort_tasks(&self) {
        for task in self.tasks.get().into_iter().flatten() {
            task.abort();
        }
    }

    /// Marks the request as sent. Returns whether the caller still waits.
    pub(super) fn mark_sent(&self, call_id: u32) -> bool {
        match &mut *self.calls() {
            Calls::Open(table) => table.mark_sent(call_id),
            Calls::Ended(_) => false,
        }
    }

    /// Marks requests as not sent, because the socket broke before it took all of them.
    pub(super) fn mark_unsent(&self, calls: impl Iterator<Item = u32>) {
        if let Calls::Open(table) = &mut *self.calls() {
            calls.for_each(|call_id| table.mark_unsent(call_id));
        }
    }

    pub(super) fn complete(&self, call_id: u32, answer: Answer) {
        let waiter = match &mut *self.calls() {
            Calls::Open(table) => table.complete(call_id),
            Calls::Ended(_) => None,
        };
        match waiter {
            // The caller may have just dropped its future; then the answer is discarded.
            Some(waiter) => drop(waiter.send(answer)),
            None => tracing::trace!(call_id, "skipped an answer without a waiting call"),
        }
    }
}

impl Ending {
    /// Returns the ending of a connection whose socket cannot be read.
    pub(super) fn of_socket(error: io::Error) -> Self {
        if let Some(failure) = TlsFailure::in_error(&error) {
            return Self::Tls(Arc::new(failure.clone()));
        }
        if let Some(error) = AuthenticationError::of_socket(&error) {
            return Self::Unauthenticated(Arc::new(error));
        }
        Self::Lost(Arc::new(error))
    }

    pub(super) fn into_call_error(self, sent: bool) -> CallError {
        match self {
            Self::Lost(cause) => CallError::Lost { sent, cause },
            Self::Garbled(cause) => CallError::Garbled { sent, cause },
            Self::Refused(fault) => CallError::Refused { sent, fault },
            Self::Tls(failure) => CallError::Tls(failure),
            Self::Unauthenticated(error) => CallError::Unauthenticated(error),
            Self::RuntimeEnded => CallError::RuntimeEnded { sent },
            Self::Closed if sent => CallError::Lost {
                sent,
                cause: Arc::new(io::Error::other("the client was closed")),
            },
            Self::Closed => CallError::Closed,
        }
    }
}
