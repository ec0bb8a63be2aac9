//! Differences between the clocks of region servers.
//!
//! A region server reports to the master every few seconds (`HRegionServer.run`). A report has the
//! server's time before the report, and its time when the master had answered the previous report.
//! So two consecutive reports bound the server's clock at the time when the master received the
//! first one. That time lies between the start of the last call that did not show the report and
//! the first answer that did.

use std::time::{Duration, SystemTime};

use hbase_admin::{Admin, ServerLoad, low_level::AdminCalls};
use hbase_client::{Environment as _, ServerName};
use hbase_txn::lock::MAX_SKEW_MARGIN;
use tokio::time::{Instant, sleep_until};

use super::{finding::Finding, name::Name};

/// Long enough for two reports of each server at the usual interval of 3 s.
const LONGEST: Duration = Duration::from_secs(10);
/// A server that has not reported for this long hangs; the audit does not wait for it.
const QUIET: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(200);
/// The pause after a call is at least this multiple of the call's duration, because the answer of a
/// large cluster is large.
const PART_OF_TIME: u32 = 10;

/// The clock of one server, compared with this machine's.
#[derive(Debug)]
struct Clock {
    server: ServerName,
    /// The time in the last report.
    reported: u64,
    /// The start of the last call that did not show that report.
    unseen: Option<u64>,
    /// The time when the last report, or else the server, was first seen.
    heard: Instant,
    /// The bounds of its lead in milliseconds; negative if the clock is behind.
    least: i64,
    most: Option<i64>,
}

impl Clock {
    fn new(server: ServerName) -> Self {
        Self {
            server,
            reported: 0,
            unseen: None,
            heard: Instant::now(),
            least: i64::MIN,
            most: None,
        }
    }

    /// Narrows the bounds by a report that was received after `unseen` and before `answered`.
    fn learn(&mut self, load: &ServerLoad, unseen: Option<u64>, answered: u64) {
        // Without a previous report, this server may not have reported at all yet. The time is then
        // the master's own (`ServerMetricsBuilder`).
        let (Some(reported), Some(before)) = (load.reported.map(millis), load.reported_before.map(millis))
        else {
            return;
        };
        if reported == self.reported {
            return;
        }
        self.least = self.least.max(distance(reported, answered));
        if let Some(since) = self.unseen {
            let most = distance(before, since);
            self.most = Some(self.most.map_or(most, |known| known.min(most)));
        }
        (self.reported, self.unseen, self.heard) = (reported, unseen, Instant::now());
    }

    fn is_done(&self) -> bool {
        self.most.is_some() || self.heard.elapsed() >= QUIET
    }
}

/// Watches the reports of all region servers, and returns a finding if two clocks differ by more
/// than any lease allows. Reports only certain differences, and none if the reports are too rare.
pub(super) async fn compare(admin: &Admin, deadline: Instant) -> Option<Finding> {
    let began = Instant::now();
    let began_at = millis(admin.connection().environment().wall_clock());
    // The wall clock may be changed meanwhile.
    let now = || began_at + u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
    // Leaves time for the rest of the audit, even if servers hang.
    let end = began + LONGEST.min(deadline.saturating_duration_since(began) / 5 * 4);
    let mut clocks: Vec<Clock> = Vec::new();
    let mut unseen = None;
    while Instant::now() < end {
        let asked = now();
        let loads = match admin.until(end).server_loads().await {
            Ok(loads) => loads,
            Err(error) => {
                tracing::debug!(%error, "the clocks of region servers were not compared");
                break;
            }
        };
        let answered = now();
        for load in &loads {
            let known = clocks.iter().position(|clock| clock.server == load.server);
            let at = known.unwrap_or(clocks.len());
            if known.is_none() {
                clocks.push(Clock::new(load.server.clone()));
            }
            // A server that starts meanwhile was absent from all earlier answers.
            clocks[at].learn(load, unseen, answered);
        }
        if loads.len() < 2 || clocks.iter().all(Clock::is_done) {
            break;
        }
        unseen = Some(asked);
        let took = Duration::from_millis(answered.saturating_sub(asked));
        let next = Instant::now() + INTERVAL.max(took * PART_OF_TIME);
        sleep_until(next.min(end)).await;
    }
    apart(&clocks)
}

