//! The page `docs/benchmarks.md` and its charts, from reports.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::{
    chart::{self, Bar, Group},
    report::{Interval, Report, VariantReport, WorkloadReport},
    setup::Failure,
    workload::Contestant,
};

const TEMPLATE: &str = include_str!("page.md");

/// The reports of the full form, in the order of the page.
const REPORTS: [&str; 5] = [
    "client.json",
    "client-distributed.json",
    "client-pinned.json",
    "client-kerberos-with-privacy.json",
    "client-tls.json",
];

/// Writes the page and the charts from these reports, or from those of the full form. The charts
/// are those of the first report.
pub(crate) fn write(mut paths: Vec<PathBuf>) -> Result<(), Failure> {
    if paths.is_empty() {
        let full = REPORTS.iter().map(|name| super::reports().join(name));
        paths.extend(full.filter(|path| path.is_file()));
    }
    let reports = paths.into_iter().map(|path| {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(serde_json::from_str::<Report>(&text)?)
    });
    let reports = reports.collect::<Result<Vec<_>, Failure>>()?;
    let first = reports
        .first()
        .ok_or("there is no report; make bench writes it")?;
    let docs = Path::new(env!("REPOSITORY")).join("docs");
    let charts = docs.join("benchmarks");
    fs::create_dir_all(&charts)?;
    for (name, chart) in charts_of(&first.workloads) {
        fs::write(charts.join(name), chart)?;
    }
    let page = TEMPLATE
        .replace("{foreign}", &(100.0 * first.method.max_foreign).to_string())
        .replace("{repeats}", &first.method.max_repeats.to_string())
        .replace(
            "{results}",
            &reports.iter().map(section).collect::<Vec<_>>().join("\n\n"),
        );
    Ok(fs::write(docs.join("benchmarks.md"), page)?)
}

type Figure = fn(&VariantReport) -> Option<f64>;

