//! Detection of a connection whose peer is gone.
//!
//! A peer that vanishes without closing its sockets (a machine without power, a firewall that
//! forgot the connection) looks like a slow one. A ping, a request that every server answers at
//! once, distinguishes the two: if nothing at all comes in after it, the connection is silent. A
//! ping queues behind a large request that is being sent, so a peer that takes more of that request
//! counts as alive too.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// How long a call waits while nothing comes in before the peer is pinged. Longer than a usual
/// pause of a JVM.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// How long the peer may take to answer a ping.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection that was quiet for this long is pinged before it carries a call that must not be
/// sent twice.
pub(super) const IDLE: Duration = Duration::from_secs(10);

/// The bytes that came in on a connection or were taken by a slow peer, and the last ping.
#[derive(Debug)]
pub(in crate::rpc) struct Liveness {
    born: Instant,
    /// When the last byte came in, in milliseconds since `born`.
    last_heard: AtomicU64,
    heard: AtomicBool,
    /// When the peer last showed that it is there, in milliseconds since `born`.
    last_sign: AtomicU64,
    /// The number of these signs, which detects one after a ping, however short the time.
    signs: AtomicU64,
    last_ping: Mutex<Option<Ping>>,
}

#[derive(Clone, Copy, Debug)]
struct Ping {
    sent: Instant,
    signs: u64,
}

/// The next step of a call that has waited for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Check again at this time.
    Again(Instant),
    /// Ping the peer. Returned to one caller at a time.
    Ping,
    /// Give up: the peer does not answer pings.
    Silent,
}

impl Liveness {
    pub(in crate::rpc) fn new() -> Self {
        Self {
            born: Instant::now(),
            last_heard: AtomicU64::new(0),
            heard: AtomicBool::new(false),
            last_sign: AtomicU64::new(0),
            signs: AtomicU64::new(0),
            last_ping: Mutex::default(),
        }
    }

    /// Returns when the connection was opened.
    pub(super) fn born(&self) -> Instant {
        self.born
    }

    /// Records that bytes came in.
    pub(super) fn hear(&self) {
        self.last_heard.store(self.age(), Ordering::Relaxed);
        self.heard.store(true, Ordering::Relaxed);
        self.note_sign();
    }

    /// Records a sign of life: bytes came in, or a full socket has room for more of a request,
    /// because the peer took some bytes.
    pub(super) fn note_sign(&self) {
        self.last_sign.store(self.age(), Ordering::Relaxed);
        self.signs.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the milliseconds since `born`.
    fn age(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns whether any bytes ever came in.
    pub(super) fn has_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// Returns when the last byte came in, or when the connection was opened.
    pub(super) fn last_heard(&self) -> Instant {
        self.born + Duration::from_millis(self.last_heard.load(Ordering::Relaxed))
    }

    /// Returns the time since the last byte came in.
    pub(super) fn silent_for(&self) -> Duration {
        self.last_heard().elapsed()
    }

    /// Decides the next step of a call that has waited since then.
    pub(super) fn check(&self, waiting_since: Instant) -> Check {
        let mut last_ping = self.last_ping.lock().unwrap_or_else(PoisonError::into_inner);
        let signs = self.signs.load(Ordering::Relaxed);
        let now = Instant::now();
        if let Some(ping) = last_ping.filter(|ping| ping.signs == signs) {
            let due = ping.sent + PING_TIMEOUT;
            return if now >= due {
                Check::Silent
            } else {
                Check::Again(due)
            };
        }
        let last_sign = self.born + Duration::from_millis(self.last_sign.load(Ordering::Relaxed));
        let due = last_sign.max(waiting_since) + PATIENCE;
        if now < due {
            return Check::Again(due);
        }
        *last_ping = Some(Ping { sent: now, signs });
        Check::Ping
    }

    /// Returns whether a ping was not answered in time.
    pub(super) fn is_silent(&self) -> bool {
        let last_ping = *self.last_ping.lock().unwrap_or_else(PoisonError::into_inner);
        let signs = self.signs.load(Ordering::Relaxed);
        last_ping.is_some_and(|ping| ping.signs == signs && ping.sent.elapsed() >= PING_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unanswered_ping_means_silent() {
        let liveness = Liveness::new();
        let began = Instant::now();
        assert_eq!(liveness.check(began), Check::Again(began + PATIENCE));
        advance(PATIENCE).await;
        assert_eq!(liveness.check(began), Check::Ping);
        let due = Instant::now() + PING_TIMEOUT;
        // One ping is enough for all waiting calls.
        assert_eq!(liveness.check(began), Check::Again(due));
        assert!(!liveness.is_silent());
        advance(PING_TIMEOUT).await;
        assert_eq!(liveness.check(began), Check::Silent);
        assert!(liveness.is_silent());
    }

    #[tokio::test(start_paused = true)]
    async fn any_byte_is_a_sign_of_life() {
        let liveness = Liveness::new();
        let began = Instant::now();
        advance(PATIENCE).await;
        assert_eq!(liveness.check(began), Check::Ping);
        // In the same millisecond as the ping.
        liveness.hear();
        assert_eq!(liveness.check(began), Check::Again(Instant::now() + PATIENCE));
        advance(PATIENCE).await;
        assert_eq!(liveness.check(began), Check::Ping);
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_has_just_begun_waits_on_a_quiet_connection() {
        let liveness = Liveness::new();
        advance(10 * PATIENCE).await;
        let began = Instant::now();
        assert_eq!(liveness.check(began), Check::Again(began + PATIENCE));
    }
}
