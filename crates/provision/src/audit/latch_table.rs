//! Problems of latch tables.

use hbase_client::{TableDescriptor, TableRegion};
use hbase_txn::latch::LatchTableOptions;

use super::{buckets::has_buckets, family::Family, finding::Finding, name::Name};
use crate::command;

/// Whether a table is for latches: it has their buckets, only their families, and nothing that transactions
/// need.
pub(super) fn is_one(descriptor: &TableDescriptor, regions: &[TableRegion]) -> bool {
    let families = [LatchTableOptions::FAMILY, LatchTableOptions::STATE_FAMILY];
    let alone = descriptor.family(LatchTableOptions::FAMILY).is_some()
        && descriptor
            .families
            .iter()
            .all(|family| families.iter().any(|name| family.name == *name));
    alone && has_buckets(descriptor, regions) && !descriptor.names_multi_row_mutation_endpoint()
}

/// Returns the findings from its descriptor.
pub(super) fn findings(descriptor: &TableDescriptor) -> Vec<Finding> {
    let mut findings: Vec<_> = state_family_missing(descriptor).into_iter().collect();
    for family in &descriptor.families {
        let family = Family {
            table: descriptor,
            family,
        };
        findings.extend(ttl(family));
        findings.extend(
            family.older_versions_kept(
                "an older count of a Java client may show again when a newer one expires",
            ),
        );
        findings.extend(family.min_versions("cells of unused latches are never dropped"));
        findings.extend(family.deleted_cells_kept(
            "each latch that is deleted or created again leaves cells behind, and its name becomes slower and slower",
        ));
        findings.extend(family.new_version_behavior(
            "latches that are counted often become slower and slower until the next major compaction; no client needs it",
        ));
        findings.extend(family.replicated(
            "replication is asynchronous: counts of two clusters at the same time are not added up, one of them is lost",
            "and let the farms that share latches use one table",
        ));
    }
    findings
}

fn state_family_missing(descriptor: &TableDescriptor) -> Option<Finding> {
    let name = LatchTableOptions::STATE_FAMILY;
    if descriptor.family(name).is_some() {
        return None;
    }
    let finding = Finding::note(
        Name::StateFamilyMissing,
        format!("the table has no family {name}"),
        "an expired latch reads as absent, the outcome of a count whose answer was lost is unknown, and participants are refused",
    );
    let settings = ["--family", name, "--family-attribute", "S:COMPRESSION=GZ"];
    Some(finding.of_table(&descriptor.name).fixed_by(
        command::alter(&descriptor.name, &settings),
        "then restart the processes that count in it; Java clients do not notice",
    ))
}

fn ttl(family: Family<'_>) -> Option<Finding> {
    let seconds = family.ttl()?;
    Some(family.note(
        Name::FamilyTtl,
        format!("cells of family {} expire after {seconds} s", family.family),
        "no latch of this library can live longer than that, and those of Java clients expire early without an error",
        ("TTL", "FOREVER"),
        "",
    ))
}
