//! The capabilities of region servers that were proven before a call relied on them.
//!
//! A server is identified by host, port and start code: after a restart it is a different server,
//! possibly of another version.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hbase_client::{
    Environment, ServerName,
    low_level::{ProofTurn, Proofs},
};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// The maximum difference between the clocks of client and server where records are kept. By
/// default, HBase itself lets a region server join with a difference of up to 30 s.
pub(in crate::txn) const MAX_SKEW: Duration = Duration::from_secs(60);
/// How long a comparison of clocks is valid: clocks drift, and machines are suspended.
const CLOCK_AGE: Duration = Duration::from_secs(600);
/// One millisecond in this many is how much two clocks may drift apart: NTP slews a clock by up to
/// 0.5 ms a second.
const DRIFT: u64 = 1_000;
/// How old a comparison may be, and how wide its bounds in milliseconds, to tell whether a clock has
/// passed a recent timestamp.
const PRECISE_AGE: Duration = Duration::from_secs(1);
const PRECISE_WIDTH: u64 = 100;
/// How far the clocks of client and server may differ where they can't be compared.
const ASSUMED_SKEW: u64 = 1_000;

/// The capabilities that a call needs of its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::txn) struct Needs {
    /// Conditions of multi-row transactions are honoured.
    pub(in crate::txn) conditions: bool,
    /// The server's clock was compared.
    pub(in crate::txn) clock: bool,
    /// An atomic `Multi` over several rows is atomic.
    pub(in crate::txn) atomic_multi: bool,
    /// A call that increments a cell that is no counter is refused as a whole.
    pub(in crate::txn) refuses_increment: bool,
}

/// What is proven of a server with a probe of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::txn) enum Capability {
    /// Conditions of multi-row transactions are honoured.
    Conditions,
    /// The server's clock was compared.
    Clock,
    /// An atomic `Multi` over several rows is atomic.
    AtomicMulti,
    /// A call that increments a cell that is no counter is refused as a whole.
    RefusesIncrement,
    /// A region has no cells ahead of the clock.
    Floor,
}

impl Capability {
    /// Returns the purpose of the probe, for errors.
    pub(in crate::txn) fn purpose(self) -> &'static str {
        match self {
            Self::Conditions => "proving conditions",
            Self::Clock => "comparing clocks",
            Self::AtomicMulti => "trying an atomic Multi",
            Self::RefusesIncrement => "trying an increment of a cell that is no counter",
            Self::Floor => "looking for cells ahead of the clock",
        }
    }
}

/// The servers that were probed, and the results.
#[derive(Debug)]
pub(in crate::txn) struct Servers {
    environment: Arc<dyn Environment>,
    proofs: Proofs,
    clocks: Mutex<HashMap<ServerName, Clock>>,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The time that the server's clock showed at some moment from `asked` to `compared`, in
    /// milliseconds since 1970.
    shown: u64,
    asked: Instant,
    compared: Instant,
}

impl Clock {
    fn is_recent(&self) -> bool {
        self.compared.elapsed() <= CLOCK_AGE
    }

    /// Returns a time that the server's clock has reached by now.
    fn earliest_now(&self) -> u64 {
        let elapsed = whole_millis(self.compared.elapsed());
        self.shown + elapsed - elapsed.div_ceil(DRIFT)
    }

    /// Returns a time that the server's clock has not passed yet.
    fn latest_now(&self) -> u64 {
        let elapsed = whole_millis(self.asked.elapsed()) + 1;
        self.shown + elapsed + elapsed.div_ceil(DRIFT)
    }
}

/// Bounds of the time that a server's clock shows at one moment, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::txn) struct ServerTime {
    /// A time that the clock has reached.
    pub(in crate::txn) earliest: u64,
    /// A time that the clock has not passed.
    pub(in crate::txn) latest: u64,
    /// Whether the bounds are assumed, because the clocks can't be compared.
    pub(in crate::txn) is_assumed: bool,
}

impl ServerTime {
    /// Returns the latest timestamp that is certainly in the past.
    pub(in crate::txn) fn past(self) -> u64 {
        self.earliest.saturating_sub(1)
    }
}

impl Servers {
    pub(in crate::txn) fn new(environment: Arc<dyn Environment>) -> Self {
        Self {
            environment,
            proofs: Proofs::default(),
            clocks: Mutex::default(),
        }
    }

    fn clocks(&self) -> MutexGuard<'_, HashMap<ServerName, Clock>> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the needs that are not proven yet for a server, or `None` if all are.
    pub(in crate::txn) fn lacking(&self, server: &ServerName, needs: Needs) -> Option<Needs> {
        let lacking = Needs {
            conditions: needs.conditions && !self.has(server, Capability::Conditions),
            clock: needs.clock && self.recent_clock(server).is_none(),
            atomic_multi: needs.atomic_multi && !self.has(server, Capability::AtomicMulti),
            refuses_increment: needs.refuses_increment && !self.has(server, Capability::RefusesIncrement),
        };
        (lacking != Needs::default()).then_some(lacking)
    }

