//! The bars of the page.

use hbase_provision::{NextSplit, PartitionSize, RegionSkew, SizeBucket, SkewReport};

use super::{
    callouts::{self, MARK},
    svg::Bar,
    words,
};

/// Boundaries that are nearer to each other, in percent of the width, can't be distinguished.
const APART: f64 = 1.5;
/// The length of a bar that is not empty is at least this many percent.
const SHORTEST: f64 = 0.3;
const WHOLE: f64 = 100.0;

/// The legend of the bars of regions, of what the report has.
pub(super) fn region_legend(report: &SkewReport) -> Vec<(Bar, String)> {
    let mut regions = report.regions.iter();
    let large = regions.any(|region| callouts::is_large_region(region, report));
    let large = large.then(|| (sample("wrong"), format!("{MARK} much larger than the others")));
    let region = (sample("bar"), "a region, as long as it has bytes".to_owned());
    let edge = (sample("bar").line(50.0, "edge"), "a partition begins".to_owned());
    let split = (
        sample("bar").mark(50.0, "split"),
        "the next split by HBase".to_owned(),
    );
    [Some(region), large, Some(edge), Some(split)]
        .into_iter()
        .flatten()
        .collect()
}

/// The legend of the bars of partitions, of what the report has.
pub(super) fn partition_legend(report: &SkewReport) -> Vec<(Bar, String)> {
    let has = |what: &dyn Fn(&PartitionSize) -> bool| report.largest.iter().any(what);
    let entries = [
        (true, sample("bar"), "rows of users".to_owned()),
        (
            has(&|size| size.reserved.bytes > 0),
            sample("reserved"),
            "the toolkit's own rows".to_owned(),
        ),
        (
            has(&|size| is_wrong(size, report)),
            sample("wrong"),
            format!("{MARK} much larger than the others, or cut by a boundary of regions"),
        ),
        (
            report.is_sampled(),
            sample("bar").span(20.0, 80.0, "margin"),
            "the margin of error".to_owned(),
        ),
    ];
    let shown = entries.into_iter().filter(|(shown, ..)| *shown);
    shown.map(|(_, sample, meaning)| (sample, meaning)).collect()
}

fn is_wrong(size: &PartitionSize, report: &SkewReport) -> bool {
    size.cut || callouts::is_large_partition(size, report)
}

fn sample(class: &str) -> Bar {
    Bar::default().part(0.0, WHOLE, class, "")
}

/// Draws a region, with the beginnings of its partitions, and the next split.
pub(super) fn region_bar(region: &RegionSkew, report: &SkewReport) -> Bar {
    let sizes = report.regions.iter().map(RegionSkew::total_bytes);
    let most = sizes.max().unwrap_or(0);
    let class = if callouts::is_large_region(region, report) {
        "wrong"
    } else {
        "bar"
    };
    let length = length(region.total_bytes(), most);
    let mut bar = Bar::default().part(
        0.0,
        length,
        class,
        &words::counted(region.partitions, "partition"),
    );
    let mut last = 0.0;
    for boundary in &region.boundaries {
        let at = scale(*boundary, most);
        if at - last >= APART && length - at >= APART {
            bar = bar.line(at, "edge");
            last = at;
        }
    }
    match &region.next_split {
        NextSplit::At(point) => bar.mark(scale(point.before, most), "split"),
        _ => bar,
    }
}

/// Draws a partition: users' bytes, then the toolkit's, and the margin of error.
pub(super) fn partition_bar(size: &PartitionSize, report: &SkewReport) -> Bar {
    let sizes = report.largest.iter().map(PartitionSize::total_bytes);
    let most = sizes.max().unwrap_or(0);
    let class = if is_wrong(size, report) { "wrong" } else { "bar" };
    let users = length(size.users.bytes, most);
    let mut bar = Bar::default().part(0.0, users, class, &words::bytes(size.users.bytes));
    if size.reserved.bytes > 0 {
        let title = format!("the toolkit's own: {}", words::bytes(size.reserved.bytes));
        bar = bar.part(users, length(size.reserved.bytes, most), "reserved", &title);
    }
    if size.margin_bytes == 0 {
        return bar;
    }
    let low = size.total_bytes().saturating_sub(size.margin_bytes);
    let high = size.total_bytes().saturating_add(size.margin_bytes);
    bar.span(scale(low, most), scale(high, most).min(WHOLE), "margin")
}

/// Draws the number of partitions of a size.
pub(super) fn size_bar(bucket: &SizeBucket, most: u64) -> Bar {
    Bar::default().part(0.0, length(bucket.partitions, most), "bar", "")
}

/// Draws growth to the right and shrinkage to the left.
pub(super) fn growth_bar(difference: i64, most: u64) -> Bar {
    let middle = WHOLE / 2.0;
    let length = length(difference.unsigned_abs(), most) / 2.0;
    let bar = if difference < 0 {
        Bar::default().part(middle - length, length, "shrunk", "")
    } else {
        Bar::default().part(middle, length, "bar", "")
    };
    bar.mark(middle, "axis")
}

fn scale(bytes: u64, most: u64) -> f64 {
    bytes as f64 / most.max(1) as f64 * WHOLE
}

fn length(bytes: u64, most: u64) -> f64 {
    match bytes {
        0 => 0.0,
        bytes => scale(bytes, most).max(SHORTEST),
    }
}
