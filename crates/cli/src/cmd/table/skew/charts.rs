//! The charts of the page.

use hbase_provision::{NextSplit, PartitionSize, RegionSkew, SkewReport, SplitPoint};

use super::{
    svg::{Anchor, Svg},
    words,
};

const WIDTH: f64 = 1_040.0;
/// Boundaries that are nearer to each other can't be distinguished.
const APART: f64 = 4.0;
/// Narrower regions are drawn as one.
const NARROW: f64 = 1.5;
/// The width of a letter in a label.
const LETTER: f64 = 7.0;

/// The classes of regions, and their meanings.
pub(super) const LOOKS: [(&str, &str); 3] = [
    ("splits", "HBase can split it"),
    ("by-hand", "only manually: the middle lies in its first partition"),
    ("one", "can't be split: one partition"),
];

/// Returns the class of a region.
pub(super) fn look(region: &RegionSkew) -> &'static str {
    let [(splits, _), (by_hand, _), (one, _)] = LOOKS;
    match region.next_split {
        NextSplit::OnePartition => one,
        NextSplit::FirstPartition => by_hand,
        _ => splits,
    }
}

/// Draws the regions side by side, with widths in proportion to their bytes, and the boundaries of
/// partitions.
pub(super) fn region_map(report: &SkewReport) -> Svg {
    const TOP: f64 = 4.0;
    const HEIGHT: f64 = 56.0;
    let mut svg = Svg::new(
        WIDTH,
        92.0,
        "The regions side by side, as wide as they have bytes; the table below has the figures",
    );
    let total = report.total_bytes().max(1) as f64;
    let x_of = |bytes: u64| bytes as f64 / total * WIDTH;
    let (mut begin, mut label_end, mut narrow): (u64, f64, Option<(u64, usize)>) = (0, 0.0, None);
    let draw_narrow = |svg: &mut Svg, narrow: &mut Option<(u64, usize)>, end: u64| {
        if let Some((start, regions)) = narrow.take() {
            let title = format!(
                "{} that are too small to be drawn",
                words::counted(regions as u64, "region")
            );
            let size = (x_of(end) - x_of(start), HEIGHT);
            svg.rect((x_of(start), TOP), size, "many", &title);
        }
    };
    for region in &report.regions {
        let bytes = region.total_bytes();
        let (x, width) = (x_of(begin), x_of(bytes));
        if width < NARROW {
            narrow.get_or_insert((begin, 0)).1 += 1;
            begin += bytes;
            continue;
        }
        draw_narrow(&mut svg, &mut narrow, begin);
        let range = words::range(&region.region);
        let title = format!(
            "{range}\n{} ({}), {}\nnext split: {}",
            words::bytes(bytes),
            words::share(bytes, report.total_bytes()),
            words::counted(region.partitions, "partition"),
            words::next_split(region),
        );
        let gap = if width > 4.0 { 2.0 } else { 0.5 };
        svg.rect((x, TOP), (width - gap, HEIGHT), look(region), &title);
        let mut last = x;
        for at in &region.boundaries {
            let cut = x + x_of(*at);
            if cut - last >= APART && x + width - gap - cut >= APART {
                svg.line((cut, TOP), (cut, TOP + HEIGHT), "cut");
                last = cut;
            }
        }
        let label = match region.region.start_key.is_empty() {
            true => "-∞".to_owned(),
            false => words::key(&region.region.start_key),
        };
        let label_width = label.chars().count() as f64 * LETTER + 10.0;
        if x >= label_end && label_width <= width.max(label_width.min(48.0)) && x + label_width <= WIDTH {
            svg.line((x + 0.5, TOP + HEIGHT), (x + 0.5, TOP + HEIGHT + 8.0), "tick");
            svg.text((x, TOP + HEIGHT + 23.0), Anchor::Start, &label);
            label_end = x + label_width;
        }
        begin += bytes;
    }
    draw_narrow(&mut svg, &mut narrow, begin);
    svg
}

