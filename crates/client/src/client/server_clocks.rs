//! The clocks of region servers, and timestamps for writes that may be sent again.
//!
//! A copy of a write may arrive after later writes of its row. Unless the copy carries a timestamp,
//! the server stamps it when it arrives, and it hides them. So such writes get their timestamps from
//! the client: later than all that the server has stamped before the write is sent, and rising with
//! the order of the writes. A write is reported as done when the server's clock has passed its
//! timestamp, so what the server stamps afterwards is later.
//!
//! The module of bulk writes compares the clocks, and uses the timestamps.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::model::ServerName;

/// How long a comparison is used.
const MAX_AGE: Duration = Duration::from_secs(5);
/// The assumed deviation of the rates of two clocks: one part of so many.
const DRIFT: u32 = 1_000;

/// The clocks of the servers that a client writes to.
#[derive(Debug, Default)]
pub(super) struct ServerClocks {
    servers: Mutex<BTreeMap<ServerName, ServerClock>>,
}

#[derive(Clone, Copy, Debug)]
struct ServerClock {
    compared: Comparison,
    last_stamp: u64,
}

/// A timestamp that a server gave between two times of the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    pub(super) sent: Instant,
    pub(super) answered: Instant,
    pub(super) stamp: u64,
}

impl Comparison {
    /// Returns the latest time that the server's clock may show now.
    fn latest(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.sent);
        self.stamp + 1 + millis_rounded_up(passed + passed / DRIFT)
    }

    /// Returns when the server's clock certainly shows this time.
    fn reaches(&self, stamp: u64) -> Instant {
        let left = Duration::from_millis(stamp.saturating_sub(self.stamp));
        self.answered + left + left / DRIFT
    }
}

fn millis_rounded_up(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

impl ServerClocks {
    fn servers(&self) -> MutexGuard<'_, BTreeMap<ServerName, ServerClock>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, server: &ServerName, compared: Comparison) {
        let now = Instant::now();
        let mut servers = self.servers();
        // Servers that have restarted have other names.
        servers.retain(|_, clock| {
            let is_recent = now.saturating_duration_since(clock.compared.answered) < MAX_AGE;
            is_recent || clock.compared.reaches(clock.last_stamp) >= now
        });
        let clock = ServerClock {
            compared,
            last_stamp: 0,
        };
        servers.entry(server.clone()).or_insert(clock).compared = compared;
    }

    /// Returns the next timestamp of writes to a server, above this one, and how far it is ahead of the
    /// latest time that its clock may show. `None` if the clock was not compared recently.
    pub(super) fn next(&self, server: &ServerName, above: u64) -> Option<(u64, Duration)> {
        let now = Instant::now();
        let mut servers = self.servers();
        let clock = servers.get_mut(server)?;
        if now.saturating_duration_since(clock.compared.sent) >= MAX_AGE {
            return None;
        }
        let wanted = clock.compared.latest(now) + 1;
        let stamp = wanted.max(clock.last_stamp + 1).max(above + 1);
        clock.last_stamp = stamp;
        Some((stamp, Duration::from_millis(stamp - wanted)))
    }

    /// Returns when the clock of a server certainly shows this time.
    pub(super) fn reaches(&self, server: &ServerName, stamp: u64) -> Instant {
        let clock = self.servers().get(server).copied();
        clock.map_or_else(Instant::now, |clock| clock.compared.reaches(stamp))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn server(number: u16) -> ServerName {
        ServerName {
            host: "rs".to_owned(),
            port: number,
            start_code: 1,
        }
    }

    /// A comparison by a call that took 10 ms and has just been answered.
    fn comparison(stamp: u64) -> Comparison {
        let answered = Instant::now();
        Comparison {
            sent: answered - Duration::from_millis(10),
            answered,
            stamp,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stamps_are_later_than_the_clock_can_be_and_rise() {
        advance(SECOND).await;
        let (clocks, one) = (ServerClocks::default(), server(1));
        assert_eq!(clocks.next(&one, 0), None);
        clocks.add(&one, comparison(1_000));
        // The server's time was 1,000 up to 11 ms ago.
        assert_eq!(clocks.next(&one, 0), Some((1_013, Duration::ZERO)));
        assert_eq!(clocks.next(&one, 0), Some((1_014, Duration::from_millis(1))));
        assert_eq!(
            clocks.next(&one, 2_000),
            Some((2_001, Duration::from_millis(988)))
        );
        assert_eq!(clocks.next(&server(2), 0), None);
        // A better comparison does not take stamps back.
        clocks.add(&one, comparison(1_000));
        assert!(clocks.next(&one, 0).is_some_and(|(stamp, _)| stamp == 2_002));
        advance(MAX_AGE).await;
        assert_eq!(clocks.next(&one, 0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn clock_reaches_a_stamp_at_the_latest_possible_time() {
        advance(SECOND).await;
        let (clocks, one) = (ServerClocks::default(), server(1));
        clocks.add(&one, comparison(1_000));
        let now = Instant::now();
        assert_eq!(clocks.reaches(&one, 990), now);
        assert_eq!(clocks.reaches(&one, 2_000), now + SECOND + SECOND / DRIFT);
        // Servers that are gone are forgotten when all of their stamps have passed.
        assert!(clocks.next(&one, 9_000).is_some());
        advance(7 * SECOND).await;
        clocks.add(&server(2), comparison(1_000));
        assert_eq!(clocks.servers().len(), 2);
        advance(7 * SECOND).await;
        clocks.add(&server(3), comparison(1_000));
        assert_eq!(clocks.servers().len(), 1);
    }
}
