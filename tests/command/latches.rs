//! `table check` of latch tables: each setting that makes latches unsafe.

use hbase_txn::{client::TableDescriptor, latch::LatchTableOptions};
use rstest::rstest;

use crate::{
    checks::{findings, named},
    harness::TestTable,
};

/// A latch table whose family `C` also has this attribute.
pub(crate) fn with(table: TableDescriptor, attribute: &str, value: &str) -> TableDescriptor {
    let descriptor = LatchTableOptions::from(table.name.clone()).descriptor();
    let family = descriptor.family("C").unwrap().clone();
    descriptor.with_family(family.with_attribute(attribute.to_owned(), value.to_owned()))
}

#[rstest]
#[case::ours("check_latches", |table: TableDescriptor| LatchTableOptions::from(table.name).descriptor(), &[])]
#[case::versions("check_latch_versions", |table| with(table, "VERSIONS", "3"), &[("note", "older-versions-kept")])]
#[ignore = "needs MIN_VERSIONS"]
#[case::min_versions("check_latch_min", |table| with(table, "MIN_VERSIONS", "1"), &[("note", "min-versions")])]
#[ignore = "needs families that keep deleted cells"]
#[case::deleted("check_latch_deleted", |table| with(table, "KEEP_DELETED_CELLS", "TRUE"), &[("note", "deleted-cells-kept")])]
#[case::behavior("check_latch_nvb", |table| with(table, "NEW_VERSION_BEHAVIOR", "true"), &[("note", "new-version-behavior")])]
#[case::replicated("check_latch_replicated", |table| with(table, "REPLICATION_SCOPE", "1"), &[("note", "replicated")])]
#[case::ttl("check_latch_ttl", |table| with(table, "TTL", "60"), &[("note", "family-ttl")])]
fn weaknesses_for_latches_are_noted(
    #[case] label: &str,
    #[case] describe: fn(TableDescriptor) -> TableDescriptor,
    #[case] expected: &[(&str, &str)],
) {
    let table = TestTable::odd(label, describe, &[]);
    assert_eq!(findings(&table, 0).0, named(expected));
}
