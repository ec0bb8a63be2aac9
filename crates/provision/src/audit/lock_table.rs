//! Problems of lock tables.

use std::num::NonZeroUsize;

use hbase_client::{BytesBinary, TableDescriptor, TableRegion};
use hbase_txn::{
    PartitionRule,
    lock::{LockName, LockTableOptions},
};

use super::{
    buckets::has_buckets,
    family::Family,
    finding::{Finding, Severity},
    name::Name,
};
use crate::command;

/// The default lease of Java clients, in seconds.
const JAVA_LEASE: u64 = 90;

/// Whether a table is for locks: it has their buckets, only their family, and nothing that transactions need.
pub(super) fn is_one(descriptor: &TableDescriptor, regions: &[TableRegion]) -> bool {
    let alone = matches!(&descriptor.families[..], [family] if family.name == LockTableOptions::FAMILY);
    alone && has_buckets(descriptor, regions) && !descriptor.names_multi_row_mutation_endpoint()
}

/// Returns the findings from its descriptor and its regions.
pub(super) fn findings(descriptor: &TableDescriptor, regions: &[TableRegion]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let companions = LockTableOptions::has_companions(descriptor);
    if companions {
        findings.extend(boundaries(descriptor, regions));
        findings.extend(restriction_missing(descriptor));
    }
    if let Some(family) = descriptor.family(LockTableOptions::FAMILY) {
        let family = Family {
            table: descriptor,
            family,
        };
        let audit = Audit { family, companions };
        findings.extend(audit.ttl());
        findings.extend(family.older_versions_kept(
            "when the lease of a dead holder expires before an older one, the older holder may appear again",
        ));
        findings.extend(family.min_versions("cells of unused locks are never dropped"));
        findings.extend(family.deleted_cells_kept(
            "each release leaves deleted cells behind, and the lock becomes slower and slower",
        ));
        findings.extend(family.new_version_behavior(
            "locks that are acquired often become slower and slower until the next major compaction; only Java clients need \
             it, to be protected from each other",
        ));
        findings.extend(audit.java_unprotected());
        findings.extend(family.replicated(
            "replication is asynchronous: the same lock, of level xdc too, can be held in each cluster at once",
            "and let the farms that share locks use one table",
        ));
    }
    findings
}

fn boundaries(descriptor: &TableDescriptor, regions: &[TableRegion]) -> Vec<Finding> {
    // The table may state no rule, and a repair does not guess one.
    let one_byte = PartitionRule::PrefixLength(NonZeroUsize::MIN);
    let repair = command::repair_by(&descriptor.name, &one_byte);
    let names = |region: &TableRegion| region.region.encoded_text();
    let neighbours = regions.iter().zip(regions.iter().skip(1));
    neighbours
        .filter_map(|(before, after)| {
            let boundary = &after.region.start_key;
            let lock = LockName::cut_by(boundary)?;
            let key = BytesBinary(lock.key().as_bytes()).to_string();
            let finding = Finding::broken(
                Name::BoundaryInsideLock,
                format!(
                    "the region boundary {} is between the two rows of lock {key}",
                    BytesBinary(boundary)
                ),
                "they can't change together, so the lock can't be acquired",
            );
            Some(
                finding
                    .of_table(&descriptor.name)
                    .in_regions(vec![names(before), names(after)])
                    .fixed_by(repair.clone(), ""),
            )
        })
        .collect()
}

fn restriction_missing(descriptor: &TableDescriptor) -> Option<Finding> {
    if PartitionRule::from_descriptor(descriptor).is_ok() {
        return None;
    }
    let finding = Finding::note(
        Name::SplitRestrictionMissing,
        "the table has no split restriction of one byte",
        "a region may be split between the two rows of a lock, which then can't be acquired",
    );
    let command = command::alter(&descriptor.name, &["--prefix-length", "1"]);
    Some(finding.of_table(&descriptor.name).fixed_by(command, ""))
}

/// The checks of the family's settings.
struct Audit<'a> {
    family: Family<'a>,
    companions: bool,
}

impl Audit<'_> {
    fn ttl(&self) -> Option<Finding> {
        let seconds = self.family.ttl()?;
        let severity = if self.companions && seconds < JAVA_LEASE {
            Severity::Broken
        } else {
            Severity::Note
        };
        let why = match severity {
            Severity::Broken => {
                "a lock of a Java client, with its default lease of 90 s, is free before its lease ends; other clients can't get longer leases"
            }
            Severity::Note => {
                "no lock can be held longer than that, even if it is renewed, and fencing numbers may start again after it"
            }
        };
        Some(Finding {
            severity,
            ..self.family.note(
                Name::FamilyTtl,
                format!("cells of family {} expire after {seconds} s", self.family.family),
                why,
                ("TTL", "FOREVER"),
                "",
            )
        })
    }

    fn java_unprotected(&self) -> Option<Finding> {
        if !self.companions || self.family.is_on("NEW_VERSION_BEHAVIOR") {
            return None;
        }
        Some(self.family.note(
            Name::JavaUnprotected,
            format!("family {} has no NEW_VERSION_BEHAVIOR", self.family.family),
            "two Java clients may both hold a lock if one acquires it in the millisecond of its release; clients of this library \
             are not affected",
            ("NEW_VERSION_BEHAVIOR", "true"),
            "if Java clients use the table; it makes hot locks slower. Without Java clients, a table created with --no-java-clients is faster",
        ))
    }
}
