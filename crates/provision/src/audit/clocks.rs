//! How far the clocks of region servers are apart.
//!
//! A region server reports to the master every few seconds (`HRegionServer.run`): with its time
//! before the report, and with its time when the master had answered the one before. So its clock
//! showed something between these two when the master received a report; and that was between the
//! call that did not show the report yet, and the one that did.

use std::time::{Duration, SystemTime};

use hbase_client::{Admin, ServerLoad, ServerName, low_level::AdminCalls};
use hbase_txn::lock::MAX_SKEW_MARGIN;
use tokio::time::{Instant, sleep};

use super::{finding::Finding, name::Name};

/// Two reports of each server are waited for, at their usual interval of 3 s.
const LONGEST: Duration = Duration::from_secs(10);
/// A server that has not reported for this long hangs, and is not waited for.
const QUIET: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(200);
/// A large cluster's answer is large: calls take no more than this part of the time.
const PART_OF_TIME: u32 = 10;

/// One server's clock, against this machine's.
#[derive(Debug)]
struct Clock {
    server: ServerName,
    /// The last report that was seen.
    reported: u64,
    /// When a call began that did not show that report.
    unseen: Option<u64>,
    /// When the last report was seen, or the first call made.
    heard: Instant,
    /// How far it is ahead in milliseconds, at least and at most; negative where it is behind.
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

    /// Learns from a report that an answer showed, and no call that began before `unseen`.
    fn learn(&mut self, load: &ServerLoad, unseen: Option<u64>, answered: u64) {
        // A server without a report before this one may have made none yet: then the time is the
        // master's own (`ServerMetricsBuilder`).
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

/// Watches the reports of all region servers, and tells which clocks are apart by more than any
/// lease allows for. Reports certain differences only, and none if reports are too rare.
pub(super) async fn compare(admin: &Admin, deadline: Instant) -> Option<Finding> {
    let began = Instant::now();
    let began_at = millis(SystemTime::now());
    // The wall clock may be set meanwhile.
    let now = || began_at + u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
    // The audit is over before its deadline, also where servers hang.
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
            // One that comes up meanwhile was not there at all before.
            clocks[at].learn(load, unseen, answered);
        }
        if loads.len() < 2 || clocks.iter().all(Clock::is_done) {
            break;
        }
        unseen = Some(asked);
        let took = Duration::from_millis(answered.saturating_sub(asked));
        sleep(INTERVAL.max(took * PART_OF_TIME)).await;
    }
    apart(&clocks)
}

/// The finding for the two clocks that are surely furthest apart, if that is too far.
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
        "a lease that is not renewed ends that much early for all but its holder when its region moves to the faster server, \
         more than the margin allows for; fenced writes are refused all the same",
    );
    Some(finding.fixed_by(
        "timedatectl set-ntp true".to_owned(),
        "on both hosts, or whatever else sets clocks there; until then give leases a skew_margin of more than that, or renew them",
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
        // Of one server nothing is known but that it is not further behind.
        let unknown = Clock {
            most: None,
            ..clock(1, i64::MIN, 0)
        };
        assert!(apart(&[unknown, clock(2, 4_800, 5_100)]).is_none());
    }

    proptest! {
        /// A server whose clock is ahead reports every 3 s, and its reports take their time; the
        /// master is asked meanwhile.
        #[test]
        fn bounds_hold_the_truth(
            ahead in -60_000_i64..60_000,
            reports in proptest::collection::vec((2_900_u64..3_100, 0_u64..900, 0_u64..900), 4),
            pauses in proptest::collection::vec((0_u64..400, 0_u64..300, 0_u64..300), 80),
        ) {
            let by_server = |time: u64| time.checked_add_signed(ahead).unwrap();
            // When each came to the master, its time, and the server's time at the answer to the
            // one before.
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
