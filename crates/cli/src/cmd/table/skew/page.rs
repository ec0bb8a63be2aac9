//! The report as one self-contained HTML page: no network, no script.

use std::{cmp::Reverse, fmt::Display};

use hbase_provision::{PartitionSize, RegionSkew, SizeBucket, SkewReport};

use super::{
    callouts::{self, MARK},
    charts,
    growth::Growth,
    report::ShownReport,
    rows::{Figure, Row, Table, marked},
    svg::{Bar, Escaped},
    words,
};

const STYLE: &str = include_str!("page.css");
/// The maximum number of regions on the page.
const REGIONS: usize = 200;
/// The maximum number of entries in the list of growth.
const GROWN: usize = 10;

pub(super) fn page(view: &ShownReport<'_>) -> String {
    let table = Escaped(&view.report.table);
    let sections = [regions(view), partitions(view), sizes(view.report), growth(view)].concat();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{table}: partitions and regions</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{table}</h1>\n<p class=\"quiet\">Partitions and regions at {}, on <code>{}</code>; {}</p>\n\
         {}{}</header>\n<main>\n{sections}</main>\n{}</body>\n</html>\n",
        words::moment(view.at),
        Escaped(view.cluster),
        Escaped(words::reading(view.report)),
        figures(view),
        callouts(view.report),
        footer(view.report),
    )
}

fn figures(view: &ShownReport<'_>) -> String {
    let ShownReport { report, growth, .. } = view;
    let grown = |text: &dyn Fn(&Growth) -> String| growth.map(text);
    let total = report.total_bytes();
    let largest = report.largest.first().map_or(0, PartitionSize::total_bytes);
    let most = report
        .regions
        .iter()
        .map(RegionSkew::total_bytes)
        .max()
        .unwrap_or(0);
    let since = |text: String| format!("{text} since the last run");
    let (mut partitions, mut regions) = (report.largest.iter(), report.regions.iter());
    let figures = [
        (
            "Rows",
            words::number(report.users.rows),
            grown(&|growth| since(words::signed(growth.rows, words::number))),
            false,
        ),
        (
            "Size of cells",
            words::bytes(total),
            grown(&|growth| since(words::signed(growth.bytes, words::bytes))),
            false,
        ),
        (
            "Partitions",
            words::number(report.partitions),
            grown(&|growth| since(words::signed(growth.partitions, words::number))),
            false,
        ),
        ("Regions", words::number(report.regions.len() as u64), None, false),
        (
            "Largest partition",
            words::share(largest, total),
            Some(words::bytes(largest)),
            partitions.any(|size| callouts::is_large_partition(size, report)),
        ),
        (
            "Largest region",
            words::share(most, total),
            Some(words::bytes(most)),
            regions.any(|region| callouts::is_large_region(region, report)),
        ),
    ];
    let figures = figures.map(|(what, figure, more, wrong)| {
        let figure = if wrong {
            marked(&figure)
        } else {
            Escaped(figure).to_string()
        };
        let more = more.map_or_else(String::new, |more| format!("<small>{more}</small>"));
        format!("<div><dt>{what}</dt><dd>{figure}{more}</dd></div>\n")
    });
    format!("<dl>\n{}</dl>\n", figures.concat())
}

/// Shows what stands out, each with the command to run.
fn callouts(report: &SkewReport) -> String {
    let callouts = callouts::callouts(report);
    if callouts.is_empty() {
        return "<p class=\"fine\">Nothing stands out.</p>\n".to_owned();
    }
    let items = callouts.iter().map(|callout| {
        let (class, mark) = if callout.wrong {
            ("wrong", MARK)
        } else {
            ("note", "")
        };
        format!(
            "<li class=\"{class}\">{mark} {}<code>{}</code></li>\n",
            Escaped(&callout.text),
            Escaped(&callout.command)
        )
    });
    format!("<ul class=\"callouts\">\n{}</ul>\n", items.collect::<String>())
}

