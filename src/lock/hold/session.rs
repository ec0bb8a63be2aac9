//! The state of a session, which ends its holds together.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::background::{BackgroundTasks, TrackedTask};
use crate::{
    error::{Error, ErrorKind},
    lock::state::LockLoss,
};

/// The reason why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEnd {
    /// It was closed, or its last clone was dropped, while all its holds were held.
    Closed,
    /// A hold was lost.
    Lost {
        /// The name of the hold; see [`LockGuard::name`](crate::lock::LockGuard::name).
        hold: String,
        /// Why it was lost.
        loss: LockLoss,
    },
}

/// The state of a session, which its holds and requests share.
pub(crate) struct SessionState {
    name: String,
    /// `None` while it lasts.
    end: Mutex<Option<SessionEnd>>,
    /// Notified at its end.
    ended: Notify,
    /// The attempts in flight, and the holds that are neither released nor known to be lost.
    holds: BackgroundTasks,
}

/// A hold in its session.
pub(in crate::lock) struct SessionHold {
    session: Arc<SessionState>,
    /// Its name.
    hold: String,
    /// Whether the hold was returned to the caller, so its loss is one of the session.
    is_joined: AtomicBool,
    /// `None` if it has left.
    counted: Mutex<Option<TrackedTask>>,
}

impl SessionEnd {
    /// Returns whether no hold was lost.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl SessionState {
    pub(in crate::lock) fn new(name: String) -> Self {
        Self {
            name,
            end: Mutex::default(),
            ended: Notify::new(),
            holds: BackgroundTasks::default(),
        }
    }

    /// Counts an attempt or a hold, until it is dropped.
    pub(in crate::lock) fn begin(&self) -> TrackedTask {
        self.holds.begin()
    }

    /// Waits until no attempt is in flight, and all holds are released, or known to be lost.
    pub(in crate::lock) async fn released(&self) {
        self.holds.done().await;
    }

    /// Returns its name.
    pub(in crate::lock) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::lock) fn is_open(&self) -> bool {
        self.locked_end().is_none()
    }

    pub(in crate::lock) fn end(&self) -> Option<SessionEnd> {
        self.locked_end().clone()
    }

    fn locked_end(&self) -> MutexGuard<'_, Option<SessionEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::lock) async fn ended(&self) -> SessionEnd {
        loop {
            // It is notified from here on, although it is not polled yet.
            let ended = self.ended.notified();
            if let Some(end) = self.end() {
                return end;
            }
            ended.await;
        }
    }

    pub(in crate::lock) fn close(&self) {
        self.locked_end().get_or_insert(SessionEnd::Closed);
        self.ended.notify_waiters();
    }

    /// Ends the session by the loss of a hold, unless another was lost before.
    fn lose(&self, hold: &str, loss: &LockLoss) {
        let mut end = self.locked_end();
        // A hold may be found lost when it is released at the end.
        if matches!(&*end, None | Some(SessionEnd::Closed)) {
            *end = Some(SessionEnd::Lost {
                hold: hold.to_owned(),
                loss: loss.clone(),
            });
        }
        drop(end);
        self.ended.notify_waiters();
    }

    /// Returns the error of a request that the end of its session stopped.
    pub(in crate::lock) fn ended_error(&self) -> Error {
        let why = self.end().map(|end| format!(": {end}")).unwrap_or_default();
        let text = format!("session {:?} has ended{why}", self.name);
        Error::new(ErrorKind::LockLost, text).with_hint("open another session, and acquire its holds again")
    }
}

impl SessionHold {
    /// Counts a hold of this name in a session.
    pub(in crate::lock) fn new(session: &Arc<SessionState>, hold: String) -> Self {
        Self {
            session: Arc::clone(session),
            hold,
            is_joined: AtomicBool::new(false),
            counted: Mutex::new(Some(session.begin())),
        }
    }

    pub(super) fn session(&self) -> Arc<SessionState> {
        Arc::clone(&self.session)
    }

    /// Joins the session: it ends with the loss of this hold from now on.
    pub(super) fn join(&self) {
        self.is_joined.store(true, Ordering::Relaxed);
    }

    /// Does not end the session with the loss of this hold any more. It still waits for its release.
    pub(super) fn ignore_loss(&self) {
        self.is_joined.store(false, Ordering::Relaxed);
    }

    /// Leaves the session, which does not wait for the release of this hold any more.
    pub(super) fn leave(&self) {
        self.ignore_loss();
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(counted);
    }

    pub(super) fn is_open(&self) -> bool {
        self.session.is_open()
    }

    /// Waits until the session ends.
    pub(super) async fn ended(&self) {
        self.session.ended().await;
    }

    /// Ends the session if the hold has joined it. A release by a transaction is no loss, nor is one
    /// whose answer was lost.
    pub(super) fn report_loss(&self, loss: &LockLoss) {
        let is_own = matches!(loss, LockLoss::Expired | LockLoss::Removed | LockLoss::Taken(_));
        if is_own && self.is_joined.load(Ordering::Relaxed) {
            self.session.lose(&self.hold, loss);
        }
    }
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("it was closed"),
            Self::Lost { hold, loss } => write!(f, "{} was lost: {loss}", hold.escape_debug()),
        }
    }
}
