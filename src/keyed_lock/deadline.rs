//! How long is waited, and what becomes of who waited in vain. The only part of this layer that knows a runtime.

use std::{future::Future, time::Instant};

use tokio::time::timeout_at;

use super::{Acquire, AcquireAll, KeyedGuard, KeyedGuards};
use crate::error::{Error, ErrorKind, Result};

impl<'a, K: Eq + Clone> Acquire<'a, K> {
    /// Waits until this deadline, on tokio's clock. With one that has passed it does not wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DeadlineExceeded`] when others held the key until then. It may succeed later.
    pub async fn until(self, deadline: Instant) -> Result<KeyedGuard<'a, K>> {
        match deadline <= now() {
            true => self.now().ok_or_else(|| in_vain(ONE)),
            false => in_time(self, deadline).await.ok_or_else(|| in_vain(ONE)),
        }
    }

    /// Holds up this thread, but not beyond the deadline. With one that has passed it does not wait. Not inside a task, as
    /// [`blocking`](Self::blocking).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DeadlineExceeded`] when others held the key until then. It may succeed later.
    pub fn blocking_until(self, deadline: Instant) -> Result<KeyedGuard<'a, K>> {
        self.block(deadline).ok_or_else(|| in_vain(ONE))
    }
}

impl<'a, K: Eq + Clone> AcquireAll<'a, K> {
    /// Waits until this deadline for all keys together, on tokio's clock. With one that has passed it does not wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DeadlineExceeded`] when others held one of the keys until then; none is held. It may succeed later.
    pub async fn until(self, deadline: Instant) -> Result<KeyedGuards<'a, K>> {
        match deadline <= now() {
            true => self.now().ok_or_else(|| in_vain(SEVERAL)),
            false => in_time(self, deadline).await.ok_or_else(|| in_vain(SEVERAL)),
        }
    }

    /// Holds up this thread, but not beyond the deadline. With one that has passed it does not wait. Not inside a task, as
    /// [`Acquire::blocking`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DeadlineExceeded`] when others held one of the keys until then; none is held. It may succeed later.
    pub fn blocking_until(self, deadline: Instant) -> Result<KeyedGuards<'a, K>> {
        self.block(deadline).ok_or_else(|| in_vain(SEVERAL))
    }
}

const ONE: &str = "others held the key until the deadline";
const SEVERAL: &str = "others held one of the keys until the deadline";

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn in_time<F: Future>(acquire: F, deadline: Instant) -> Option<F::Output> {
    timeout_at(deadline.into(), acquire).await.ok()
}

fn in_vain(what: &'static str) -> Error {
    Error::new(ErrorKind::DeadlineExceeded, what)
        .with_retryable(true)
        .at_operation("locking by key")
}
