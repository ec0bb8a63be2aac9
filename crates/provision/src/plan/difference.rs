//! The changes between two descriptors of a table.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_client::{BytesBinary, FamilyDescriptor, TableDescriptor};
use hbase_txn::PartitionRule;

use super::change::{Change, ChangeKind};
use crate::attribute::{Of, names_endpoint};

/// Returns the changes from `found` to `wanted`, without values that HBase treats as equal.
pub(super) fn difference(found: &TableDescriptor, wanted: &TableDescriptor) -> Vec<Change> {
    let mut changes: Vec<Change> = rule(found, wanted).into_iter().collect();
    changes.extend(attributes(found, wanted));
    for family in &wanted.families {
        match found.family(&family.name) {
            Some(found) => {
                changes.extend(family_attributes(wanted, found, family));
                changes.extend(family_configuration(wanted, found, family));
            }
            None => changes.push(Change {
                attributes: shown(&family.attributes),
                configuration: shown_configuration(family),
                ..of_family(wanted, family, ChangeKind::AddFamily)
            }),
        }
    }
    for family in &found.families {
        if wanted.family(&family.name).is_none() {
            changes.push(of_family(wanted, family, ChangeKind::DropFamily));
        }
    }
    changes
}

fn of_family(table: &TableDescriptor, family: &FamilyDescriptor, change: ChangeKind) -> Change {
    Change {
        family: Some(family.to_string()),
        ..Change::new(&table.name, change)
    }
}

fn rule(found: &TableDescriptor, wanted: &TableDescriptor) -> Option<Change> {
    let stated = |table| PartitionRule::from_descriptor(table).ok();
    let (from, to) = (stated(found), stated(wanted)?);
    (from.as_ref() != Some(&to)).then(|| Change {
        from: from.map(|rule| rule.to_string()),
        to: Some(to.to_string()),
        ..Change::new(&wanted.name, ChangeKind::SetRule)
    })
}

fn attributes(found: &TableDescriptor, wanted: &TableDescriptor) -> Vec<Change> {
    let (before, after) = (shown(&found.attributes), shown(&wanted.attributes));
    let changed = changed(Of::Table, &before, &after);
    changed
        .map(|(name, from, to)| {
            let change = match to {
                None => ChangeKind::RemoveAttribute,
                Some(value) if names_endpoint(name, value) => ChangeKind::AttachEndpoint,
                Some(_) => ChangeKind::SetAttribute,
            };
            Change {
                name: Some(name.to_owned()),
                from: from.map(str::to_owned),
                to: to.map(str::to_owned),
                ..Change::new(&wanted.name, change)
            }
        })
        .collect()
}

fn family_attributes(
    table: &TableDescriptor,
    found: &FamilyDescriptor,
    wanted: &FamilyDescriptor,
) -> Vec<Change> {
    let (before, after) = (shown(&found.attributes), shown(&wanted.attributes));
    let changed = changed(Of::Family, &before, &after);
    changed
        .map(|(name, from, to)| Change {
            name: Some(name.to_owned()),
            from: from.map(str::to_owned),
            to: to.or_else(|| Of::Family.default(name)).map(str::to_owned),
            ..of_family(table, wanted, ChangeKind::SetFamilyAttribute)
        })
        .collect()
}

fn family_configuration(
    table: &TableDescriptor,
    found: &FamilyDescriptor,
    wanted: &FamilyDescriptor,
) -> Vec<Change> {
    let (before, after) = (shown_configuration(found), shown_configuration(wanted));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let names = after.keys().chain(gone);
    names
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| Change {
            name: Some(name.clone()),
            from: before.get(name).cloned(),
            to: after.get(name).cloned(),
            ..of_family(
                table,
                wanted,
                if after.contains_key(name) {
                    ChangeKind::SetFamilyConfiguration
                } else {
                    ChangeKind::RemoveFamilyConfiguration
                },
            )
        })
        .collect()
}

/// Returns the names with different values, and both values.
fn changed<'a>(
    of: Of,
    before: &'a BTreeMap<String, String>,
    after: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, Option<&'a str>, Option<&'a str>)> {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    after.keys().chain(gone).filter_map(move |name| {
        let value = |of: &'a BTreeMap<String, String>| of.get(name).map(String::as_str);
        let (from, to) = (value(before), value(after));
        (!of.is_same(name, from, to)).then_some((name.as_str(), from, to))
    })
}

fn shown(attributes: &BTreeMap<Bytes, Bytes>) -> BTreeMap<String, String> {
    attributes
        .iter()
        .map(|(name, value)| (printable(name), printable(value)))
        .collect()
}

/// Returns a text as it is, unless it could control a terminal.
fn printable(text: &[u8]) -> String {
    match std::str::from_utf8(text) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => BytesBinary(text).to_string(),
    }
}

fn shown_configuration(family: &FamilyDescriptor) -> BTreeMap<String, String> {
    let settings = family.configuration.iter();
    settings
        .map(|(name, value)| (printable(name.as_bytes()), printable(value.as_bytes())))
        .collect()
}
