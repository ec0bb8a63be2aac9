//! The report as one self-contained HTML page: no network, no script.

use std::{cmp::Reverse, fmt::Display};

use hbase_provision::{NextSplit, PartitionSize, RegionSkew, SkewReport};

use super::{
    charts,
    growth::Growth,
    report::ShownReport,
    svg::{Escaped, Svg},
    words,
};

const STYLE: &str = include_str!("page.css");
/// The maximum number of regions in the table; the chart shows all.
const REGIONS: usize = 200;
/// The maximum number of entries in the list of growth.
const GROWN: usize = 10;
/// The share of a table above which a partition is mentioned first.
const LARGE: f64 = 0.2;
/// The multiple of the median region's size above which a region is mentioned first.
const UNEVEN: u64 = 4;

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
        notes(view.report),
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
    let figures = [
        (
            "Rows",
            words::number(report.users.rows),
            grown(&|growth| since(words::signed(growth.rows, words::number))),
        ),
        (
            "Size of cells",
            words::bytes(total),
            grown(&|growth| since(words::signed(growth.bytes, words::bytes))),
        ),
        (
            "Partitions",
            words::number(report.partitions),
            grown(&|growth| since(words::signed(growth.partitions, words::number))),
        ),
        ("Regions", words::number(report.regions.len() as u64), None),
        (
            "Largest partition",
            words::share(largest, total),
            Some(words::bytes(largest)),
        ),
        (
            "Largest region",
            words::share(most, total),
            Some(words::bytes(most)),
        ),
    ];
    let figures = figures.map(|(what, figure, more)| {
        let more = more.map_or_else(String::new, |more| format!("<small>{more}</small>"));
        format!("<div><dt>{what}</dt><dd>{figure}{more}</dd></div>\n")
    });
    format!("<dl>\n{}</dl>\n", figures.concat())
}

/// Returns the most important notes.
fn notes(report: &SkewReport) -> String {
    let total = report.total_bytes();
    let repair = format!("<code>hbase-txn table repair {}</code>", Escaped(&report.table));
    let mut notes = Vec::new();
    if let Some(largest) = report.largest.first()
        && report.partitions > 1
        && largest.total_bytes() as f64 > LARGE * total as f64
    {
        notes.push(format!(
            "Partition {} has {} of the table. A partition is never split: it always is one server's.",
            key(words::partition(&largest.partition)),
            words::share(largest.total_bytes(), total)
        ));
    }
    let cut = report.largest.iter().filter(|size| size.cut).count();
    if cut > 0 {
        notes.push(format!(
            "{} of the largest partitions cut by a boundary of regions: its rows can't change together. {repair} fixes it.",
            if cut == 1 { "One is".to_owned() } else { format!("{cut} are") }
        ));
    }
    let of = |next: &NextSplit| {
        let regions = report.regions.iter().filter(|region| region.next_split == *next);
        regions.fold((0, 0), |(count, bytes), region| {
            (count + 1, bytes + region.total_bytes())
        })
    };
    let (count, bytes) = of(&NextSplit::FirstPartition);
    if count > 0 {
        notes.push(format!(
            "{}, with {} of the table, HBase can't split by itself, because the middle lies in the first partition. \
             {repair} splits those that have grown too large; a boundary to split at manually is below.",
            words::counted(count, "region"),
            words::share(bytes, total)
        ));
    }
    let (count, bytes) = of(&NextSplit::OnePartition);
    if count > 0 {
        notes.push(format!(
            "{}, with {} of the table, can't be split at all, with only one partition. Only a finer prefix, in a new \
             table, helps what has grown too large.",
            words::counted(count, "region"),
            words::share(bytes, total)
        ));
    }
    let mut sizes: Vec<_> = report.regions.iter().map(RegionSkew::total_bytes).collect();
    sizes.sort_unstable();
    if let (Some(most), Some(median)) = (sizes.last(), sizes.get(sizes.len() / 2))
        && sizes.len() > 2
        && *most > UNEVEN * (*median).max(1)
    {
        notes.push(format!(
            "The largest region has {}, the one in the middle of all {}.",
            words::bytes(*most),
            words::bytes(*median)
        ));
    }
    if notes.is_empty() {
        return "<ul class=\"notes\">\n<li class=\"fine\">Nothing stands out.</li>\n</ul>\n".to_owned();
    }
    let items: String = notes.iter().map(|note| format!("<li>{note}</li>\n")).collect();
    format!("<ul class=\"notes\">\n{items}</ul>\n")
}

