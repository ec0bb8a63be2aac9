//! Waiting until a deadline. This is the only module of the crate that uses a runtime.

use std::{error::Error, fmt, future::Future, time::Instant};

use tokio::time::timeout_at;

use super::{Acquire, AcquireAll, KeyedGuard, KeyedGuards};

/// The error of a call whose deadline passed while other holders had a key.
///
/// The call holds no key. A later call may succeed.
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
    /// Acquires the key, waiting until the deadline at most, on tokio's clock. Does not wait if the
    /// deadline has passed.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`] if other callers held the key until the deadline.
    pub async fn until(self, deadline: Instant) -> Result<KeyedGuard<'a, K>, DeadlineExceeded> {
        if deadline <= now() {
            self.now().ok_or(DeadlineExceeded { keys: Keys::One })
        } else {
            in_time(self, deadline)
                .await
                .ok_or(DeadlineExceeded { keys: Keys::One })
        }
    }

    /// Blocks this thread until the key is acquired or the deadline passes. Do not call it in a
    /// task; see [`blocking`](Self::blocking).
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`] if other callers held the key until the deadline.
    pub fn blocking_until(self, deadline: Instant) -> Result<KeyedGuard<'a, K>, DeadlineExceeded> {
        self.block(deadline).ok_or(DeadlineExceeded { keys: Keys::One })
    }
}

impl<'a, K: Eq + Clone> AcquireAll<'a, K> {
    /// Acquires all keys, waiting until the deadline at most, on tokio's clock. Does not wait if
    /// the deadline has passed.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`] if other callers held one of the keys until the deadline. The
    /// call then holds none of them.
    pub async fn until(self, deadline: Instant) -> Result<KeyedGuards<'a, K>, DeadlineExceeded> {
        if deadline <= now() {
            self.now().ok_or(DeadlineExceeded { keys: Keys::Several })
        } else {
            in_time(self, deadline)
                .await
                .ok_or(DeadlineExceeded { keys: Keys::Several })
        }
    }

    /// Blocks this thread until all keys are acquired or the deadline passes. Do not call it in a
    /// task; see [`Acquire::blocking`].
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`] if other callers held one of the keys until the deadline. The
    /// call then holds none of them.
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