    /// Returns whether a server is proven to have a capability.
    pub(in crate::txn) fn has(&self, server: &ServerName, capability: Capability) -> bool {
        self.proofs.has(server, capability.purpose())
    }

    /// Records that a server has a capability.
    pub(in crate::txn) fn add(&self, server: ServerName, capability: Capability) {
        self.proofs.add(server, capability.purpose());
    }

    /// Returns the turn to probe a server. See [`Proofs::turn`].
    pub(in crate::txn) async fn turn(
        &self,
        server: &ServerName,
        capability: Capability,
        deadline: Instant,
    ) -> Result<Option<ProofTurn<'_>>> {
        let turn = self.proofs.turn(server, capability.purpose(), deadline);
        Ok(turn.await?)
    }

    /// Records the time that a server's clock showed between two times of this machine's clock, all
    /// in milliseconds since 1970. `asked` is the moment of the first one.
    ///
    /// # Errors
    ///
    /// Returns [`ClockSkew`](ErrorKind::ClockSkew) if the clocks are too far apart.
    pub(super) fn compare_clock(
        &self,
        server: ServerName,
        asked: Instant,
        before: u64,
        shown: u64,
        after: u64,
    ) -> Result<()> {
        // A difference within the two times is the duration of the call.
        let ahead = match shown {
            _ if shown < before => -millis_between(shown, before),
            _ if shown > after => millis_between(after, shown),
            _ => 0,
        };
        if ahead.unsigned_abs() > u64::try_from(MAX_SKEW.as_millis()).unwrap_or(u64::MAX) {
            return Err(Error::new(
                ErrorKind::ClockSkew,
                format!(
                    "the clock of the region server is {} s {} of this machine's; records of transactions need them within {} s",
                    ahead.unsigned_abs() / 1_000,
                    if ahead > 0 { "ahead" } else { "behind" },
                    MAX_SKEW.as_secs()
                ),
            )
            .with_hint("set the clocks right, with NTP say")
            .at_server(&server.address()));
        }
        let clock = Clock {
            shown,
            asked,
            compared: Instant::now(),
        };
        self.clocks().insert(server, clock);
        Ok(())
    }

    /// Returns how long ago the clock of a server was compared, or `None` if it was not, recently.
    pub(super) fn clock_age(&self, server: &ServerName) -> Option<Duration> {
        self.recent_clock(server).map(|clock| clock.compared.elapsed())
    }

    /// Returns whether the time of a server is known so well that another comparison would not
    /// help.
    pub(super) fn knows_precisely(&self, server: &ServerName) -> bool {
        self.recent_clock(server).is_some_and(|clock| {
            let width = clock.latest_now() - clock.earliest_now();
            clock.compared.elapsed() <= PRECISE_AGE && width <= PRECISE_WIDTH
        })
    }

    fn recent_clock(&self, server: &ServerName) -> Option<Clock> {
        self.clocks().get(server).copied().filter(Clock::is_recent)
    }

    /// Returns the bounds of a server's time. If the clocks were not compared recently, they are
    /// assumed to differ by up to a second.
    pub(in crate::txn) fn time_at(&self, server: &ServerName) -> ServerTime {
        match self.recent_clock(server) {
            Some(clock) => ServerTime {
                earliest: clock.earliest_now(),
                latest: clock.latest_now(),
                is_assumed: false,
            },
            None => ServerTime {
                earliest: self.local_now().saturating_sub(ASSUMED_SKEW),
                latest: self.local_now().saturating_add(ASSUMED_SKEW),
                is_assumed: true,
            },
        }
    }

    /// Returns a time in milliseconds since 1970 that no clock has passed of the servers whose
    /// clocks were compared recently, or this machine's time if there is none.
    pub(in crate::txn) fn latest_now(&self) -> u64 {
        self.clocks()
            .values()
            .filter(|clock| clock.is_recent())
            .map(|clock| clock.latest_now())
            .max()
            .unwrap_or_else(|| self.local_now())
    }

    /// Returns a time in milliseconds since 1970 that the clocks have passed of all servers whose
    /// clocks were compared recently, or 0 if there is none.
    pub(in crate::txn) fn past(&self) -> u64 {
        self.clocks()
            .values()
            .filter(|clock| clock.is_recent())
            .map(|clock| clock.earliest_now().saturating_sub(1))
            .min()
            .unwrap_or(0)
    }

    /// Returns this machine's time in milliseconds since 1970.
    pub(super) fn local_now(&self) -> u64 {
        millis(self.environment.wall_clock())
    }
}

