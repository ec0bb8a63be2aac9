//! `table check` of lock tables: each setting that makes locks unsafe.

use hbase_txn::{
    client::{FamilyDescriptor, TableDescriptor},
    lock::LockTableOptions,
};
use rstest::rstest;

use crate::{
    checks::{findings, fix, named},
    harness::{TestTable, run, with_admin},
};

/// A table as the Java library creates it.
fn bare(table: TableDescriptor) -> TableDescriptor {
    table.with_family(FamilyDescriptor::new("D").with_attribute("COMPRESSION", "GZ"))
}

/// A table without Java clients, whose family also has this attribute.
fn with(table: TableDescriptor, attribute: &str, value: &str) -> TableDescriptor {
    let descriptor = LockTableOptions::from(table.name.clone())
        .without_java_clients()
        .descriptor();
    let family = descriptor.family("D").unwrap().clone();
    descriptor.with_family(family.with_attribute(attribute.to_owned(), value.to_owned()))
}

#[rstest]
#[case::ours("check_ours", |table: TableDescriptor| LockTableOptions::from(table.name).without_java_clients().descriptor(), &[])]
#[case::shared(
    "check_shared",
    |table: TableDescriptor| LockTableOptions::from(table.name).descriptor(),
    &[("note", "java-unprotected")]
)]
#[case::protected(
    "check_protected",
    |table: TableDescriptor| LockTableOptions::from(table.name).protect_java_clients().descriptor(),
    &[("note", "new-version-behavior")]
)]
#[case::javas("check_javas", bare, &[("note", "split-restriction-missing"), ("note", "java-unprotected")])]
#[case::versions("check_versions", |table| with(table, "VERSIONS", "3"), &[("note", "older-versions-kept")])]
#[ignore = "needs MIN_VERSIONS"]
#[case::min_versions("check_min", |table| with(table, "MIN_VERSIONS", "1"), &[("note", "min-versions")])]
#[ignore = "needs families that keep deleted cells"]
#[case::deleted("check_deleted", |table| with(table, "KEEP_DELETED_CELLS", "TRUE"), &[("note", "deleted-cells-kept")])]
#[case::replicated("check_replicated", |table| with(table, "REPLICATION_SCOPE", "1"), &[("note", "replicated")])]
#[case::ttl("check_ttl", |table| with(table, "TTL", "60"), &[("note", "family-ttl")])]
fn weaknesses_for_locks_are_noted(
    #[case] label: &str,
    #[case] describe: fn(TableDescriptor) -> TableDescriptor,
    #[case] expected: &[(&str, &str)],
) {
    let table = TestTable::odd(label, describe, &["\0"]);
    let (names, objects) = findings(&table, 0);
    assert_eq!(names, named(expected));
    // One of the two is always noted, with or without NEW_VERSION_BEHAVIOR: the operator chooses.
    let chosen = ["java-unprotected", "new-version-behavior"];
    for object in objects {
        if !chosen.contains(&object["finding"].as_str().unwrap()) {
            fix(&object);
        }
    }
    let left = findings(&table, 0).0;
    assert!(left.iter().all(|(_, name)| chosen.contains(&&**name)), "{left:?}");
}

#[test]
fn a_ttl_shorter_than_java_clients_leases_is_broken() {
    let short =
        |table: TableDescriptor| table.with_family(FamilyDescriptor::new("D").with_attribute("TTL", "60"));
    let table = TestTable::odd("check_short", short, &["\0"]);
    let (names, objects) = findings(&table, 1);
    assert_eq!(
        names[0],
        ("broken".to_owned(), "family-ttl".to_owned()),
        "{objects:?}"
    );
    assert!(
        objects[0]["what"].as_str().unwrap().contains("60 s"),
        "{objects:?}"
    );
}

#[test]
fn boundary_between_the_rows_of_a_lock_is_named_and_refused() {
    // A key after the row of XDC#svc#a and before its companion row separates the two.
    let scratch = crate::client_side::locks::lock_table("check_row");
    let which = ["--client", "svc", "--level", "xdc"];
    run(&[&["lock", "acquire", &scratch.0, "a"], &which[..]].concat()).done();
    let rows = run(&["scan", &scratch.0, "--output", "json"]).objects();
    let row = hbase_txn::client::parse_bytes_binary(rows[0]["row"].as_str().unwrap()).unwrap();
    let cut: &'static [u8] = Box::leak([&row[..], b"b"].concat().into_boxed_slice());
    let table = TestTable(crate::harness::unique_name("check_cut"));
    let descriptor = bare(TableDescriptor::from(table.name()));
    with_admin(async |admin| {
        admin
            .create_table(&descriptor, &[&[0], cut].map(bytes::Bytes::from_static))
            .await
            .unwrap();
    });
    let (names, objects) = findings(&table, 1);
    assert_eq!(names[0], ("broken".to_owned(), "boundary-inside-lock".to_owned()));
    assert!(
        objects[0]["what"].as_str().unwrap().contains("XDC#svc#a"),
        "{objects:?}"
    );
    assert_eq!(objects[0]["regions"].as_array().unwrap().len(), 2);
    run(&[&["lock", "acquire", &table.0, "a", "--timeout", "5s"], &which[..]].concat())
        .refused(1, &["a region boundary lies between the rows of one lock"]);
}

#[test]
fn a_disabled_lock_table_is_broken() {
    let table = TestTable::odd("check_disabled", |table| with(table, "VERSIONS", "1"), &[]);
    with_admin(async |admin| admin.disable_table(&table.name()).await.unwrap());
    assert_eq!(findings(&table, 1).0, named(&[("broken", "table-disabled")]));
}

#[test]
fn transaction_table_with_a_lock_family_is_no_lock_table() {
    let table = TestTable::with("check_txn", &["--family", "D", "--prefix-length", "3"]);
    assert_eq!(run(&["table", "check", &table.0, "--output", "json"]).done(), "");
}
