//! The report for a terminal: text bars, without colours.

use std::{cmp::Reverse, io};

use hbase_provision::SizeBucket;

use super::{
    callouts::{self, MARK},
    report::ShownReport,
    words,
};

/// The width without a terminal.
const WIDTH: usize = 100;
const NARROWEST: usize = 40;
const WIDEST: usize = 160;
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// The maximum length of a bar.
const BAR: usize = 32;

/// A line of a chart: its label, the size of its bar, and the texts beside and below.
struct Bar {
    label: String,
    size: u64,
    beside: Vec<String>,
    below: Option<String>,
}

/// Returns the width of the terminal on stdout.
pub(super) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(WIDTH)
        .clamp(NARROWEST, WIDEST)
}

/// Formats the whole report, with only the largest regions.
pub(super) fn text(view: &ShownReport<'_>, top: usize, width: usize) -> String {
    let report = view.report;
    let mut sections = vec![summary(view)];
    sections.extend(callouts::callouts(report).into_iter().map(|callout| {
        let mark = if callout.wrong { MARK } else { "-" };
        format!("{mark} {}\n    {}", callout.text, callout.command)
    }));
    let regions = region_bars(view, top);
    let title = match report.regions.len() {
        all if all > regions.len() => format!("The {} largest of {all} regions", regions.len()),
        _ => "Regions".to_owned(),
    };
    sections.push(chart(&title, &regions, width));
    if !report.largest.is_empty() {
        let partitions: Vec<_> = partition_bars(view);
        sections.push(chart("The largest partitions", &partitions, width));
        let sizes: Vec<_> = report.histogram.iter().map(size_bar).collect();
        sections.push(chart("Partitions by size", &sizes, width));
    }
    sections.join("\n\n")
}

fn summary(view: &ShownReport<'_>) -> String {
    let report = view.report;
    let mut lines = vec![format!(
        "{}: {} and {} in {} and {}; {}",
        report.table,
        words::counted(report.users.rows, "row"),
        words::bytes(report.total_bytes()),
        words::counted(report.partitions, "partition"),
        words::counted(report.regions.len() as u64, "region"),
        words::reading(report),
    )];
    if report.reserved.rows > 0 {
        lines.push(format!(
            "of this {} are the toolkit's own (records of transactions, versions, locks): {}, not counted as rows",
            words::bytes(report.reserved.bytes),
            words::counted(report.reserved.rows, "row"),
        ));
    }
    if let Some(growth) = view.growth {
        let estimated = if growth.estimated { "; estimated" } else { "" };
        lines.push(format!(
            "{}: {} rows, {}, {} partitions{estimated}",
            growth.since_text(),
            words::signed(growth.rows, words::number),
            words::signed(growth.bytes, words::bytes),
            words::signed(growth.partitions, words::number),
        ));
    }
    lines.join("\n")
}

fn region_bars(view: &ShownReport<'_>, top: usize) -> Vec<Bar> {
    let report = view.report;
    let mut shown: Vec<_> = report.regions.iter().enumerate().collect();
    shown.sort_by_key(|(_, region)| Reverse(region.total_bytes()));
    shown.truncate(top);
    shown.sort_by_key(|(place, _)| *place);
    let bars = shown.into_iter().map(|(_, region)| {
        let size = region.total_bytes();
        let load = region.load.as_ref().map(|load| {
            format!(
                "{} MiB in files, {} MiB in memory, {}, {}",
                words::number(load.store_files_mib.into()),
                words::number(load.memstore_mib.into()),
                words::counted(load.reads, "read"),
                words::counted(load.writes, "write"),
            )
        });
        let server = region
            .server
            .as_ref()
            .map(|server| format!("on {}", server.address()));
        let split = words::next_split(region);
        let below: Vec<_> = [Some(split), load, server].into_iter().flatten().collect();
        Bar {
            label: if callouts::is_large_region(region, report) {
                format!("{} {MARK}", words::range(&region.region))
            } else {
                words::range(&region.region)
            },
            size,
            beside: [
                Some(words::bytes(size)),
                Some(words::share(size, report.total_bytes())),
                Some(words::counted(region.partitions, "partition")),
                view.growth.map(|growth| grown(growth.of_region(region))),
            ]
            .into_iter()
            .flatten()
            .collect(),
            below: Some(below.join("; ")),
        }
    });
    bars.collect()
}

