//! The contents of a file that describes a table: what the other files of this folder parse.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_client::{BytesBinary, FamilyDescriptor, TableDescriptor};
use hbase_txn::{
    Error, JAVA_REGIONS, PartitionRule, Result, TableDescriptorExt, latch::LatchTableOptions,
    lock::LockTableOptions,
};

use super::{attributes, family, kind::TableKind};
use crate::attribute::{Of, RULE_ATTRIBUTES, duration_text, names_endpoint, seconds};

/// Returns the contents of a file for a table of this kind and these split keys. A setting that a
/// file can't state is left out, or makes the file invalid.
pub(crate) fn contents(table: &TableDescriptor, kind: TableKind, split_keys: &[Bytes]) -> Result<String> {
    let free = free_attributes(&table.attributes, |name, value| {
        RULE_ATTRIBUTES.contains(&name)
            || name == "SPLIT_POLICY" && value.ends_with("KeyPrefixRegionSplitPolicy")
            || attributes::BY_KEY.iter().any(|(key, _)| *key == name)
            || names_endpoint(name, value)
            || is_default(Of::Table, name, value)
    })?;
    let families: Vec<_> = match kind {
        TableKind::Transactions => table.families.iter().collect(),
        // The kind determines the families.
        TableKind::Locks | TableKind::Latches => Vec::new(),
    };
    let of_family = |family: &FamilyDescriptor| {
        free_attributes(&family.attributes, |name, value| {
            family::BY_KEY.iter().any(|(key, _)| *key == name) || is_default(Of::Family, name, value)
        })
    };
    let families: Vec<_> = families
        .into_iter()
        .filter(|family| !TableDescriptor::reserves_family(&family.name))
        .map(|family| Ok((family, of_family(family)?)))
        .collect::<Result<_>>()?;
    let mut lines = vec![format!("table = {}", quoted(&table.name.to_string()))];
    match kind {
        TableKind::Transactions => {}
        TableKind::Locks => lines.push("kind = \"locks\"".to_owned()),
        TableKind::Latches => lines.push("kind = \"latches\"".to_owned()),
    }
    if table.name.namespace() != "default" {
        lines.push("create_namespace = true".to_owned());
    }
    match kind {
        TableKind::Transactions => transactions(&mut lines, table, split_keys),
        TableKind::Locks | TableKind::Latches => buckets(&mut lines, table, kind, split_keys.len() + 1),
    }
    for (family, free) in families {
        of_one_family(&mut lines, family);
        section(&mut lines, "family.attributes", &free);
        section(&mut lines, "family.configuration", &family.configuration);
    }
    section(&mut lines, "attributes", &free);
    Ok(lines.join("\n") + "\n")
}

/// Adds the keys of a table for transactions, except its families.
fn transactions(lines: &mut Vec<String>, table: &TableDescriptor, split_keys: &[Bytes]) {
    let has = |family: &str| table.family(family).is_some();
    let is_on = |name: &str| {
        let value = table.attribute(name);
        !value.is_some_and(|value| value.eq_ignore_ascii_case("false"))
    };
    for (key, value, default) in [
        ("endpoint", table.names_multi_row_mutation_endpoint(), true),
        ("record_family", has(TableDescriptor::RECORD_FAMILY), true),
        ("partition_version", table.has_partition_version(), false),
        ("cross_partition", table.has_cross_partition(), false),
        ("lock_family", has(TableDescriptor::LOCK_FAMILY), false),
        ("split_enabled", is_on("SPLIT_ENABLED"), true),
        ("merge_enabled", is_on("MERGE_ENABLED"), true),
    ] {
        if value != default {
            lines.push(format!("{key} = {value}"));
        }
    }
    if let Some(window) = table.attribute(TableDescriptor::REPLAY_WINDOW) {
        lines.push(format!("replay_window = {}", time(window)));
    }
    let rule = match PartitionRule::from_descriptor(table) {
        Ok(PartitionRule::PrefixLength(length)) => Some(format!("prefix_length = {length}")),
        Ok(PartitionRule::Delimiter(delimiter)) => Some(format!("delimiter = {}", literal(&delimiter))),
        // The file is refused for the missing rule.
        Err(_) => None,
    };
    lines.extend(rule.map(|rule| format!("\n[partition]\n{rule}")));
    if !split_keys.is_empty() {
        lines.push("\n[split]\nkeys = [".to_owned());
        lines.extend(split_keys.iter().map(|key| format!("    {},", literal(key))));
        lines.push("]".to_owned());
    }
}