/// Returns a finding for the two clocks that certainly differ most, if they differ too much.
fn apart(clocks: &[Clock]) -> Option<Finding> {
    let fast = clocks.iter().max_by_key(|clock| clock.least)?;
    let slow = clocks
        .iter()
        .filter_map(|clock| Some((clock.most?, clock)))
        .min_by_key(|(most, _)| *most);
    let (most, slow) = slow?;
    let apart = u64::try_from(fast.least.saturating_sub(most)).ok()?;
    if Duration::from_millis(apart) <= MAX_SKEW_MARGIN {
        return None;
    }
    let finding = Finding::note(
        Name::ClocksApart,
        format!(
            "the clock of region server {} is at least {}.{} s ahead of that of {}",
            fast.server,
            apart / 1_000,
            apart % 1_000 / 100,
            slow.server
        ),
        "when a region moves to the faster server, a lease that is not renewed expires there before its holder expects it, by \
         more than the margin; fenced writes are still refused",
    );
    Some(finding.fixed_by(
        "timedatectl set-ntp true".to_owned(),
        "on both hosts, or by the time service that they use; until then renew leases, or set a larger skew_margin",
    ))
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn distance(shown: u64, ours: u64) -> i64 {
    let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    signed(shown) - signed(ours)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EPOCH: u64 = 1_700_000_000_000;

    fn load(reported: u64, before: u64) -> ServerLoad {
        let moment = |millis| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        ServerLoad {
            server: server(1),
            reported: moment(reported),
            reported_before: moment(before),
            regions: Vec::new(),
        }
    }

    fn server(port: u16) -> ServerName {
        ServerName {
            host: "rs".into(),
            port,
            start_code: 1,
        }
    }

    fn clock(port: u16, least: i64, most: i64) -> Clock {
        Clock {
            least,
            most: Some(most),
            ..Clock::new(server(port))
        }
    }

    #[test]
    fn only_what_is_certain_is_told() {
        assert!(apart(&[]).is_none());
        assert!(apart(&[clock(1, 0, 200), clock(2, 1_100, 1_500)]).is_none());
        let found = apart(&[clock(1, 0, 200), clock(2, 4_800, 5_100), clock(3, -100, 300)]).unwrap();
        assert_eq!(found.finding, "clocks-apart");
        let what = "the clock of region server rs:2:1 is at least 4.6 s ahead of that of rs:1:1";
        assert_eq!(found.what.replace(',', ":"), what);
        // Nothing is known about the first clock.
        let unknown = Clock {
            most: None,
            ..clock(1, i64::MIN, 0)
        };
        assert!(apart(&[unknown, clock(2, 4_800, 5_100)]).is_none());
    }

    proptest! {
        /// A server whose clock is ahead reports every 3 s, with varying delays, while the master
        /// is queried.
        #[test]
        fn bounds_hold_the_truth(
            ahead in -60_000_i64..60_000,
            reports in proptest::collection::vec((2_900_u64..3_100, 0_u64..900, 0_u64..900), 4),
            pauses in proptest::collection::vec((0_u64..400, 0_u64..300, 0_u64..300), 80),
        ) {
            let by_server = |time: u64| time.checked_add_signed(ahead).unwrap();
            // For each report: the time when the master received it, the time in it, and the
            // server's time at the answer to the previous report.
            let mut time = EPOCH;
            let mut before = by_server(EPOCH);
            let mut received = Vec::new();
            for (interval, there, back) in reports {
                time += interval;
                let stamp = by_server(time);
                time += there;
                received.push((time, load(stamp, before)));
                time += back;
                before = by_server(time);
            }
            let mut clock = Clock::new(server(1));
            let (mut now, mut unseen) = (EPOCH, None);
            for (there, back, pause) in pauses {
                let asked = now;
                now += there;
                let shown = received.iter().rev().find(|(time, _)| *time <= now);
                now += back;
                if let Some((_, load)) = shown {
                    clock.learn(load, unseen, now);
                }
                unseen = Some(asked);
                now += pause;
            }
            prop_assert!(clock.least <= ahead);
            prop_assert!(clock.most.is_none_or(|most| ahead <= most));
        }
    }
}
