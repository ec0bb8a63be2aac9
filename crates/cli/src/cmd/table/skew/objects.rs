//! The report in JSON: an object for the table, then one for each region, each of the largest
//! partitions, and each size.

use std::io;

use hbase_provision::{NextSplit, PartitionSize, RegionSkew, SizeBucket, SplitPoint};
use hbase_txn::client::BytesBinary;
use serde::Serialize;

use super::{growth::Growth, report::ShownReport};
use crate::output::Lines;

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Object {
    Table {
        table: String,
        fraction: f64,
        rows: u64,
        bytes: u64,
        reserved_rows: u64,
        reserved_bytes: u64,
        margin_bytes: u64,
        partitions: u64,
        regions: usize,
        growth: Option<GrowthObject>,
    },
    Region {
        region: String,
        start: String,
        end: String,
        server: Option<String>,
        store_files_mib: Option<u32>,
        memstore_mib: Option<u32>,
        reads: Option<u64>,
        writes: Option<u64>,
        rows: u64,
        bytes: u64,
        reserved_rows: u64,
        reserved_bytes: u64,
        partitions: u64,
        next_split: &'static str,
        next_split_at: Option<SplitObject>,
        best_split_at: Option<SplitObject>,
        grown_bytes: Option<i64>,
    },
    Partition {
        partition: String,
        lone_row: bool,
        rows: u64,
        bytes: u64,
        reserved_rows: u64,
        reserved_bytes: u64,
        margin_bytes: u64,
        region: Option<String>,
        cut: bool,
        grown_bytes: Option<i64>,
    },
    Size {
        from: u64,
        to: u64,
        partitions: u64,
        bytes: u64,
    },
}

#[derive(Serialize)]
struct GrowthObject {
    since: u64,
    estimated: bool,
    rows: i64,
    bytes: i64,
    partitions: i64,
}

#[derive(Serialize)]
struct SplitObject {
    key: String,
    before: u64,
    after: u64,
}

pub(super) fn print(shown: &ShownReport<'_>) -> io::Result<()> {
    let ShownReport { report, growth, .. } = shown;
    let mut lines = Lines::new();
    lines.json(&Object::Table {
        table: report.table.to_string(),
        fraction: report.fraction,
        rows: report.users.rows,
        bytes: report.users.bytes,
        reserved_rows: report.reserved.rows,
        reserved_bytes: report.reserved.bytes,
        margin_bytes: report.margin_bytes,
        partitions: report.partitions,
        regions: report.regions.len(),
        growth: growth.map(GrowthObject::from),
    })?;
    for region in &report.regions {
        lines.json(&of_region(region, *growth))?;
    }
    for size in &report.largest {
        lines.json(&of_partition(size, report.regions.get(size.region), *growth))?;
    }
    for bucket in &report.histogram {
        lines.json(&of_bucket(bucket))?;
    }
    lines.flush()
}

fn of_region(skew: &RegionSkew, growth: Option<&Growth>) -> Object {
    let load = skew.load.as_ref();
    let (next_split, next_split_at) = match &skew.next_split {
        NextSplit::NoRows => ("no-rows", None),
        NextSplit::OnePartition => ("one-partition", None),
        NextSplit::FirstPartition => ("first-partition", None),
        NextSplit::At(point) => ("at", Some(point)),
        _ => ("other", None),
    };
    Object::Region {
        region: name(skew),
        start: BytesBinary(&skew.region.start_key).to_string(),
        end: BytesBinary(&skew.region.end_key).to_string(),
        server: skew.server.as_ref().map(ToString::to_string),
        store_files_mib: load.map(|load| load.store_files_mib),
        memstore_mib: load.map(|load| load.memstore_mib),
        reads: load.map(|load| load.reads),
        writes: load.map(|load| load.writes),
        rows: skew.users.rows,
        bytes: skew.users.bytes,
        reserved_rows: skew.reserved.rows,
        reserved_bytes: skew.reserved.bytes,
        partitions: skew.partitions,
        next_split,
        next_split_at: next_split_at.map(SplitObject::from),
        best_split_at: skew.best_split.as_ref().map(SplitObject::from),
        grown_bytes: growth.and_then(|growth| growth.of_region(skew)),
    }
}

fn of_partition(size: &PartitionSize, region: Option<&RegionSkew>, growth: Option<&Growth>) -> Object {
    Object::Partition {
        partition: BytesBinary(size.partition.prefix()).to_string(),
        lone_row: size.partition.is_lone_row(),
        rows: size.users.rows,
        bytes: size.users.bytes,
        reserved_rows: size.reserved.rows,
        reserved_bytes: size.reserved.bytes,
        margin_bytes: size.margin_bytes,
        region: region.map(name),
        cut: size.cut,
        grown_bytes: growth.and_then(|growth| growth.of_partition(size)),
    }
}

fn of_bucket(bucket: &SizeBucket) -> Object {
    Object::Size {
        from: bucket.from,
        to: bucket.to,
        partitions: bucket.partitions,
        bytes: bucket.bytes,
    }
}

fn name(skew: &RegionSkew) -> String {
    skew.region.encoded_text()
}

impl From<&Growth> for GrowthObject {
    fn from(growth: &Growth) -> Self {
        Self {
            since: growth.since,
            estimated: growth.estimated,
            rows: growth.rows,
            bytes: growth.bytes,
            partitions: growth.partitions,
        }
    }
}

impl From<&SplitPoint> for SplitObject {
    fn from(point: &SplitPoint) -> Self {
        Self {
            key: BytesBinary(&point.key).to_string(),
            before: point.before,
            after: point.after,
        }
    }
}
