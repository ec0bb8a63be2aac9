//! Attributes of a file in HBase's own spelling.

use hbase_client::TableDescriptor;
use hbase_txn::{TableDescriptorExt, lock::LockTableOptions};

use super::{
    faults::Faults,
    section::{Placed, Section},
};
use crate::attribute::{RULE_ATTRIBUTES, TABLE_ATTRIBUTES, names_endpoint, parsed};

/// Table attributes that are set by keys of the file.
pub(super) const BY_KEY: [(&str, &str); 6] = [
    ("SPLIT_ENABLED", "split_enabled"),
    ("MERGE_ENABLED", "merge_enabled"),
    (TableDescriptor::REPLAY_WINDOW, "replay_window"),
    (TableDescriptor::PARTITION_VERSION, "partition_version"),
    (TableDescriptor::CROSS_PARTITION, "cross_partition"),
    (LockTableOptions::COMPANION, "without_java_clients"),
];

/// The attributes of a table.
pub(super) fn of_table(section: Section<'_>, faults: &mut Faults<'_>) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    for (name, value) in section.entries(faults) {
        let refusal = misspelt(&name, &TABLE_ATTRIBUTES).or_else(|| refusal_in_table(name.value, &value));
        add(&mut attributes, name, &value, refusal, faults);
    }
    attributes
}

/// The attributes of a family; those in `by_key` are set by keys of the file.
pub(super) fn of_family(
    section: Section<'_>,
    by_key: &[(&str, &str)],
    faults: &mut Faults<'_>,
) -> Vec<(String, String)> {
    let names: Vec<&str> = by_key.iter().map(|(name, _)| *name).collect();
    let mut attributes = Vec::new();
    for (name, value) in section.entries(faults) {
        let refusal = match by_key.iter().find(|(of_key, _)| *of_key == name.value) {
            Some((_, key)) => Some(format!("{} is set by {key} of the family", name.value)),
            None => misspelt(&name, &names),
        };
        add(&mut attributes, name, &value, refusal, faults);
    }
    attributes
}

/// Adds an attribute in HBase's form, or the reason why it is refused.
fn add(
    attributes: &mut Vec<(String, String)>,
    name: Placed<&str>,
    value: &str,
    refusal: Option<String>,
    faults: &mut Faults<'_>,
) {
    match refusal.map_or_else(|| parsed(name.value, value), Err) {
        Ok(value) => attributes.push((name.value.to_owned(), value.into_owned())),
        Err(reason) => faults.add(name.place, reason),
    }
}

/// HBase silently accepts an attribute that it does not know.
fn misspelt(name: &Placed<&str>, known: &[&str]) -> Option<String> {
    if name.value.is_empty() {
        return Some("an attribute without a name".to_owned());
    }
    known
        .iter()
        .find(|known| known.eq_ignore_ascii_case(name.value) && **known != name.value)
        .map(|known| format!("HBase knows no attribute {}; it is {known}", name.value))
}

fn refusal_in_table(name: &str, value: &str) -> Option<String> {
    if let Some((_, key)) = BY_KEY.iter().find(|(by_key, _)| *by_key == name) {
        return Some(format!("attribute {name} is set by the key {key}"));
    }
    // The choice of a split policy (when to split) is left to the user.
    if RULE_ATTRIBUTES.contains(&name) {
        return Some(format!("attribute {name} is set by [partition]"));
    }
    if names_endpoint(name, value) {
        return Some("MultiRowMutationEndpoint is attached by the key endpoint".to_owned());
    }
    let lossy = ["SKIP_WAL", "ASYNC_WAL"];
    let is_lossy = lossy.iter().any(|lossy| value.trim().eq_ignore_ascii_case(lossy));
    (name == "DURABILITY" && is_lossy).then(|| {
        format!(
            "with DURABILITY {value} a crash would lose committed transactions; it is SYNC_WAL or FSYNC_WAL"
        )
    })
}