/// Draws the number of partitions of each size.
pub(super) fn histogram(report: &SkewReport) -> Svg {
    const BASE: f64 = 170.0;
    const HIGHEST: f64 = 140.0;
    const WIDEST: f64 = 96.0;
    let mut svg = Svg::new(WIDTH, 200.0, "How many partitions there are of which size");
    let most = report.histogram.iter().map(|bucket| bucket.partitions).max();
    let most = most.unwrap_or(0).max(1) as f64;
    let step = (WIDTH / report.histogram.len().max(1) as f64).min(WIDEST);
    for (place, bucket) in report.histogram.iter().enumerate() {
        let x = place as f64 * step;
        let height = bucket.partitions as f64 / most * HIGHEST;
        // A number above 0 is always visible.
        let height = if bucket.partitions > 0 {
            height.max(2.0)
        } else {
            0.0
        };
        let title = format!(
            "{} from {} to {}, {} together",
            words::counted(bucket.partitions, "partition"),
            words::bytes(bucket.from),
            words::bytes(bucket.to),
            words::bytes(bucket.bytes)
        );
        let middle = x + step / 2.0;
        svg.rect((x + 4.0, BASE - height), (step - 8.0, height), "bar", &title);
        svg.text(
            (middle, BASE - height - 6.0),
            Anchor::Middle,
            &words::number(bucket.partitions),
        );
        // Centred, the first label would not fit into the picture.
        let anchor = if place == 0 { Anchor::Start } else { Anchor::Middle };
        svg.text((x, BASE + 20.0), anchor, &edge(bucket.from));
    }
    if let Some(last) = report.histogram.last() {
        let end = report.histogram.len();
        svg.text((end as f64 * step, BASE + 20.0), Anchor::End, &edge(last.to));
        svg.line((0.0, BASE + 0.5), (end as f64 * step, BASE + 0.5), "axis");
    }
    svg
}

/// Formats the size between two bars.
fn edge(size: u64) -> String {
    words::bytes(size).replace(".0 ", " ")
}

/// Draws a bar for a table cell: users' bytes, then the toolkit's, and the margin of error.
pub(super) fn partition_bar(size: &PartitionSize, most: u64) -> Svg {
    const LONG: f64 = 240.0;
    const HIGH: f64 = 14.0;
    let mut svg = Svg::new(LONG, HIGH, "");
    let scale = |bytes: u64| bytes as f64 / most.max(1) as f64 * LONG;
    let users = scale(size.users.bytes);
    svg.rect((0.0, 1.0), (users.max(1.0), HIGH - 2.0), "bar", "");
    if size.reserved.bytes > 0 {
        let title = format!("of the toolkit's own: {}", words::bytes(size.reserved.bytes));
        let reserved = scale(size.reserved.bytes);
        svg.rect((users, 1.0), (reserved.max(1.0), HIGH - 2.0), "reserved", &title);
    }
    if size.margin_bytes > 0 {
        let low = scale(size.total_bytes().saturating_sub(size.margin_bytes));
        let high = scale(size.total_bytes().saturating_add(size.margin_bytes)).min(LONG);
        svg.line((low, HIGH / 2.0), (high, HIGH / 2.0), "margin");
    }
    svg
}

/// Draws both halves of a region and its middle.
pub(super) fn split_bar(point: &SplitPoint, class: &str) -> Svg {
    const LONG: f64 = 120.0;
    const HIGH: f64 = 18.0;
    const BAR: (f64, f64) = (4.0, 10.0);
    let mut svg = Svg::new(LONG, HIGH, "");
    let whole = (point.before + point.after).max(1) as f64;
    let at = point.before as f64 / whole * LONG;
    svg.rect((0.0, BAR.0), ((at - 1.0).max(0.0), BAR.1), class, "");
    svg.rect((at + 1.0, BAR.0), ((LONG - at - 1.0).max(0.0), BAR.1), class, "");
    svg.line((LONG / 2.0, 0.0), (LONG / 2.0, HIGH), "middle");
    svg
}

/// Draws growth to the right and shrinkage to the left.
pub(super) fn growth_bar(difference: i64, most: u64) -> Svg {
    const LONG: f64 = 240.0;
    const HIGH: f64 = 14.0;
    let mut svg = Svg::new(LONG, HIGH, "");
    let middle = LONG / 2.0;
    let length = difference.unsigned_abs() as f64 / most.max(1) as f64 * middle;
    let begin = if difference < 0 { middle - length } else { middle };
    let class = if difference < 0 { "shrunk" } else { "grown" };
    svg.rect((begin, 1.0), (length, HIGH - 2.0), class, "");
    svg.line((middle, 0.0), (middle, HIGH), "axis");
    svg
}
