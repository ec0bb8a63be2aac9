//! `hbase-txn table skew`.
//!
//! | file | contents |
//! |---|---|
//! | `growth` | the previous run, in a file, and the growth since then |
//! | `bars` | the report for a terminal |
//! | `objects` | the report in JSON |
//! | `callouts` | what stands out, with the commands that change it |
//! | `page` `rows` `charts` `svg` | the report as an HTML page |
//! | `words` | sizes, shares, keys and times for people |

mod bars;
mod callouts;
mod charts;
mod growth;
mod objects;
mod page;
mod report;
mod rows;
mod svg;
#[cfg(test)]
mod tests;
mod words;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use hbase_provision::{Sampling, Skew as Measuring, SkewProgress};
use hbase_txn::client::TableName;

use self::{growth::LastRun, report::ShownReport};
use super::regions_at_once::RegionsAtOnce;
use crate::{
    cmd::whole_file,
    durations,
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
    progress::Progress,
    values::{Ranged, whole},
};

/// Show how a table's rows are spread over its partitions and regions
///
/// Reads all rows, without their values, or a sample of them. Prints the largest partitions, the
/// contents of each region, where HBase could split it, and the growth since the previous run on
/// this machine. Sizes are those of cells before compression; sizes from a sample are estimates.
/// `table check` evaluates the figures.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table skew orders --html orders.html")]
pub(crate) struct Skew {
    /// Table, with its namespace if it has one
    name: TableName,
    /// Fraction of the rows to read, above 0 and up to 1; `auto` reads all of up to 1 GiB, and
    /// about 1 GiB of larger tables
    #[arg(long, value_name = "FRACTION", default_value = "auto", allow_hyphen_values = true, value_parser = sampling)]
    sample: Sampling,
    /// Number of largest partitions to print, and of regions in the table output; at most 1,000
    #[arg(long, value_name = "N", default_value = "20", allow_hyphen_values = true, value_parser = whole::<usize>)]
    top: Ranged<usize>,
    /// File for an HTML page with charts; replaces an existing file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    regions: RegionsAtOnce,
    /// Limit of the whole run
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true, value_parser = durations::parse)]
    within: Ranged<Duration>,
}

impl Skew {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let within = self.within.get("--within")?;
        let top = self.top.get("--top")?;
        let regions_at_once = self.regions.get()?;
        if let Some(path) = &self.html {
            whole_file::check(path)?;
        }
        let connection = global.connect().await?;
        let measuring = Measuring::new(&connection, &self.name)?
            .sampling(self.sample)
            .largest(top)
            .regions_at_once(regions_at_once)
            .patience(within);
        let progress = Progress::on_a_terminal();
        let report = measuring
            .run(|now| {
                if let Some(progress) = &progress {
                    progress.step(&step(now));
                }
            })
            .await;
        if let Some(progress) = &progress {
            progress.finish();
        }
        let report = report?;
        let cluster = connection.config().address().to_string();
        let growth = LastRun::of(&cluster, &report, words::now()).replace_the_one_before();
        let shown = ShownReport {
            report: &report,
            growth: growth.as_ref(),
            cluster: &cluster,
            at: words::now(),
        };
        if let Some(path) = &self.html {
            whole_file::write(path, &page::page(&shown))?;
        }
        match global.output {
            Format::Json => objects::print(&shown)?,
            Format::Table => output::page(&bars::text(&shown, top, bars::width()))?,
        }
        Ok(Exit::Done)
    }
}

fn sampling(text: &str) -> Result<Sampling, String> {
    match text {
        "auto" => Ok(Sampling::Auto),
        number => match number.parse() {
            Ok(fraction) => Ok(Sampling::Fraction(fraction)),
            Err(_) => Err("write auto, or a number such as 0.05".to_owned()),
        },
    }
}

fn step(now: SkewProgress) -> String {
    format!(
        "reading: {} rows, {} of {} regions done",
        words::number(now.rows),
        now.regions_done,
        now.regions
    )
}
