//! The dashboard asks for metrics that exist.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{docs, page};

/// Returns the expressions of all panels.
fn expressions(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap()).collect()
}

/// Returns the names of series in an expression.
fn series(expression: &str) -> BTreeSet<&str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("hbase_")).collect()
}

#[test]
fn each_expression_names_a_metric_of_the_page() {
    let dashboard: Value = serde_json::from_str(&docs("grafana-dashboard.json")).unwrap();
    let (metrics, mut shown) = (page::metrics(), BTreeSet::new());
    for expression in expressions(&dashboard) {
        let series = series(expression);
        assert!(!series.is_empty(), "{expression}");
        for name in series {
            let parts = ["_bucket", "_count", "_sum"];
            let base = parts.iter().find_map(|part| name.strip_suffix(part));
            let of_histogram = base.filter(|base| metrics.get(*base).is_some_and(|kind| kind == "histogram"));
            let metric = of_histogram.unwrap_or(name);
            let kind = metrics
                .get(metric)
                .unwrap_or_else(|| panic!("{name} in {expression}"));
            assert_eq!(
                kind == "histogram",
                of_histogram.is_some(),
                "{name} in {expression}"
            );
            shown.insert(metric.to_owned());
        }
    }
    let hidden: Vec<_> = metrics.keys().filter(|name| !shown.contains(*name)).collect();
    assert!(hidden.is_empty(), "metrics without a panel: {hidden:?}");
}