fn regions(view: &ShownReport<'_>) -> String {
    let report = view.report;
    let legend = charts::LOOKS.map(|(class, meaning)| {
        let mut sample = Svg::new(12.0, 12.0, "");
        sample.rect((0.0, 0.0), (12.0, 12.0), class, "");
        format!("<li>{sample}{meaning}</li>")
    });
    let mut shown: Vec<_> = report.regions.iter().enumerate().collect();
    shown.sort_by_key(|(_, region)| Reverse(region.total_bytes()));
    shown.truncate(REGIONS);
    shown.sort_by_key(|(place, _)| *place);
    let caption = match report.regions.len() {
        all if all > REGIONS => format!("The {REGIONS} largest of {all} regions, in their order"),
        _ => "In their order. Files and memory in MiB as the servers say, requests since a region was opened"
            .to_owned(),
    };
    let rows: String = shown.iter().map(|(_, region)| region_row(region, view)).collect();
    let grown = view.growth.map(|_| number_head("grown")).unwrap_or_default();
    format!(
        "<section>\n<h2>Regions</h2>\n<p class=\"quiet\">As wide as they have bytes, in the order of their keys, cut where \
         partitions begin. HBase splits where the partition in the middle begins.</p>\n\
         <figure>{}</figure>\n<ul class=\"legend\">{}</ul>\n\
         <div class=\"scroll\"><table>\n<caption>{caption}</caption>\n<thead><tr>\
         <th scope=\"col\">region, server</th>{}{grown}{}{}{}{}{}<th scope=\"col\">the next split</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n</section>\n",
        charts::region_map(report),
        legend.concat(),
        number_head("size"),
        number_head("partitions"),
        number_head("files"),
        number_head("memory"),
        number_head("reads"),
        number_head("writes"),
    )
}

fn region_row(region: &RegionSkew, view: &ShownReport<'_>) -> String {
    let total = view.report.total_bytes();
    let server = region
        .server
        .as_ref()
        .map_or_else(|| "nowhere".to_owned(), |server| server.address());
    let load = |figure: Option<u64>| number_cell(figure.map_or_else(|| "–".to_owned(), words::number));
    let loads = region.load.as_ref();
    let grown = view.growth.map(|growth| grown_cell(growth.of_region(region)));
    let point = match &region.next_split {
        NextSplit::At(point) => Some(point),
        _ => region.best_split.as_ref(),
    };
    let bar = point.map(|point| charts::split_bar(point, charts::look(region)).to_string());
    format!(
        "<tr><th scope=\"row\">{}<br><small class=\"quiet\">{}</small></th>{}{}{}{}{}{}{}<td class=\"split\">{}<small>{}</small></td></tr>\n",
        key(words::range(&region.region)),
        Escaped(server),
        number_cell(format!(
            "{}<br><small>{}</small>",
            words::bytes(region.total_bytes()),
            words::share(region.total_bytes(), total)
        )),
        grown.unwrap_or_default(),
        number_cell(words::number(region.partitions)),
        load(loads.map(|load| load.store_files_mib.into())),
        load(loads.map(|load| load.memstore_mib.into())),
        load(loads.map(|load| load.reads)),
        load(loads.map(|load| load.writes)),
        bar.unwrap_or_default(),
        Escaped(words::next_split(region)),
    )
}

