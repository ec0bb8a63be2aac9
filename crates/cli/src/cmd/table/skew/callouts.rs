//! What stands out in a report, with the commands that change it.

use std::cmp::Reverse;

use hbase_provision::{NextSplit, PartitionSize, RegionSkew, SkewReport};
use hbase_txn::client::BytesBinary;

use super::words;
use crate::hints;

/// The share of a table above which a region or a partition may be too large.
const LARGE: f64 = 0.2;
/// The multiple of the others' average above which a region or a partition may be too large.
const UNEVEN: f64 = 4.0;
/// The share of a region that a split must at least move to help.
const UNEVEN_SPLIT: f64 = 0.1;
/// The number of rows below which one partition is as good as many.
const SEVERAL: u64 = 1_000;
/// The mark of what is wrong, for readers who can't see its colour.
pub(super) const MARK: &str = "▲";

/// A sentence about what stands out, and a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Callout {
    /// Whether something is wrong now, not only if it grows.
    pub(super) wrong: bool,
    pub(super) text: String,
    /// The command that fixes it, or that shows what a fix needs; for a shell.
    pub(super) command: String,
}

/// Whether a region is much larger than the others.
pub(super) fn is_large_region(region: &RegionSkew, report: &SkewReport) -> bool {
    is_large(region.total_bytes(), report.regions.len() as u64, report)
}

/// Whether a partition is much larger than the others.
pub(super) fn is_large_partition(size: &PartitionSize, report: &SkewReport) -> bool {
    is_large(size.total_bytes(), report.partitions, report)
}

/// Whether one of so many parts of a table is much larger than the others. A lone part is not.
fn is_large(bytes: u64, parts: u64, report: &SkewReport) -> bool {
    let total = report.total_bytes();
    let others = total.saturating_sub(bytes) as f64 / parts.saturating_sub(1) as f64;
    parts > 1 && bytes as f64 > LARGE * total as f64 && bytes as f64 > UNEVEN * others
}

/// Whether a split would make two regions of which each has a good part of the rows.
fn has_even_split(region: &RegionSkew) -> bool {
    let smaller = region
        .best_split
        .as_ref()
        .map(|point| point.before.min(point.after));
    smaller.is_some_and(|bytes| bytes as f64 > UNEVEN_SPLIT * region.total_bytes() as f64)
}

/// Returns what stands out, the worst first.
pub(super) fn callouts(report: &SkewReport) -> Vec<Callout> {
    let partitions = report.largest.iter();
    let partitions: Vec<_> = partitions
        .filter(|size| is_large_partition(size, report))
        .collect();
    // A large region that is little more than one large partition is the same problem.
    let is_one = |place: usize, region: &RegionSkew| {
        !has_even_split(region) && partitions.iter().any(|size| size.region == place)
    };
    let mut regions: Vec<_> = report.regions.iter().enumerate().collect();
    regions.retain(|(place, region)| is_large_region(region, report) && !is_one(*place, region));
    regions.sort_by_key(|(_, region)| Reverse(region.total_bytes()));

    let mut callouts: Vec<Callout> = cut(report).into_iter().collect();
    callouts.extend(regions.iter().map(|(_, region)| large_region(region, report)));
    callouts.extend(partitions.iter().map(|size| large_partition(size, report)));
    callouts.extend(only_partition(report));
    callouts.extend(no_split(report));
    callouts
}

fn cut(report: &SkewReport) -> Option<Callout> {
    let mut cut = report.largest.iter().filter(|size| size.cut);
    let (first, others) = (cut.next()?, cut.count());
    let key = words::partition(&first.partition);
    let (which, option) = match others {
        0 => {
            let prefix = hints::word(&BytesBinary(first.partition.prefix()));
            let option = format!(" --partition {prefix}");
            (
                format!("Partition {key} is cut by a boundary of regions: its"),
                option,
            )
        }
        others => {
            let which = format!("Partition {key} and {others} more are cut by boundaries of regions: their");
            (which, String::new())
        }
    };
    Some(Callout {
        wrong: true,
        text: format!("{which} rows can't change together. Move the boundary:"),
        command: format!("{}{option}", on_table("repair", report)),
    })
}

fn large_region(region: &RegionSkew, report: &SkewReport) -> Callout {
    let split = match (&region.next_split, &region.best_split) {
        (NextSplit::FirstPartition, Some(point)) => {
            let why = "HBase can't split it, because the middle lies in its first partition. ";
            Some((why, point))
        }
        (_, point) => point.as_ref().map(|point| ("", point)),
    };
    let (fix, command) = match split {
        Some((why, point)) => {
            let split = format!(
                "{why}Split it at {}, {}:",
                words::key(&point.key),
                words::parts(point)
            );
            (split, split_at(&point.key, report))
        }
        None => (NO_SPLIT_HELPS.to_owned(), on_table("describe", report)),
    };
    Callout {
        wrong: true,
        text: format!(
            "Region {} has {} of the table, {}. {fix}",
            words::range(&region.region),
            words::share(region.total_bytes(), report.total_bytes()),
            words::bytes(region.total_bytes()),
        ),
        command,
    }
}

const NO_SPLIT_HELPS: &str = "A partition is never split: only another table with a finer partition rule spreads its rows. The rule of this one:";

fn large_partition(size: &PartitionSize, report: &SkewReport) -> Callout {
    let region = report.regions.get(size.region);
    // A region that is too large has a callout with the same split.
    let split = region
        .filter(|region| !is_large_region(region, report))
        .and_then(|region| region.best_split.as_ref());
    let (fix, command) = match split {
        Some(point) => {
            let key = words::key(&point.key);
            let fix =
                format!("A partition is never split, but others can leave its region. Split that at {key}:");
            (fix, split_at(&point.key, report))
        }
        None => (NO_SPLIT_HELPS.to_owned(), on_table("describe", report)),
    };
    Callout {
        wrong: true,
        text: format!(
            "Partition {} has {} of the table, {}: all its transactions go to one server. {fix}",
            words::partition(&size.partition),
            words::share(size.total_bytes(), report.total_bytes()),
            words::bytes(size.total_bytes()),
        ),
        command,
    }
}

fn only_partition(report: &SkewReport) -> Option<Callout> {
    let only = report.largest.first()?;
    if report.partitions > 1 || only.users.rows < SEVERAL {
        return None;
    }
    let partition = words::partition(&only.partition);
    Some(Callout {
        wrong: false,
        text: format!("All rows are in one partition, {partition}, and so on one server. {NO_SPLIT_HELPS}"),
        command: on_table("describe", report),
    })
}

/// Regions that HBase will not split when they grow.
fn no_split(report: &SkewReport) -> Option<Callout> {
    let regions = report.regions.iter();
    let stuck = regions
        .filter(|region| region.next_split == NextSplit::FirstPartition && !is_large_region(region, report));
    let (count, bytes) = stuck.fold((0, 0), |(count, bytes), region| {
        (count + 1, bytes + region.total_bytes())
    });
    (count > 0).then(|| Callout {
        wrong: false,
        text: format!(
            "HBase can't split {}, with {} of the table: the middle lies in the first partition. Split what has grown \
             too large:",
            words::counted(count, "region"),
            words::share(bytes, report.total_bytes())
        ),
        command: on_table("repair", report),
    })
}

fn split_at(key: &[u8], report: &SkewReport) -> String {
    format!("{} {}", on_table("split", report), hints::word(&BytesBinary(key)))
}

fn on_table(action: &str, report: &SkewReport) -> String {
    format!("hbase-txn table {action} {}", hints::word(&report.table))
}
