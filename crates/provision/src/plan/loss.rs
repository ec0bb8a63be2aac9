//! Data loss by a change: of cells, of copies of them, or of the guarantees of transactions, records and
//! locks.

use hbase_client::TableDescriptor;
use hbase_txn::{PartitionRule, TableDescriptorExt, lock::LockTableOptions};

use super::change::{Change, ChangeKind};
use crate::attribute::{Of, RULE_ATTRIBUTES, names_endpoint, seconds};

/// Describes the data that a change of an existing table loses. `found` is the table before the
/// change, `wanted` after it.
pub(super) fn of(change: &Change, found: &TableDescriptor, wanted: &TableDescriptor) -> Option<String> {
    match change.change {
        ChangeKind::DropFamily => Some(of_family(change.family.as_deref().unwrap_or_default())),
        ChangeKind::SetFamilyAttribute => of_family_attribute(change),
        ChangeKind::SetRule => of_rule(change, found),
        ChangeKind::SetAttribute | ChangeKind::RemoveAttribute => of_attribute(change, found, wanted),
        _ => None,
    }
}

/// The default of HDFS (`dfs.replication`).
const HDFS_COPIES: u64 = 3;

fn of_family(family: &str) -> String {
    let what = match family {
        TableDescriptor::RECORD_FAMILY => {
            "the records of transactions; a repeated transaction is applied twice (record_family = true keeps it)"
        }
        TableDescriptor::VERSION_FAMILY => {
            "the versions of partitions; updates of open clients fail (partition_version = true keeps it)"
        }
        TableDescriptor::LOCK_FAMILY => {
            "the locks and latches in partitions; held locks become free (lock_family = true keeps it)"
        }
        _ => "all of its cells (name it in the file to keep it)",
    };
    what.to_owned()
}

fn of_family_attribute(change: &Change) -> Option<String> {
    let name = change.name.as_deref()?;
    let value = |value: &Option<String>| {
        let set = value.as_deref().or_else(|| Of::Family.default(name));
        set.unwrap_or_default().to_ascii_uppercase()
    };
    let (from, to) = (value(&change.from), value(&change.to));
    let what = match name {
        "VERSIONS" => "versions beyond that are dropped",
        "MIN_VERSIONS" => "expired versions beyond that are dropped",
        "TTL" => "older cells vanish",
        "KEEP_DELETED_CELLS" => "deleted cells are dropped",
        "REPLICATION_SCOPE" => "later writes are missing in the clusters of peers",
        "DFS_REPLICATION" => "new files have fewer copies in HDFS",
        _ => return None,
    };
    let rank = |value: &str| match name {
        "KEEP_DELETED_CELLS" => ["FALSE", "TTL", "TRUE"]
            .iter()
            .position(|kept| *kept == value)
            .map(|rank| rank as u64),
        "TTL" => seconds(value),
        // 0 is the number of the file system.
        "DFS_REPLICATION" => value
            .parse()
            .ok()
            .map(|copies| if copies == 0 { HDFS_COPIES } else { copies }),
        _ => value.parse().ok(),
    };
    // A value that HBase can't parse counts as the worst case: a loss.
    let lowered = rank(&to).unwrap_or(0) < rank(&from).unwrap_or(u64::MAX);
    lowered.then(|| what.to_owned())
}

/// Records, and locks in partitions, are found by the prefix that the rule defines.
fn of_rule(change: &Change, found: &TableDescriptor) -> Option<String> {
    change.from.as_ref()?;
    let kept = [TableDescriptor::RECORD_FAMILY, TableDescriptor::LOCK_FAMILY];
    let kept: Vec<_> = kept
        .into_iter()
        .filter(|family| found.family(family).is_some())
        .collect();
    (!kept.is_empty()).then(|| {
        format!(
            "the transactions and locks in {} are stored under the old prefixes and no longer found",
            kept.join(" and ")
        )
    })
}

fn of_attribute(change: &Change, found: &TableDescriptor, wanted: &TableDescriptor) -> Option<String> {
    let name = change.name.as_deref()?;
    let has_rule = |table| PartitionRule::from_descriptor(table).is_ok();
    if (RULE_ATTRIBUTES.contains(&name) || name == "SPLIT_POLICY") && has_rule(found) && !has_rule(wanted) {
        return Some(
            "without a partition rule HBase may split partitions, and transactions are refused".to_owned(),
        );
    }
    if let Some(from) = &change.from
        && name.to_ascii_lowercase().starts_with("coprocessor$")
    {
        return match names_endpoint(name, from) {
            true if wanted.names_multi_row_mutation_endpoint() => None,
            true => Some("transactions on the table fail".to_owned()),
            false => Some("the coprocessor no longer sees reads and writes".to_owned()),
        };
    }
    if name == TableDescriptor::CROSS_PARTITION && found.has_cross_partition() {
        let what = "transactions across partitions; a partition that one of them holds can't be changed any more \
                    (cross_partition = true keeps it)";
        return Some(what.to_owned());
    }
    if name == LockTableOptions::COMPANION {
        return Some(
            "clients that have the table open use the old layout, so that a lock may be held twice; stop them first"
                .to_owned(),
        );
    }
    if name == "DURABILITY" {
        let weak = |value: &Option<String>| {
            let value = value.as_deref().unwrap_or_default();
            ["SKIP_WAL", "ASYNC_WAL"]
                .iter()
                .position(|weak| value.eq_ignore_ascii_case(weak))
        };
        let weaker = match (weak(&change.from), weak(&change.to)) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(from), Some(to)) => to < from,
        };
        return weaker.then(|| "a crash loses the latest writes, and transactions are refused".to_owned());
    }
    if name == TableDescriptor::REPLAY_WINDOW && found.family(TableDescriptor::RECORD_FAMILY).is_some() {
        // The default is one day.
        let window = |text: &Option<String>| text.as_deref().map_or(Some(86_400), seconds);
        let shorter = window(&change.to).unwrap_or(0) < window(&change.from).unwrap_or(u64::MAX);
        return shorter
            .then(|| "older transactions are forgotten; a repeated one is applied twice".to_owned());
    }
    None
}