/// Adds the keys of a table for locks or latches.
fn buckets(lines: &mut Vec<String>, table: &TableDescriptor, kind: TableKind, regions: usize) {
    lines.push(format!("regions = {}", regions.min(JAVA_REGIONS)));
    if kind == TableKind::Latches {
        if table.family(LatchTableOptions::STATE_FAMILY).is_none() {
            lines.push("state_family = false".to_owned());
        }
        return;
    }
    if !LockTableOptions::has_companions(table) {
        lines.push("without_java_clients = true".to_owned());
    }
    let family = table.family(LockTableOptions::FAMILY);
    let protects = family.and_then(|family| family.attribute("NEW_VERSION_BEHAVIOR"));
    if protects.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        lines.push("protect_java_clients = true".to_owned());
    }
}

/// Adds a family, except its free attributes.
fn of_one_family(lines: &mut Vec<String>, family: &FamilyDescriptor) {
    lines.push(format!("\n[[family]]\nname = {}", literal(&family.name)));
    for (name, key) in family::BY_KEY {
        let Some(value) = family.attribute(name) else {
            continue;
        };
        if is_default(Of::Family, name, value) {
            continue;
        }
        // A value of another form is quoted, and refused by the parser.
        let plain = match name {
            "VERSIONS" | "MIN_VERSIONS" | "BLOCKSIZE" | "REPLICATION_SCOPE" => {
                value.parse().ok().map(|number: u64| number.to_string())
            }
            "BLOCKCACHE" | "IN_MEMORY" | "NEW_VERSION_BEHAVIOR" => {
                Some(value.to_ascii_lowercase()).filter(|flag| ["true", "false"].contains(&flag.as_str()))
            }
            "TTL" => Some(time(value)),
            _ => Some(quoted(&value.to_ascii_uppercase())),
        };
        lines.push(format!("{key} = {}", plain.unwrap_or_else(|| quoted(value))));
    }
}

/// Adds a section of attributes or of a configuration, if there are any.
fn section(lines: &mut Vec<String>, name: &str, attributes: &BTreeMap<String, String>) {
    if !attributes.is_empty() {
        lines.push(format!("\n[{name}]"));
    }
    lines.extend(
        attributes
            .iter()
            .map(|(name, value)| format!("{} = {}", key(name), quoted(value))),
    );
}

/// Returns the attributes as text, except those for which `is_stated` is true.
fn free_attributes(
    attributes: &BTreeMap<Bytes, Bytes>,
    is_stated: impl Fn(&str, &str) -> bool,
) -> Result<BTreeMap<String, String>> {
    let mut free = BTreeMap::new();
    for (name, value) in attributes {
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            return Err(Error::invalid(format!(
                "attribute {} is {}, which is not UTF-8",
                BytesBinary(name),
                BytesBinary(value)
            )));
        };
        if !is_stated(name, value) {
            free.insert(name.to_owned(), value.to_owned());
        }
    }
    Ok(free)
}

fn is_default(of: Of, name: &str, value: &str) -> bool {
    of.default(name).is_some() && of.is_same(name, None, Some(value))
}

/// Writes a number of seconds in the largest unit that divides it.
fn time(value: &str) -> String {
    match seconds(value) {
        Some(seconds) => quoted(&duration_text(seconds)),
        None => quoted(value),
    }
}

/// Writes bytes in the notation of HBase's shell, in single quotes.
fn literal(bytes: &[u8]) -> String {
    format!("'{}'", BytesBinary(bytes).to_string().replace('\'', r"\x27"))
}

/// Writes a key, in quotes if it needs them.
fn key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || ['_', '-'].contains(&letter);
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// Writes a basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => quoted += &format!("\\u{:04X}", u32::from(control)),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
