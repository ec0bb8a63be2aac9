//! The difference between the clock of this machine and that of Kerberos.

use std::time::Duration;

use hbase_client::Connection;
use tokio::time::{Instant, timeout_at};

use super::{finding::Finding, name::Name};

/// The tolerated difference: at that of two clocks, records of transactions are refused.
const TOLERATED: Duration = Duration::from_secs(60);
/// The difference from which servers refuse tickets (`clockskew`), by default.
const REFUSED: Duration = Duration::from_secs(300);

/// Compares the clock with that of a key distribution centre. Returns the difference, or why it is
/// unknown, and a finding if it is too large. Returns `None` if the client needs no ticket.
pub(super) async fn compare(connection: &Connection, deadline: Instant) -> Option<(String, Option<Finding>)> {
    let unknown = |reason: &str| format!("the clock was not compared with the KDC's: {reason}");
    match timeout_at(deadline, connection.kdc_clock()).await {
        Ok(Ok(clock)) => clock.map(|clock| {
            let finding = finding(clock.ahead(), clock.behind());
            (format!("clock {clock}"), finding)
        }),
        Ok(Err(error)) => {
            let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
            Some((unknown(&format!("{}{hint}", error.what())), None))
        }
        Err(_) => Some((unknown("no answer"), None)),
    }
}

/// Returns a finding for a clock that differs too much.
fn finding(ahead: Duration, behind: Duration) -> Option<Finding> {
    let distance = ahead.max(behind);
    if distance < TOLERATED {
        return None;
    }
    let direction = if ahead > behind { "ahead of" } else { "behind" };
    let what = format!(
        "the clock of this machine is at least {} s {direction} that of the key distribution centre",
        distance.as_secs()
    );
    let finding = if distance < REFUSED {
        Finding::note(
            Name::KdcClockDistant,
            what,
            "records of transactions are refused where two clocks are 60 s apart, and tickets where they are 300 s apart",
        )
    } else {
        Finding::broken(
            Name::KdcClockDistant,
            what,
            "servers refuse tickets where two clocks are 300 s apart (clockskew), unless the Kerberos library adopts the time of \
             the key distribution centre, as MIT's does with tickets that it requests under the wrong clock",
        )
    };
    Some(finding.fixed_by(
        "timedatectl set-ntp true".to_owned(),
        "on this machine or on the key distribution centre, whichever clock is wrong, or by the time service in use",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::finding::Severity;

    fn reported(ahead: u64, behind: u64) -> Option<(Severity, String)> {
        let found = finding(Duration::from_secs(ahead), Duration::from_secs(behind))?;
        assert_eq!(found.finding, "kdc-clock-distant");
        assert_eq!(found.command.as_deref(), Some("timedatectl set-ntp true"));
        Some((found.severity, found.what))
    }

    #[test]
    fn distance_decides_the_severity() {
        assert_eq!(reported(0, 0), None);
        assert_eq!(reported(59, 0), None);
        assert_eq!(reported(0, 59), None);
        let what = |how: &str| {
            format!("the clock of this machine is at least {how} that of the key distribution centre")
        };
        assert_eq!(reported(60, 0).unwrap(), (Severity::Note, what("60 s ahead of")));
        assert_eq!(reported(0, 299).unwrap(), (Severity::Note, what("299 s behind")));
        assert_eq!(
            reported(300, 0).unwrap(),
            (Severity::Broken, what("300 s ahead of"))
        );
        assert_eq!(
            reported(0, 86_400).unwrap(),
            (Severity::Broken, what("86400 s behind"))
        );
    }
}
