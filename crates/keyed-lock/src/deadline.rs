//! Waiting until a deadline: the only part of this crate that uses a runtime.

use std::{error::Error, fmt, future::Future, time::Instant};

use tokio::time::timeout_at;

use super::{Acquire, AcquireAll, KeyedGuard, KeyedGuards};

/// The error of a wait that reached its deadline while other holders had a key.
///
/// No key is held, and a later call may succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlineExceeded {
    keys: Keys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Keys {
    One,
    Several,
}

impl fmt::Display for DeadlineExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.keys {
            Keys::One => "the key was held until the deadline",
            Keys::Several => "one of the keys was held until the deadline",
        })
    }
}

impl Error for DeadlineExceeded {}

impl<'a, K: Eq + Clone> Acquire<'a, K> {
    /// Acquires the key, and waits for it until the deadline, on tokio's clock. Does not wait if
    /// the deadline has passed.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`] if others held the key until then. A later call may succeed.
    pub async fn until(self, deadline: Instant) -> Result<KeyedGuard<'a, K>, DeadlineExceeded> {
        match deadline <= now() {
            true => self.now().ok_or(DeadlineExceeded { keys: Keys::One }),
            false => in_time(self, deadline)
                .await
                .ok_or(DeadlineExceeded { keys: Keys::One }),
        }
    }

    /// Blocks this thread until the key is acquired, or the deadline has passed. Do not call it in
    /// a task, as [`blocking`](Self::blocking).
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`] if others held the key until then. A later call may succeed.
    pub fn blocking_until(self, deadline: Instant) -> Result<KeyedGuard<'a, K>, DeadlineExceeded> {
        self.block(deadline).ok_or(DeadlineExceeded { keys: Keys::One })
    }
}

impl<'a, K: Eq + Clone> AcquireAll<'a, K> {
    /// Acquires all keys, and waits for them until the deadline, on tokio's clock. Does not wait if
    /// the deadline has passed.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`] if others held one of the keys until then; none is held. A
    /// later call may succeed.
    pub async fn until(self, deadline: Instant) -> Result<KeyedGuards<'a, K>, DeadlineExceeded> {
        match deadline <= now() {
            true => self.now().ok_or(DeadlineExceeded { keys: Keys::Several }),
            false => in_time(self, deadline)
                .await
                .ok_or(DeadlineExceeded { keys: Keys::Several }),
        }
    }

    /// Blocks this thread until all keys are acquired, or the deadline has passed. Do not call it
    /// in a task, as [`Acquire::blocking`].
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`] if others held one of the keys until then; none is held. A
    /// later call may succeed.
    pub fn blocking_until(self, deadline: Instant) -> Result<KeyedGuards<'a, K>, DeadlineExceeded> {
        self.block(deadline)
            .ok_or(DeadlineExceeded { keys: Keys::Several })
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn in_time<F: Future>(acquire: F, deadline: Instant) -> Option<F::Output> {
    timeout_at(deadline.into(), acquire).await.ok()
}
