//! Findings of audits, printed once or repeatedly.

use std::time::Duration;

use clap::Args;
use hbase_provision::{Finding, Severity};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::lock::signals::Signals;
use crate::{
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    style::{Meaning, Target, paint},
    values::Ranged,
};

/// Repeated audits.
#[derive(Debug, Args)]
pub(super) struct Watch {
    /// Interval of repeated audits, until a signal: each prints findings that are new or gone; the
    /// exit status is that of the last audit, or 1 if none was complete
    #[arg(long, value_name = "EVERY", num_args = 0..=1, default_missing_value = "10s", allow_hyphen_values = true, value_parser = durations::parse)]
    watch: Option<Ranged<Duration>>,
}

/// The change of a finding since the previous audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    Found,
    Gone,
}

#[derive(Serialize)]
struct Changed<'a> {
    change: Change,
    #[serde(flatten)]
    finding: &'a Finding,
}

/// The result of an audit.
pub(super) struct Audited {
    /// A summary of the audited objects, for people.
    pub(super) looked_at: Option<String>,
    pub(super) findings: Vec<Finding>,
}

impl Watch {
    /// Audits once or repeatedly. Prints the summary, if there is one, and the findings, or `fine`
    /// if there are none.
    pub(super) async fn run(
        self,
        global: &Global,
        fine: &str,
        mut audit: impl AsyncFnMut() -> hbase_txn::Result<Audited>,
    ) -> Outcome {
        let Some(every) = &self.watch else {
            let Audited { looked_at, findings } = audit().await?;
            print(global, looked_at)?;
            for finding in &findings {
                match global.output {
                    Format::Json => output::json(finding)?,
                    Format::Table => output::line(&text(finding))?,
                }
            }
            if findings.is_empty() && global.output == Format::Table {
                output::line(fine)?;
            }
            return Ok(status(&findings));
        };
        let every = every.get("--watch")?;
        if every < Duration::from_secs(1) {
            return Err(Failure::Refused(format!(
                "--watch {}: ask once a second at most",
                durations::shown(every)
            )));
        }
        let mut signals = Signals::listen()?;
        let mut known = None;
        tokio::select! {
            biased;
            ended = watch(global, every, fine, audit, &mut known) => ended?,
            () = signals.ending() => {}
        }
        // Before the first complete audit, the state is unknown.
        Ok(known.as_deref().map_or(Exit::Failed, status))
    }
}

/// Prints changes until stdout is closed. Reports a cluster that does not answer, and queries it
/// again.
async fn watch(
    global: &Global,
    every: Duration,
    fine: &str,
    mut audit: impl AsyncFnMut() -> hbase_txn::Result<Audited>,
    known: &mut Option<Vec<Finding>>,
) -> Result<(), Failure> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Audited { looked_at, findings } = match audit().await {
            Ok(audited) => audited,
            Err(error) => {
                let failure = Failure::from(error);
                output::complain(&format!("{failure}; asking again in {}", durations::shown(every)));
                continue;
            }
        };
        let looked_at = looked_at.filter(|_| known.is_none());
        let printed =
            print(global, looked_at).and_then(|()| print_changes(global, fine, known.as_deref(), &findings));
        *known = Some(findings);
        printed?;
        if output::is_closed() {
            return Ok(());
        }
    }
}

fn print(global: &Global, looked_at: Option<String>) -> Result<(), Failure> {
    match looked_at.filter(|_| global.output == Format::Table) {
        Some(line) => Ok(output::line(&line)?),
        None => Ok(()),
    }
}

fn print_changes(
    global: &Global,
    fine: &str,
    known: Option<&[Finding]>,
    findings: &[Finding],
) -> Result<(), Failure> {
    let before = known.unwrap_or_default();
    let missing_in =
        |others: &[Finding], finding: &Finding| !others.iter().any(|other| is_same(other, finding));
    let found = findings.iter().filter(|finding| missing_in(before, finding));
    let gone = before.iter().filter(|finding| missing_in(findings, finding));
    let changes = found
        .map(|finding| (Change::Found, finding))
        .chain(gone.map(|finding| (Change::Gone, finding)));
    for (change, finding) in changes {
        match (global.output, change) {
            (Format::Json, change) => output::json(&Changed { change, finding })?,
            (Format::Table, Change::Found) => output::line(&text(finding))?,
            (Format::Table, Change::Gone) => {
                let gone = paint(Target::Stdout, Meaning::Good, "gone");
                output::line(&format!("{gone}: {}: {}", finding.finding, finding.what))?;
            }
        }
    }
    let was_fine = known.is_some_and(<[_]>::is_empty);
    if findings.is_empty() && !was_fine && global.output == Format::Table {
        output::line(fine)?;
    }
    Ok(())
}

/// Formats a finding. It begins with its severity.
fn text(finding: &Finding) -> String {
    let (text, severity) = (finding.to_string(), finding.severity.to_string());
    let meaning = match finding.severity {
        Severity::Broken => Meaning::Bad,
        _ => Meaning::Notice,
    };
    match text.strip_prefix(&severity) {
        Some(rest) => paint(Target::Stdout, meaning, &severity) + rest,
        None => text,
    }
}

/// Whether two findings have the same subject. Their numbers of seconds or requests may differ.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let thing = |finding: &Finding| {
        (
            finding.finding,
            finding.table.clone(),
            finding.partition.clone(),
            finding.regions.clone(),
        )
    };
    thing(one) == thing(other)
}

fn status(findings: &[Finding]) -> Exit {
    match findings
        .iter()
        .any(|finding| finding.severity == Severity::Broken)
    {
        true => Exit::Failed,
        false => Exit::Done,
    }
}
