//! `hbase-txn table repair`.

use std::time::Duration;

use clap::Args;
use hbase_provision::{Repair as Repairs, RepairStep};
use hbase_txn::{BytesBinary, RegionInfo, TableName};
use serde::Serialize;

use super::rule::Rule;
use crate::{
    durations,
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
    progress::Progress,
    values::Ranged,
};

/// Move region boundaries out of partitions
///
/// Merges regions that split a partition, and splits the merged region again at the partition's
/// edge. Then splits off partitions that are so large that HBase can't split their region. Clients
/// may use the table meanwhile. Returns when all steps are done; after an interruption, run it
/// again for the remaining steps. HBase does not change a region again for two minutes after a
/// merge or split, so each step may take that long.
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
                split_at,
                ..
            } => Self::Rejoin {
                partition: BytesBinary(partition.prefix()).to_string(),
                regions: regions.iter().map(name).collect(),
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
        let connection = global.connect().await?;
        let mut repair = Repairs::new(&connection, &self.name)?.patience(within);
        if let Some(rule) = self.rule.stated()? {
            repair = repair.by_rule(rule);
        }
        if self.plan {
            let steps = repair.plan().await?;
            for step in &steps {
                match global.output {
                    Format::Json => output::json(&StepObject::from(step))?,
                    Format::Table => output::line(&step.to_string())?,
                }
            }
            if steps.is_empty() && global.output == Format::Table {
                output::line(&format!("{}: nothing to repair", self.name))?;
            }
            return Ok(Exit::Done);
        }
        let progress = Progress::on_a_terminal();
        let repaired = repair
            .run(|step| {
                if let Some(progress) = &progress {
                    progress.step(&step.to_string());
                }
            })
            .await;
        if let Some(progress) = &progress {
            progress.finish();
        }
        let repaired = repaired?;
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
