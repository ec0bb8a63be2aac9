//! Merges the statements of a file into an existing table; all other settings stay unchanged.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_client::{BytesBinary, FamilyDescriptor, TableDescriptor};
use hbase_txn::{TableDescriptorExt, lock::LockTableOptions};

use crate::{
    attribute::{Of, RULE_ATTRIBUTES, has_prefix_split_policy, is_of_split_policy, names_endpoint, shown},
    command,
    file::TableFile,
};

/// Returns the descriptor that the table gets. Families that the file does not name are dropped;
/// other attributes are left alone, except those that keys of the file control.
pub(super) fn merged(found: &TableDescriptor, file: &TableFile) -> TableDescriptor {
    let mut wanted = TableDescriptor::from(found.name.clone());
    wanted.attributes = found.attributes.clone();
    wanted.configuration = found.configuration.clone();
    wanted.attributes.retain(|name, _| !is_over(name, file));
    let keeps_policy = keeps_split_policy(found, file);
    for (name, value) in &file.stated.attributes {
        let of_policy = std::str::from_utf8(name).is_ok_and(is_of_split_policy);
        if !(keeps_policy && of_policy) {
            set(&mut wanted.attributes, Of::Table, name, value);
        }
    }
    for stated in &file.stated.families {
        let mut family = found
            .family(&stated.name)
            .cloned()
            .unwrap_or_else(|| FamilyDescriptor::new(stated.name.clone()));
        for (name, value) in &stated.attributes {
            set(&mut family.attributes, Of::Family, name, value);
        }
        family.configuration.extend(stated.configuration.clone());
        wanted = wanted.with_family(family);
    }
    if file.endpoint {
        wanted.with_multi_row_mutation_endpoint()
    } else {
        wanted
    }
}

/// Whether keys of the file control the attribute, and the file does not want it.
fn is_over(name: &Bytes, file: &TableFile) -> bool {
    let of_keys = [TableDescriptor::PARTITION_VERSION, LockTableOptions::COMPANION];
    let stands_for = RULE_ATTRIBUTES.iter().chain(&of_keys).any(|key| name == key);
    stands_for && !file.stated.attributes.contains_key(name)
}

/// Whether the table keeps its split policy, or the site's: the file states no other one than that of its
/// rule, and the split restriction alone keeps partitions whole.
fn keeps_split_policy(found: &TableDescriptor, file: &TableFile) -> bool {
    has_prefix_split_policy(&file.stated) && !has_prefix_split_policy(found)
}

fn set(attributes: &mut BTreeMap<Bytes, Bytes>, of: Of, name: &Bytes, value: &Bytes) {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let found = attributes.get(name).map(text);
    if !of.is_same(&text(name), found.as_deref(), Some(&text(value))) {
        attributes.insert(name.clone(), value.clone());
    }
}

/// A setting of a table that its file does not state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftAlone {
    /// The setting and its value.
    pub(super) what: String,
    /// The command that removes it, or sets HBase's default.
    pub(super) removal: Option<String>,
}

/// Returns the settings of the table that differ from HBase's defaults and that the file does not
/// state.
pub(super) fn left_alone(found: &TableDescriptor, file: &TableFile) -> Vec<LeftAlone> {
    let mut left = Vec::new();
    for (name, value) in &found.attributes {
        let stated = if name == "SPLIT_POLICY" {
            !keeps_split_policy(found, file)
        } else {
            file.stated.attributes.contains_key(name)
        };
        let (name_text, value) = (BytesBinary(name).to_string(), BytesBinary(value).to_string());
        let endpoint = file.endpoint && names_endpoint(&name_text, &value);
        if !stated && !endpoint && !is_over(name, file) && !is_default(Of::Table, &name_text, &value) {
            left.push(LeftAlone {
                what: format!("{name_text} {}", shown(&name_text, &value)),
                removal: Some(command::alter(
                    &found.name,
                    &["--attribute", &format!("{name_text}=")],
                )),
            });
        }
    }
    for family in &found.families {
        let Some(stated) = file.stated.family(&family.name) else {
            continue;
        };
        for (name, value) in &family.attributes {
            let (name_text, value) = (BytesBinary(name).to_string(), BytesBinary(value).to_string());
            if !stated.attributes.contains_key(name) && !is_default(Of::Family, &name_text, &value) {
                left.push(LeftAlone {
                    what: format!("family {family}: {name_text} {}", shown(&name_text, &value)),
                    removal: Of::Family
                        .default(&name_text)
                        .map(|default| command::alter_family(&found.name, family, &name_text, default)),
                });
            }
        }
        for (name, value) in &family.configuration {
            if !stated.configuration.contains_key(name) {
                let (name, value) = (BytesBinary(name.as_bytes()), BytesBinary(value.as_bytes()));
                let setting = format!("{family}:{name}=");
                left.push(LeftAlone {
                    what: format!("family {family}: {name} {value}"),
                    removal: Some(command::alter(&found.name, &["--family-configuration", &setting])),
                });
            }
        }
    }
    left
}

fn is_default(of: Of, name: &str, value: &str) -> bool {
    of.default(name).is_some() && of.is_same(name, None, Some(value))
}