fn partition_bars(view: &ShownReport<'_>) -> Vec<Bar> {
    let report = view.report;
    let bars = report.largest.iter().map(|partition| {
        let size = partition.total_bytes();
        let margin = report
            .is_sampled()
            .then(|| format!("±{}", words::bytes(partition.margin_bytes)));
        Bar {
            label: words::partition(&partition.partition),
            size,
            beside: [
                Some(words::bytes(size)),
                margin,
                Some(words::share(size, report.total_bytes())),
                Some(words::counted(partition.users.rows, "row")),
                view.growth.map(|growth| grown(growth.of_partition(partition))),
            ]
            .into_iter()
            .flatten()
            .collect(),
            below: partition
                .cut
                .then(|| "a boundary of regions cuts it: see `hbase-txn table repair`".to_owned()),
        }
    });
    bars.collect()
}

fn size_bar(bucket: &SizeBucket) -> Bar {
    Bar {
        label: format!("from {}", words::bytes(bucket.from)),
        size: bucket.partitions,
        beside: vec![
            words::counted(bucket.partitions, "partition"),
            format!("{} together", words::bytes(bucket.bytes)),
        ],
        below: None,
    }
}

fn grown(bytes: Option<i64>) -> String {
    bytes.map_or_else(
        || "new here".to_owned(),
        |bytes| words::signed(bytes, words::bytes),
    )
}

/// Formats labels, bars and the texts beside them in columns.
fn chart(title: &str, bars: &[Bar], width: usize) -> String {
    let cells = |text: &str| text.chars().count();
    let label = bars.iter().map(|bar| cells(&bar.label)).max().unwrap_or(0);
    let columns = bars.iter().map(|bar| bar.beside.len()).max().unwrap_or(0);
    let beside: Vec<usize> = (0..columns)
        .map(|column| {
            let texts = bars.iter().filter_map(|bar| bar.beside.get(column));
            texts.map(|text| cells(text)).max().unwrap_or(0)
        })
        .collect();
    let taken: usize = label + 4 + beside.iter().map(|column| column + 2).sum::<usize>();
    let room = width.saturating_sub(taken).clamp(4, BAR);
    let most = bars.iter().map(|bar| bar.size).max().unwrap_or(0);
    let mut lines = vec![title.to_owned()];
    for bar in bars {
        let mut line = format!("  {:label$}  {}", bar.label, block(bar.size, most, room));
        for (text, width) in bar.beside.iter().zip(&beside) {
            line.push_str(&format!("  {text:>width$}"));
        }
        lines.push(line.trim_end().to_owned());
        lines.extend(bar.below.iter().map(|below| format!("    {below}")));
    }
    lines.join("\n")
}

/// Formats a bar to the eighth of a column. A size above 0 is always visible.
fn block(size: u64, most: u64, room: usize) -> String {
    let eighths = match most {
        0 => 0,
        most => (size as f64 / most as f64 * (room * 8) as f64).round() as usize,
    };
    let eighths = eighths.max(usize::from(size > 0)).min(room * 8);
    let mut bar = "█".repeat(eighths / 8);
    if eighths % 8 > 0 {
        bar.push(EIGHTHS[eighths % 8]);
    }
    format!("{bar:room$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share_of_the_longest() {
        assert_eq!(block(10, 10, 4), "████");
        assert_eq!(block(5, 10, 4), "██  ");
        assert_eq!(block(3, 16, 4), "▊   ");
        assert_eq!(block(1, 1_000_000, 4), "▏   ");
        assert_eq!(block(0, 10, 2), "  ");
        assert_eq!(block(0, 0, 2), "  ");
    }

    #[test]
    fn columns_stand_below_each_other_and_fit() {
        let bar = |label: &str, size: u64| Bar {
            label: label.to_owned(),
            size,
            beside: vec![size.to_string()],
            below: None,
        };
        let chart = chart("title", &[bar("a", 1), bar("bbb", 100)], 20);
        assert_eq!(chart, "title\n  a    ▏           1\n  bbb  ████████  100");
        assert!(chart.lines().all(|line| line.chars().count() <= 20));
    }
}