fn partitions(view: &ShownReport<'_>) -> String {
    let report = view.report;
    if report.largest.is_empty() {
        return String::new();
    }
    let most = report
        .largest
        .iter()
        .map(PartitionSize::total_bytes)
        .max()
        .unwrap_or(0);
    let rows = report.largest.iter().map(|size| {
        let region = report.regions.get(size.region);
        let region = region.map_or_else(String::new, |region| words::range(&region.region));
        let cut = if size.cut {
            "<br><small>cut by a boundary</small>"
        } else {
            ""
        };
        let margin = match report.is_sampled() {
            true => format!("<br><small>±{}</small>", words::bytes(size.margin_bytes)),
            false => String::new(),
        };
        format!(
            "<tr><th scope=\"row\">{}{cut}</th><td class=\"chart\">{}</td>{}{}{}{}<td>{}</td></tr>\n",
            key(words::partition(&size.partition)),
            charts::partition_bar(size, most),
            number_cell(format!("{}{margin}", words::bytes(size.total_bytes()))),
            number_cell(words::share(size.total_bytes(), report.total_bytes())),
            number_cell(words::number(size.users.rows)),
            number_cell(words::bytes(size.reserved.bytes)),
            key(region),
        )
    });
    let rows: String = rows.collect();
    format!(
        "<section>\n<h2>The largest partitions</h2>\n<p class=\"quiet\">{} of {}. All rows of a partition are in one region, \
         whatever their number.</p>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">partition</th><td></td>{}{}{}{}\
         <th scope=\"col\">region</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n</section>\n",
        words::number(report.largest.len() as u64),
        words::number(report.partitions),
        number_head("size"),
        number_head("of the table"),
        number_head("rows"),
        number_head("the toolkit's own"),
    )
}

fn sizes(report: &SkewReport) -> String {
    if report.histogram.is_empty() {
        return String::new();
    }
    let rows = report.histogram.iter().map(|bucket| {
        format!(
            "<tr><th scope=\"row\">{} to {}</th>{}{}{}</tr>\n",
            words::bytes(bucket.from),
            words::bytes(bucket.to),
            number_cell(words::number(bucket.partitions)),
            number_cell(words::bytes(bucket.bytes)),
            number_cell(words::share(bucket.bytes, report.total_bytes())),
        )
    });
    let rows: String = rows.collect();
    format!(
        "<section>\n<h2>Partitions by size</h2>\n<p class=\"quiet\">How many there are of each size; each step is four times the \
         one before.</p>\n<figure>{}</figure>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">size</th>{}{}{}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n</section>\n",
        charts::histogram(report),
        number_head("partitions"),
        number_head("together"),
        number_head("of the table"),
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
    let rows = grown.iter().map(|(size, bytes)| {
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"chart\">{}</td>{}{}</tr>\n",
            key(words::partition(&size.partition)),
            charts::growth_bar(*bytes, most),
            grown_cell(Some(*bytes)),
            number_cell(words::bytes(size.total_bytes())),
        )
    });
    let rows: String = rows.collect();
    let table = match rows.is_empty() {
        true => "<p class=\"quiet\">None of the largest partitions has.</p>\n".to_owned(),
        false => format!(
            "<div class=\"scroll\"><table>\n<caption>Those of the largest partitions that have changed most</caption>\n<thead><tr>\
             <th scope=\"col\">partition</th><td></td>{}{}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
            number_head("change"),
            number_head("now"),
        ),
    };
    let estimated = match growth.estimated {
        true => " Not all rows were read both times, so this is an estimate.",
        false => "",
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
    let sampled = match report.is_sampled() {
        true => format!(
            " Each row was read with a chance of {}; all figures of rows and bytes are estimates, ± is right 19 times of 20 where \
             some 30 rows of a partition were read, and partitions of which no row was read are missing.",
            words::percent(report.fraction)
        ),
        false => String::new(),
    };
    format!(
        "<footer>\n<p>Sizes are those of cells before compression, all versions: what a region's files take is view beside. \
         Rows that the toolkit keeps for itself (records of transactions, versions, locks) are in the sizes and not in the \
         numbers of rows. This is no snapshot: what was written meanwhile may be in it or not. The middle of a region is that of \
         all its rows; HBase takes that of its largest file.{sampled}</p>\n</footer>\n"
    )
}

/// Formats a key. Keys can have any content, and are escaped only here.
fn key(text: impl Display) -> String {
    format!("<span class=\"key\">{}</span>", Escaped(text))
}

fn number_head(title: &str) -> String {
    format!("<th scope=\"col\" class=\"number\">{title}</th>")
}

fn number_cell(figure: impl Display) -> String {
    format!("<td class=\"number\">{figure}</td>")
}

fn grown_cell(bytes: Option<i64>) -> String {
    number_cell(bytes.map_or_else(|| "new".to_owned(), |bytes| words::signed(bytes, words::bytes)))
}
