//! Findings of audits, printed once or repeatedly.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

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
    /// What is printed for people if there are no findings.
    pub(super) fine: String,
    pub(super) findings: Vec<Finding>,
}

impl Audited {
    /// Groups the findings by table, each once: first the tables that are broken, and first what is broken
    /// in each.
    fn grouped(mut self) -> Self {
        let is_broken = |finding: &Finding| finding.severity == Severity::Broken;
        let mut groups = HashMap::new();
        for (index, finding) in self.findings.iter().enumerate() {
            let (is_sound, _) = groups.entry(finding.table.clone()).or_insert((true, index));
            *is_sound &= !is_broken(finding);
        }
        self.findings
            .sort_by_cached_key(|finding| (groups.get(&finding.table).copied(), !is_broken(finding)));
        let mut seen = HashSet::new();
        self.findings
            .retain(|finding| seen.insert((finding.finding, finding.table.clone(), finding.what.clone())));
        self
    }
}

impl Watch {
    /// Audits once or repeatedly. Prints the summary, if there is one, and the findings.
    pub(super) async fn run(
        self,
        global: &Global,
        mut audit: impl AsyncFnMut() -> hbase_txn::Result<Audited>,
    ) -> Outcome {
        let Some(every) = &self.watch else {
            let audited = audit().await?.grouped();
            print(global, audited.looked_at)?;
            let findings = audited.findings;
            match global.output {
                Format::Json => findings.iter().try_for_each(output::json)?,
                Format::Table if findings.is_empty() => output::line(&audited.fine)?,
                Format::Table => output::page(&page(&findings))?,
            }
            return Ok(status(&findings));
        };
        let every = every.get("--watch")?;
        if every < Duration::from_secs(1) {
            return Err(Failure::Refused(format!(
                "--watch {}: the shortest interval is 1s",
                durations::shown(every)
            )));
        }
        let mut signals = Signals::listen()?;
        let mut known = None;
        tokio::select! {
            biased;
            ended = watch(global, every, audit, &mut known) => ended?,
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
    mut audit: impl AsyncFnMut() -> hbase_txn::Result<Audited>,
    known: &mut Option<Vec<Finding>>,
) -> Result<(), Failure> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Audited {
            looked_at,
            fine,
            findings,
        } = match audit().await {
            Ok(audited) => audited.grouped(),
            Err(error) => {
                let failure = Failure::from(error);
                output::complain(&format!(
                    "{failure}; the next audit is in {}",
                    durations::shown(every)
                ));
                continue;
            }
        };
        let looked_at = looked_at.filter(|_| known.is_none());
        let printed =
            print(global, looked_at).and_then(|()| print_changes(global, &fine, known.as_deref(), &findings));
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
                output::line(&format!("{gone}: {}", headline(finding)))?;
            }
        }
    }
    let was_fine = known.is_some_and(<[_]>::is_empty);
    if findings.is_empty() && !was_fine && global.output == Format::Table {
        output::line(fine)?;
    }
    Ok(())
}

/// Formats findings that are grouped, and their totals. Findings that have the same reason and the same
/// fix share them, and a reason is given once.
fn page(findings: &[Finding]) -> String {
    let (mut lines, mut reasons) = (Vec::new(), HashSet::new());
    for (index, finding) in findings.iter().enumerate() {
        lines.push(format!("{}: {}", painted(finding.severity), headline(finding)));
        let shares = |next: &Finding| {
            (&next.table, next.finding, &next.why, &next.fix)
                == (&finding.table, finding.finding, &finding.why, &finding.fix)
        };
        if findings.get(index + 1).is_some_and(shares) {
            continue;
        }
        if reasons.insert(&finding.why) {
            lines.push(format!("  why it matters: {}", finding.why));
        }
        lines.push(format!("  fix: {}", finding.fix));
    }
    let broken = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Broken)
        .count();
    let notes = output::counted(findings.len() - broken, "note");
    lines.push(format!("{broken} broken, {notes}"));
    lines.join("\n")
}

/// The table, the name of the finding and the problem.
fn headline(finding: &Finding) -> String {
    let table = finding.table.as_deref().unwrap_or("the cluster");
    format!("{table}: {}: {}", finding.finding, finding.what)
}

fn painted(severity: Severity) -> String {
    let meaning = match severity {
        Severity::Broken => Meaning::Bad,
        _ => Meaning::Notice,
    };
    paint(Target::Stdout, meaning, &severity.to_string())
}

/// Formats a finding. It begins with its severity.
fn text(finding: &Finding) -> String {
    let (text, severity) = (finding.to_string(), finding.severity.to_string());
    match text.strip_prefix(&severity) {
        Some(rest) => painted(finding.severity) + rest,
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
    if findings
        .iter()
        .any(|finding| finding.severity == Severity::Broken)
    {
        Exit::Failed
    } else {
        Exit::Done
    }
}
