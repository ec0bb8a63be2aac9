//! `hbase-txn table repair`.

use std::time::Duration;

use clap::Args;
use hbase_txn::{
    BytesBinary, RegionInfo, TableName,
    provision::{Repair as Repairs, RepairStep},
};
use serde::Serialize;

use super::rule::Rule;
use crate::{
    args::{Format, Global},
    cmd::Outcome,
    durations,
    exit::Exit,
    output,
    progress::Progress,
    values::Ranged,
};

/// Put a table's region boundaries where its partition rule wants them
///
/// Regions that a partition is cut between are merged, and split again at the partition's edge. First partitions so large
/// that HBase can't split their region are split off. Clients may go on meanwhile. It returns when it is done; stopped, and
/// begun again, it goes on. HBase leaves regions that were just merged or split alone for two minutes, so each may take that
/// long.
///
/// With a rule named it works by that, and not by the table's: for a table that is to state it (`table alter`), and can't as
/// long as boundaries contradict it.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table repair orders --plan")]
pub(crate) struct Repair {
    /// The table, with its namespace if it has one
    name: TableName,
    #[command(flatten)]
    rule: Rule,
    /// Only tell what is to be done
    #[arg(long)]
    plan: bool,
    /// How long each step may take: a merge and a split, or a split
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
    /// A step of a later library.
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
        let mut repair = Repairs::new(&connection, self.name.clone()).patience(within);
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
