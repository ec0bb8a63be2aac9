//! Settings by name, and the files that have them.

use std::{collections::BTreeMap, fmt::Write as _};

/// Settings by name, as in `hbase-site.xml`.
pub(super) type Properties = BTreeMap<String, String>;

/// All servers use the loopback address, because they must not be reachable from outside, and the
/// name of the machine may not resolve.
pub(super) const LOOPBACK: &str = "127.0.0.1";

/// HBase's root node in ZooKeeper.
pub(super) const ZNODE: &str = "/hbase";

pub(super) fn properties<const N: usize>(pairs: [(&str, String); N]) -> Properties {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

pub(super) fn xml(properties: &Properties) -> String {
    let mut text = String::from("<?xml version=\"1.0\"?>\n<configuration>\n");
    for (key, value) in properties {
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "  <property><name>{}</name><value>{}</value></property>",
            escape(key),
            escape(value)
        );
    }
    text.push_str("</configuration>\n");
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
