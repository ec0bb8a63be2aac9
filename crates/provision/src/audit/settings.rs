//! Attributes and families that prevent some or all transactions on a table.

use hbase_client::{Durability, TableDescriptor};
use hbase_txn::TableDescriptorExt;

use super::{finding::Finding, name::Name};
use crate::command;

/// Returns the findings from its descriptor.
pub(super) fn findings(descriptor: &TableDescriptor) -> Vec<Finding> {
    let mut findings: Vec<_> = feature_unknown(descriptor).into_iter().collect();
    findings.extend(switched_off(descriptor, "SPLIT_ENABLED", "splits"));
    findings.extend(switched_off(descriptor, "MERGE_ENABLED", "merges"));
    findings.extend(read_only(descriptor));
    findings.extend(weak_durability(descriptor));
    findings.extend(record_family_missing(descriptor));
    findings.extend(records_unusable(descriptor));
    findings.extend(version_family_missing(descriptor));
    findings
}

/// Returns a finding for a feature of a newer release that this release would not respect.
pub(super) fn feature_unknown(descriptor: &TableDescriptor) -> Option<Finding> {
    let unknown: Vec<_> = descriptor.unknown_features().collect();
    if unknown.is_empty() {
        return None;
    }
    let finding = Finding::broken(
        Name::FeatureUnknown,
        format!(
            "the table requires {}, which this release does not know",
            unknown.join(", ")
        ),
        "this release does not open or change the table",
    );
    let command = command::of_table("describe", &descriptor.name);
    Some(finding.of_table(&descriptor.name).fixed_by(
        command,
        "shows the required features; use a newer release of this toolkit",
    ))
}

/// Returns a finding for a table that takes no writes.
pub(super) fn read_only(descriptor: &TableDescriptor) -> Option<Finding> {
    let read_only = descriptor.attribute("READONLY")?.eq_ignore_ascii_case("true");
    read_only.then(|| {
        Finding::broken(
            Name::ReadOnly,
            "the table is read-only (READONLY is true)",
            "every write is refused, also those of transactions, locks and latches",
        )
        .of_table(&descriptor.name)
        .fixed_by(
            command::alter(&descriptor.name, &["--attribute", "READONLY=false"]),
            "unless the table should be read-only",
        )
    })
}

fn switched_off(descriptor: &TableDescriptor, attribute: &str, what: &'static str) -> Option<Finding> {
    let off = descriptor.attribute(attribute)?.eq_ignore_ascii_case("false");
    let (name, why) = match what {
        "splits" => (
            Name::SplitsDisabled,
            "its regions grow without limit, and none can be split to fix it",
        ),
        _ => (
            Name::MergesDisabled,
            "a boundary inside a partition can't be removed",
        ),
    };
    off.then(|| {
        Finding::broken(name, format!("the table's {attribute} is false"), why)
            .of_table(&descriptor.name)
            .fixed_by(
                command::alter(&descriptor.name, &[&format!("--{what}"), "on"]),
                "",
            )
    })
}

fn weak_durability(descriptor: &TableDescriptor) -> Option<Finding> {
    let set = match descriptor.durability() {
        Durability::SkipWal => "SKIP_WAL",
        Durability::AsyncWal => "ASYNC_WAL",
        _ => return None,
    };
    let finding = Finding::broken(
        Name::WeakDurability,
        format!("the table's durability is {set}"),
        "a crash would lose committed transactions, so the table is not opened for them",
    );
    let command = command::alter(&descriptor.name, &["--attribute", "DURABILITY=SYNC_WAL"]);
    Some(finding.of_table(&descriptor.name).fixed_by(command, ""))
}

fn record_family_missing(descriptor: &TableDescriptor) -> Option<Finding> {
    let family = TableDescriptor::RECORD_FAMILY;
    if descriptor.family(family).is_some() {
        return None;
    }
    let finding = Finding::note(
        Name::RecordFamilyMissing,
        format!("the table has no family {family}"),
        "transactions with an id are not possible, because there is no place for their records",
    );
    let command = command::alter(&descriptor.name, &["--record-family"]);
    Some(finding.of_table(&descriptor.name).fixed_by(command, ""))
}

/// Returns a finding for settings that would lose records; the table is not opened with them.
fn records_unusable(descriptor: &TableDescriptor) -> Option<Finding> {
    let error = descriptor.replay_window().err()?;
    let attribute = TableDescriptor::REPLAY_WINDOW;
    let mut without = descriptor.clone();
    without.attributes.remove(attribute.as_bytes());
    let command = match without.replay_window() {
        Ok(_) => command::alter(&descriptor.name, &["--attribute", &format!("{attribute}=86400")]),
        Err(_) => command::alter(&descriptor.name, &["--record-family"]),
    };
    let finding = Finding::broken(
        Name::RecordsUnusable,
        error.what(),
        "a transaction with an id could be applied twice if its record is lost, so the table is not opened for transactions",
    );
    Some(finding.of_table(&descriptor.name).fixed_by(command, ""))
}

fn version_family_missing(descriptor: &TableDescriptor) -> Option<Finding> {
    let family = TableDescriptor::VERSION_FAMILY;
    if !descriptor.has_partition_version() || descriptor.family(family).is_some() {
        return None;
    }
    let finding = Finding::broken(
        Name::VersionFamilyMissing,
        format!(
            "the table's attribute {} declares versions of partitions, but there is no family {family} for them",
            TableDescriptor::PARTITION_VERSION
        ),
        "every transaction changes the version of its partition, so the table is not opened for transactions",
    );
    let command = command::alter(&descriptor.name, &["--partition-version"]);
    Some(finding.of_table(&descriptor.name).fixed_by(command, ""))
}
