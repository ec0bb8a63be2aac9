//! Charts of horizontal bars, as SVG for light and dark pages.

use std::{collections::BTreeSet, fmt::Write as _};

use super::workload::Contestant;

/// Bars that are compared with each other. The longest takes the whole width.
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) struct Bar {
    pub(crate) contestant: Contestant,
    pub(crate) value: f64,
    pub(crate) text: String,
}

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 16.0;
const LONGEST: f64 = 560.0;
const THICKNESS: f64 = 14.0;
const LINE: f64 = 22.0;
const GAP: f64 = 12.0;

// The background is drawn, so that texts are readable wherever the picture is.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}\
    .title{font-weight:600;font-size:15px}.page{fill:#fff}\
    .ours{fill:#2f6fde}.java{fill:#d9822b}.floor{fill:#9aa4af}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}\
    .ours{fill:#5b93f5}.java{fill:#e09b4f}.floor{fill:#6e7781}}";

/// Draws a chart. The same groups always give the same bytes.
pub(crate) fn draw(title: &str, groups: &[Group]) -> String {
    let mut body = String::new();
    let mut y = MARGIN + LINE;
    text(&mut body, MARGIN, y - 8.0, "title", title);
    let mut x = MARGIN;
    let bars = groups.iter().flat_map(|group| &group.bars);
    let legend: BTreeSet<_> = bars.map(|bar| bar.contestant).collect();
    for contestant in legend {
        rect(&mut body, (x, y), 12.0, contestant);
        let name = contestant.to_string();
        text(&mut body, x + 18.0, y + 11.0, "", &name);
        x += 40.0 + 8.0 * name.len() as f64;
    }
    y += LINE;
    for group in groups {
        y += GAP;
        text(&mut body, MARGIN, y + 11.0, "", &group.label);
        y += LINE - 4.0;
        let longest = group.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        for bar in &group.bars {
            let width = (LONGEST * bar.value / longest).max(1.0);
            rect(&mut body, (MARGIN, y), width, bar.contestant);
            text(&mut body, MARGIN + width + 8.0, y + 11.0, "", &bar.text);
            y += THICKNESS + 3.0;
        }
    }
    let height = y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n{body}</svg>\n"
    )
}

fn text(body: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    // Writing to a string can't fail.
    let _ = writeln!(
        body,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
    );
}

fn rect(body: &mut String, (x, y): (f64, f64), width: f64, contestant: Contestant) {
    let class = contestant.id();
    let _ = writeln!(
        body,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{THICKNESS}\" rx=\"2\"/>"
    );
}