fn regions(view: &ShownReport<'_>) -> String {
    let report = view.report;
    let mut shown: Vec<_> = report.regions.iter().enumerate().collect();
    shown.sort_by_key(|(_, region)| Reverse(region.total_bytes()));
    shown.truncate(REGIONS);
    shown.sort_by_key(|(place, _)| *place);
    let which = match report.regions.len() {
        all if all > REGIONS => format!("The {REGIONS} largest of {all} regions, in the order of their keys"),
        _ => "In the order of their keys".to_owned(),
    };
    let next_to = |(place, region): &(usize, &RegionSkew), (next, after): &(usize, &RegionSkew)| {
        place + 1 == *next && region.total_bytes() == 0 && after.total_bytes() == 0
    };
    let rows = shown.chunk_by(next_to).filter_map(|group| {
        let ((_, first), (_, last)) = (group.first()?, group.last()?);
        let mut row = region_row(first, view);
        if group.len() > 1 {
            row.label = key(words::between(&first.region.start_key, &last.region.end_key));
            row.more = words::counted(group.len() as u64, "region");
        }
        Some(row)
    });
    format!(
        "<section>\n<h2>Regions</h2>\n<p class=\"quiet\">{which}. HBase splits a region where the partition in its middle \
         begins.</p>\n{}{}</section>\n",
        legend(charts::region_legend(report)),
        Table::new("region, server", rows)
    )
}

fn region_row(region: &RegionSkew, view: &ShownReport<'_>) -> Row {
    let server = region.server.as_ref();
    let server = server.map_or_else(|| "nowhere".to_owned(), |server| server.address());
    let loads = region.load.as_ref();
    let mib = |figure: Option<u32>| Figure::known(figure.map(u64::from), words::number);
    let mut figures = vec![
        ("size", Figure::of(region.total_bytes(), words::bytes)),
        ("of the table", share(region.total_bytes(), view.report)),
        ("partitions", Figure::of(region.partitions, words::number)),
        ("files (MiB)", mib(loads.map(|load| load.store_files_mib))),
        ("memory (MiB)", mib(loads.map(|load| load.memstore_mib))),
        (
            "reads",
            Figure::known(loads.map(|load| load.reads), words::number),
        ),
        (
            "writes",
            Figure::known(loads.map(|load| load.writes), words::number),
        ),
    ];
    if let Some(growth) = view.growth {
        figures.push(("grown", Figure::grown(growth.of_region(region))));
    }
    Row {
        label: key(words::range(&region.region)),
        wrong: callouts::is_large_region(region, view.report).then_some("too large"),
        more: server,
        bar: charts::region_bar(region, view.report),
        below: words::next_split(region),
        figures,
    }
}

fn partitions(view: &ShownReport<'_>) -> String {
    let report = view.report;
    if report.largest.is_empty() {
        return String::new();
    }
    let rows = report.largest.iter().map(|size| {
        let region = report.regions.get(size.region);
        let region = region.map_or_else(String::new, |region| words::range(&region.region));
        let below = if report.is_sampled() {
            format!("±{}", words::bytes(size.margin_bytes))
        } else {
            String::new()
        };
        let large = callouts::is_large_partition(size, report).then_some("too large");
        Row {
            label: key(words::partition(&size.partition)),
            wrong: if size.cut {
                Some("cut by a boundary")
            } else {
                large
            },
            more: format!("in {region}"),
            bar: charts::partition_bar(size, report),
            below,
            figures: vec![
                ("size", Figure::of(size.total_bytes(), words::bytes)),
                ("of the table", share(size.total_bytes(), report)),
                ("rows", Figure::of(size.users.rows, words::number)),
                ("the toolkit's own", Figure::of(size.reserved.bytes, words::bytes)),
            ],
        }
    });
    format!(
        "<section>\n<h2>The largest partitions</h2>\n<p class=\"quiet\">{} of {}. All rows of a partition are in one region, \
         whatever their number.</p>\n{}{}</section>\n",
        words::number(report.largest.len() as u64),
        words::number(report.partitions),
        legend(charts::partition_legend(report)),
        Table::new("partition, region", rows)
    )
}