/// Returns a time of the wall clock in milliseconds since 1970.
pub(in crate::txn) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2)
}

fn millis_between(earlier: u64, later: u64) -> i64 {
    i64::try_from(later - earlier).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::fixed::{Fixed, WALL_CLOCK};

    const ALL: Needs = Needs {
        conditions: true,
        clock: true,
        atomic_multi: true,
        refuses_increment: true,
    };

    fn server(start_code: u64) -> ServerName {
        ServerName {
            host: "rs1".into(),
            port: 16_020,
            start_code,
        }
    }

    #[test]
    fn a_server_that_was_restarted_must_be_proven_anew() {
        let servers = Servers::new(Arc::new(Fixed));
        servers.add(server(1), Capability::Conditions);
        let lacking = servers.lacking(&server(1), ALL).unwrap();
        assert!(!lacking.conditions && lacking.clock && lacking.atomic_multi);
        assert!(servers.lacking(&server(2), ALL).unwrap().conditions);
        let conditions = Needs {
            conditions: true,
            ..Needs::default()
        };
        assert_eq!(servers.lacking(&server(1), conditions), None);
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_are_compared_again_after_a_while() {
        let servers = Servers::new(Arc::new(Fixed));
        let clock = Needs {
            clock: true,
            ..Needs::default()
        };
        servers
            .compare_clock(server(1), Instant::now(), 1_000, 1_005, 1_010)
            .unwrap();
        assert_eq!(servers.lacking(&server(1), clock), None);
        tokio::time::advance(CLOCK_AGE + Duration::from_secs(1)).await;
        assert_eq!(servers.lacking(&server(1), clock), Some(clock));
    }

    #[test]
    fn clocks_too_far_apart_are_refused_in_both_directions() {
        let servers = Servers::new(Arc::new(Fixed));
        let (asked, before, after) = (Instant::now(), 1_000_000, 1_000_010);
        for shown in [before - 60_000, after + 60_000] {
            servers
                .compare_clock(server(1), asked, before, shown, after)
                .unwrap();
        }
        for (shown, word) in [(before - 60_001, "behind"), (after + 60_001, "ahead")] {
            let error = servers
                .compare_clock(server(1), asked, before, shown, after)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ClockSkew);
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clock_that_was_compared_long_ago_is_ignored() {
        let servers = Servers::new(Arc::new(Fixed));
        servers
            .compare_clock(server(1), Instant::now(), 10_000, 40_000, 10_000)
            .unwrap();
        tokio::time::advance(CLOCK_AGE + Duration::from_secs(1)).await;
        assert_eq!(servers.clock_age(&server(1)), None);
        servers
            .compare_clock(server(2), Instant::now(), 10_000, 10_000, 10_000)
            .unwrap();
        assert_eq!(servers.latest_now(), 10_000 + 1 + 1);
        let assumed = ServerTime {
            earliest: WALL_CLOCK - ASSUMED_SKEW,
            latest: WALL_CLOCK + ASSUMED_SKEW,
            is_assumed: true,
        };
        assert_eq!(servers.time_at(&server(1)), assumed);
    }

    #[tokio::test(start_paused = true)]
    async fn bounds_of_a_servers_time_hold_whenever_it_was_shown_during_the_call() {
        let servers = Servers::new(Arc::new(Fixed));
        let call = Duration::from_millis(11_000);
        for (number, shown_after) in [(1, 0), (2, 5_000), (3, 11_000)] {
            let asked = Instant::now();
            // The server's clock is at 0 when the call begins.
            tokio::time::advance(call).await;
            let (before, after) = (20_000, 31_000);
            servers
                .compare_clock(server(number), asked, before, shown_after, after)
                .unwrap();
            for _ in 0..3 {
                let now = whole_millis(asked.elapsed());
                let time = servers.time_at(&server(number));
                assert!(time.earliest <= now && now <= time.latest, "{now} in {time:?}");
                tokio::time::advance(Duration::from_secs(100)).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_server_has_a_time_of_its_own() {
        let servers = Servers::new(Arc::new(Fixed));
        let asked = Instant::now();
        servers
            .compare_clock(server(1), asked, 10_000, 5_000, 10_000)
            .unwrap();
        servers
            .compare_clock(server(2), asked, 10_000, 40_000, 10_000)
            .unwrap();
        assert_eq!(servers.time_at(&server(1)).earliest, 5_000);
        assert_eq!(servers.time_at(&server(2)).earliest, 40_000);
        assert_eq!(servers.latest_now(), 40_000 + 1 + 1);
        assert_eq!(servers.past(), 5_000 - 1);
    }
}
