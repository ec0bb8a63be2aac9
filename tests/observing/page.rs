//! The metrics that `docs/observing.md` explains.

use std::collections::BTreeMap;

use crate::docs;

/// Returns the metrics in the tables of the page, with their kinds.
pub(crate) fn metrics() -> BTreeMap<String, String> {
    let page = docs("observing.md");
    let rows = page.lines().filter(|line| line.starts_with("| `hbase_"));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let name = cells.next().unwrap().trim_matches('`').to_owned();
        (name, cells.next().unwrap().to_owned())
    })
    .collect()
}

#[test]
fn page_has_metrics_of_each_kind() {
    let metrics = metrics();
    for kind in ["counter", "gauge", "histogram"] {
        assert!(metrics.values().any(|found| found == kind), "{kind}: {metrics:?}");
    }
}
