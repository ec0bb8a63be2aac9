//! `hbase-txn table repair`.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use hbase_provision::{Repair as Repairs, RepairStep};
use hbase_txn::{
    ClientErrorKind, Error, ErrorKind,
    client::{BytesBinary, RegionInfo, TableName},
};
use serde::Serialize;

use super::rule::Rule;
use crate::{
    cmd::confirm::confirm,
    durations,
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
    progress::Progress,
    values::{self, Ranged},
};

/// Move region boundaries out of partitions
///
/// Merges regions that split a partition, and splits the merged region again at the partition's
/// edge. Then splits off partitions that are so large that HBase can't split their region. Clients
/// may use the table meanwhile. Returns when all steps are done; after an interruption, run it
/// again for the remaining steps. HBase does not change a region again for two minutes after a
/// merge or split, so each step may take that long.
///
/// All regions with rows of a partition become one. Asks before it begins, and refuses a merge that
/// is larger than --max-regions or --max-size: a prefix that is too short would make one region of the
/// whole table.
///
/// A rule on the command line replaces the table's own. Use it if `table alter` can't set a rule
/// because the boundaries contradict it.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table repair orders --plan")]
pub(crate) struct Repair {
    /// Table, with its namespace if it has one
    name: TableName,
    #[command(flatten)]
    rule: Rule,
    /// Print the steps, and change nothing
    #[arg(long)]
    plan: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "plan")]
    yes: bool,
    /// The number of regions that may become one
    #[arg(long, value_name = "N", default_value = "8", allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    max_regions: Ranged<usize>,
    /// The size of regions that may become one, in GiB, as their servers last reported it
    #[arg(long, value_name = "GIB", default_value = "64", allow_negative_numbers = true, value_parser = values::whole::<u32>)]
    max_size: Ranged<u32>,
    /// Repair only the partition with this prefix
    #[arg(long, value_name = "PREFIX", value_parser = values::bytes)]
    partition: Option<Bytes>,
    /// End after N steps
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    max_steps: Option<Ranged<usize>>,
    /// Pause between two steps
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true, value_parser = durations::parse)]
    pause: Ranged<Duration>,
    /// Limit of each step: a merge and a split, or a split
    #[arg(long, value_name = "DURATION", default_value = "10m", allow_hyphen_values = true, value_parser = durations::parse)]
    within: Ranged<Duration>,
}

#[derive(Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
enum StepObject {
    Rejoin {
        partition: String,
        regions: Vec<String>,
        size_mib: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        split_at: Option<String>,
    },
    SplitOff {
        partition: String,
        region: String,
        at: String,
    },
    /// A step that only a later library version knows.
    Other { what: String },
}

impl From<&RepairStep> for StepObject {
    fn from(step: &RepairStep) -> Self {
        let name = |region: &RegionInfo| region.encoded_text();
        match step {
            RepairStep::Rejoin {
                partition,
                regions,
                size_mib,
                split_at,
                ..
            } => Self::Rejoin {
                partition: BytesBinary(partition.prefix()).to_string(),
                regions: regions.iter().map(name).collect(),
                size_mib: *size_mib,
                split_at: split_at.as_ref().map(|key| BytesBinary(key).to_string()),
            },
            RepairStep::SplitOff {
                partition,
                region,
                at,
                ..
            } => Self::SplitOff {
                partition: BytesBinary(partition.prefix()).to_string(),
                region: name(region),
                at: BytesBinary(at).to_string(),
            },
            other => Self::Other {
                what: other.to_string(),
            },
        }
    }
}

#[derive(Serialize)]
struct Done {
    table: String,
    rejoined: usize,
    splits: usize,
}

impl Repair {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let within = self.within.get("--within")?;
        let most_regions = self.max_regions.get("--max-regions")?;
        let most_gib = self.max_size.get("--max-size")?;
        let pause = self.pause.get("--pause")?;
        let most_steps = self.max_steps.map(|steps| steps.get("--max-steps")).transpose()?;
        let connection = global.connect().await?;
        let mut repair = Repairs::new(&connection, &self.name)?
            .patience(within)
            .most_regions(most_regions)
            .most_mib(u64::from(most_gib) << 10)
            .most_steps(most_steps.unwrap_or(usize::MAX))
            .pause(pause);
        if let Some(partition) = &self.partition {
            repair = repair.partition(partition.clone());
        }
        if let Some(rule) = self.rule.stated()? {
            repair = repair.by_rule(rule);
        }
        let steps = repair.plan().await?;
        if self.plan {
            for step in &steps {
                match global.output {
                    Format::Json => output::json(&StepObject::from(step))?,
                    Format::Table => output::line(&step.to_string())?,
                }
            }
            if steps.is_empty() && global.output == Format::Table {
                output::line(&format!("{}: nothing to repair", self.name))?;
            }
            repair.check(&steps).map_err(with_options)?;
            return Ok(Exit::Done);
        }
        repair.check(&steps).map_err(with_options)?;
        if !steps.is_empty() {
            confirm(
                global,
                self.yes,
                &self.name.to_string(),
                &summary(&self.name, &steps),
            )?;
        }
        let progress = Progress::new();
        let repaired = repair.run(|step| progress.step(&step.to_string())).await;
        progress.finish();
        let repaired = repaired.map_err(with_options)?;
        match global.output {
            Format::Json => output::json(&Done {
                table: self.name.to_string(),
                rejoined: repaired.rejoined,
                splits: repaired.splits,
            })?,
            Format::Table => output::line(&format!(
                "{}: {} rejoined, {}",
                self.name,
                output::counted(repaired.rejoined, "partition"),
                output::counted(repaired.splits, "split"),
            ))?,
        }
        Ok(Exit::Done)
    }
}

/// Adds the options that raise the limits.
fn with_options(error: Error) -> Error {
    match (error.kind(), error.hint().map(str::to_owned)) {
        (ErrorKind::Client(ClientErrorKind::LimitExceeded), Some(hint)) => {
            error.with_better_hint(format!("{hint} by --max-regions and --max-size"))
        }
        _ => error,
    }
}

/// What a repair does to a table, before it asks.
fn summary(table: &TableName, steps: &[RepairStep]) -> String {
    let (mut merged, mut largest, mut mib) = (0, 0, 0);
    let mut partitions = 0;
    for step in steps {
        if let RepairStep::Rejoin {
            regions, size_mib, ..
        } = step
        {
            partitions += 1;
            merged += regions.len();
            largest = largest.max(regions.len());
            mib += size_mib;
        }
    }
    let splits = output::counted(steps.len() - partitions, "region");
    match partitions {
        0 => format!("{table}: splits {splits}."),
        _ => format!(
            "{table}: merges {} of {} ({mib} MiB), at most {largest} into one, and splits the results at the partitions' edges; \
             also splits {splits}.",
            output::counted(merged, "region"),
            output::counted(partitions, "partition"),
        ),
    }
}