fn charts_of(workloads: &[WorkloadReport]) -> [(&'static str, String); 4] {
    let draw = |title, wanted: fn(&WorkloadReport) -> bool, figure: Figure, text: fn(f64, &str) -> String| {
        // A new client takes a thousand times as long as a row.
        let compared = |workload: &&WorkloadReport| {
            wanted(workload)
                && workload.id != "connect"
                && workload
                    .variants
                    .iter()
                    .any(|variant| variant.contestant != Contestant::Ours)
        };
        let groups = workloads.iter().filter(compared).map(|workload| {
            let bars = workload.variants.iter().filter_map(|variant| {
                let value = figure(variant)?;
                Some(Bar {
                    contestant: variant.contestant,
                    value,
                    text: text(value, &workload.unit),
                })
            });
            Group {
                label: workload.title.clone(),
                bars: bars.collect(),
            }
        });
        chart::draw(title, &groups.collect::<Vec<_>>())
    };
    [
        (
            "latency.svg",
            draw(
                "Time of a lone call, median (shorter is better)",
                |workload| workload.lone,
                |variant| variant.p50,
                |value, _| format!("{value:.0} µs"),
            ),
        ),
        (
            "throughput.svg",
            draw(
                "Throughput (longer is better)",
                |workload| !workload.lone,
                |variant| Some(variant.rate),
                |value, unit| format!("{} {unit}/s", thousands(value)),
            ),
        ),
        (
            "processor.svg",
            draw(
                "Processor time of the client for a row (shorter is better)",
                |workload| !workload.lone,
                |variant| Some(variant.cpu_per_row),
                |value, _| format!("{value:.2} µs"),
            ),
        ),
        (
            "memory.svg",
            draw(
                "Resident memory of the client (shorter is better)",
                |workload| ["put-512", "bulk", "scan", "commit-50"].contains(&&*workload.id),
                |variant| (variant.contestant != Contestant::Floor).then_some(variant.resident),
                |value, _| format!("{:.0} MB", value / 1e6),
            ),
        ),
    ]
}

/// Returns the tables of one report.
fn section(report: &Report) -> String {
    let (machine, cluster, method) = (&report.machine, &report.cluster, &report.method);
    let mut text = format!(
        "## {}{}{}\n\n| | |\n|---|---|\n",
        match &*cluster.shape {
            "standalone" => "One server".to_owned(),
            shape => format!("A cluster {shape}"),
        },
        if method.pinned { ", pinned" } else { "" },
        report
            .guard
            .as_ref()
            .map_or_else(String::new, |guard| format!(", {guard}")),
    );
    // Writing to a string can't fail.
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "| {name} | {value} |");
    };
    line(
        "machine",
        &format!(
            "{}, {} processors, {:.0} GiB, {}",
            machine.processor, machine.processors, machine.memory_gib, machine.kernel
        ),
    );
    line(
        "HBase",
        &format!(
            "{}, {}; {} regions",
            cluster.hbase, cluster.shape, cluster.regions
        ),
    );
    for (server, options) in &cluster.java_options {
        line(server, &format!("`{options}`"));
    }
    for (contestant, description) in &report.clients {
        line(&contestant.to_string(), description);
    }
    let processors = if method.pinned {
        "; clients on the first processor, servers on the others"
    } else {
        ""
    };
    line(
        "rounds",
        &format!("{} of {} s{processors}", method.rounds, method.seconds),
    );
    let (dropped, disturbed) = report
        .workloads
        .iter()
        .fold((0, 0), |(dropped, disturbed), workload| {
            (dropped + workload.dropped, disturbed + workload.disturbed)
        });
    line(
        "other processes",
        &format!("{dropped} rounds repeated, {disturbed} kept in spite of them"),
    );

    text += "\nThis client's rate divided by that of the others, with 95 % intervals; of lone calls, the times. Higher rates and lower times \
             are better.\n\n| workload | compared | to the Java client | to the floor |\n|---|---|---|---|\n";
    for workload in &report.workloads {
        let to = |contestant| {
            let variant = workload
                .variants
                .iter()
                .skip(1)
                .find(|variant| variant.contestant == contestant);
            variant
                .and_then(|variant| variant.ratio(workload.lone))
                .map_or_else(String::new, ratio)
        };
        let (java, floor) = (to(Contestant::Java), to(Contestant::Floor));
        if !(java.is_empty() && floor.is_empty()) {
            let what = if workload.lone { "time" } else { "rate" };
            let _ = writeln!(text, "| {} | {what} | {java} | {floor} |", workload.title);
        }
    }

    text += "\nAll figures. The processor time is that of the client, for a row; the last column divides this client's rate by that of the \
             line.\n\n| workload | client | rate | p50 | p99 | processor | memory | ratio |\n|---|---|---|---|---|---|---|---|\n";
    for workload in &report.workloads {
        for (index, variant) in workload.variants.iter().enumerate() {
            let title = if index == 0 { &*workload.title } else { "" };
            let rate = variant
                .ratios
                .as_ref()
                .map_or_else(String::new, |ratios| ratio(&ratios.rate));
            let _ = writeln!(
                text,
                "| {title} | {} | {} {}/s | {} | {} | {:.2} µs | {:.0} MB | {rate} |",
                variant.name,
                thousands(variant.rate),
                workload.unit,
                micros(variant.p50),
                micros(variant.p99),
                variant.cpu_per_row,
                variant.resident / 1e6,
            );
        }
    }
    text.trim_end().to_owned()
}

fn ratio(interval: &Interval) -> String {
    format!(
        "{:.2} ({:.2} to {:.2})",
        interval.median, interval.low, interval.high
    )
}

fn micros(time: Option<f64>) -> String {
    match time {
        Some(time) if time >= 10_000.0 => format!("{:.0} ms", time / 1e3),
        Some(time) if time >= 1_000.0 => format!("{:.1} ms", time / 1e3),
        Some(time) => format!("{time:.0} µs"),
        None => String::new(),
    }
}

/// Formats a number of at least a thousand with separators.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