fn sizes(report: &SkewReport) -> String {
    if report.histogram.is_empty() {
        return String::new();
    }
    let most = report.histogram.iter().map(|bucket| bucket.partitions).max();
    let empty = |bucket: &SizeBucket, next: &SizeBucket| bucket.partitions == 0 && next.partitions == 0;
    let rows = report.histogram.chunk_by(empty).filter_map(|group| {
        let (bucket, last) = (group.first()?, group.last()?);
        Some(Row {
            label: format!("{} to {}", words::bytes(bucket.from), words::bytes(last.to)),
            bar: charts::size_bar(bucket, most.unwrap_or(0)),
            figures: vec![
                ("partitions", Figure::of(bucket.partitions, words::number)),
                ("together", Figure::of(bucket.bytes, words::bytes)),
                ("of the table", share(bucket.bytes, report)),
            ],
            ..Row::default()
        })
    });
    format!(
        "<section>\n<h2>Partitions by size</h2>\n<p class=\"quiet\">How many there are of each size; each step is four times the \
         one before.</p>\n{}</section>\n",
        Table::new("size", rows)
    )
}

fn growth(view: &ShownReport<'_>) -> String {
    let Some(growth) = view.growth else {
        return "<section>\n<h2>Growth</h2>\n<p class=\"quiet\">This is the first run on this machine; the next one tells what has \
                grown since.</p>\n</section>\n"
            .to_owned();
    };
    let report = view.report;
    let sizes = report.largest.iter();
    let mut grown: Vec<_> = sizes
        .filter_map(|size| Some((size, growth.of_partition(size)?)))
        .filter(|(_, bytes)| *bytes != 0)
        .collect();
    grown.sort_by_key(|(_, bytes)| Reverse(bytes.unsigned_abs()));
    grown.truncate(GROWN);
    let most = grown.first().map_or(0, |(_, bytes)| bytes.unsigned_abs());
    let rows = grown.iter().map(|(size, bytes)| Row {
        label: key(words::partition(&size.partition)),
        bar: charts::growth_bar(*bytes, most),
        figures: vec![
            ("change", Figure::grown(Some(*bytes))),
            ("now", Figure::of(size.total_bytes(), words::bytes)),
        ],
        ..Row::default()
    });
    let table = if grown.is_empty() {
        "<p class=\"quiet\">None of the largest partitions has.</p>\n".to_owned()
    } else {
        format!(
            "<p class=\"quiet\">Those of the largest partitions that have changed most, shrinkage to the left.</p>\n{}",
            Table::new("partition", rows)
        )
    };
    let estimated = if growth.estimated {
        " Not all rows were read both times, so this is an estimate."
    } else {
        ""
    };
    format!(
        "<section>\n<h2>Growth</h2>\n<p class=\"quiet\">What has changed {}: {}, from {} to {}.{estimated}</p>\n\
         {table}</section>\n",
        Escaped(growth.since_text()),
        words::signed(growth.bytes, words::bytes),
        words::bytes(growth.bytes_before()),
        words::bytes(report.total_bytes()),
    )
}

fn footer(report: &SkewReport) -> String {
    let sampled = if report.is_sampled() {
        format!(
            " Each row was read with a chance of {}; all figures of rows and bytes are estimates, ± is right 19 times of 20 where \
             some 30 rows of a partition were read, and partitions of which no row was read are missing.",
            words::percent(report.fraction)
        )
    } else {
        String::new()
    };
    format!(
        "<footer>\n<p>Sizes are those of cells before compression, all versions: what a region's files take is shown as well. \
         Rows that the toolkit keeps for itself (records of transactions, versions, locks) are in the sizes and not in the \
         numbers of rows. This is no snapshot: what was written meanwhile may be in it or not. The middle of a region is that of \
         all its rows; HBase takes that of its largest file.{sampled}</p>\n</footer>\n"
    )
}

/// Formats a key. Keys can have any content, and are escaped only here.
fn key(text: impl Display) -> String {
    format!("<span class=\"key\">{}</span>", Escaped(text))
}

fn share(bytes: u64, report: &SkewReport) -> Figure {
    Figure::of(bytes, |bytes| words::share(bytes, report.total_bytes()))
}

fn legend(entries: impl IntoIterator<Item = (Bar, String)>) -> String {
    let entries = entries.into_iter();
    let entries = entries.map(|(sample, meaning)| format!("<li>{sample}{meaning}</li>"));
    format!("<ul class=\"legend\">{}</ul>\n", entries.collect::<String>())
}
