//! `table check`: each thing that stops a transaction, on a table that has it.

use hbase_txn::{FamilyDescriptor, PartitionRule, TableDescriptor};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{TestTable, run, run_with_input, with_admin};

const RESTRICTION: &str = "hbase.regionserver.region.split_restriction.type";

/// What a table needs; each case leaves something out, or spoils it.
fn whole(descriptor: TableDescriptor) -> TableDescriptor {
    let rule = PartitionRule::prefix_length(3).unwrap();
    rule.attributes()
        .into_iter()
        .fold(descriptor, |descriptor, (key, value)| {
            descriptor.with_attribute(key, value)
        })
        .with_family(FamilyDescriptor::new("f"))
        .with_multi_row_mutation_endpoint()
        .with_record_family()
}

/// The findings: grade and name.
pub(crate) fn findings(table: &TestTable, code: i32) -> (Vec<(String, String)>, Vec<Value>) {
    let answer = run(&["table", "check", &table.0, "--output", "json"]);
    assert_eq!(answer.code, code, "{answer:?}");
    let objects = answer.objects();
    for object in &objects {
        for key in ["what", "why", "mend"] {
            assert!(
                object[key].as_str().is_some_and(|text| !text.is_empty()),
                "{object}"
            );
        }
        assert_eq!(object["table"], table.0.as_str());
    }
    let text = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
    let names = objects
        .iter()
        .map(|object| (text(object, "grade"), text(object, "finding")));
    (names.collect(), objects)
}

pub(crate) fn named(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names
        .iter()
        .map(|(grade, name)| ((*grade).to_owned(), (*name).to_owned()))
        .collect()
}

#[test]
fn a_plain_table_has_neither_rule_nor_endpoint() {
    let table = TestTable::odd(
        "plain",
        |table| table.with_family(FamilyDescriptor::new("f")),
        &["m"],
    );
    let (names, objects) = findings(&table, 1);
    let expected = [
        ("broken", "rule-missing"),
        ("broken", "endpoint-missing"),
        ("note", "record-family-missing"),
    ];
    assert_eq!(names, named(&expected));
    assert_eq!(
        objects[1]["regions"].as_array().unwrap().len(),
        2,
        "each region is asked"
    );
    run_with_input(&["txn", "apply", &table.0], "{}").refused(1, &["hbase-txn table create"]);
    let page = run(&["table", "check", &table.0]);
    assert!(
        page.code == 1 && page.stdout.contains("what mends it: "),
        "{page:?}"
    );
}

#[test]
fn a_misspelt_rule_is_told_from_a_missing_one() {
    let spoil = |table| whole(table).with_attribute(RESTRICTION, "Keyprefix");
    let table = TestTable::odd("misspelt", spoil, &[]);
    let (names, objects) = findings(&table, 1);
    assert_eq!(names, named(&[("broken", "rule-invalid")]));
    assert!(
        objects[0]["what"].as_str().unwrap().contains("Keyprefix"),
        "{objects:?}"
    );
}

#[test]
fn each_boundary_inside_a_partition_is_named() {
    let table = TestTable::odd("cut", whole, &["ggg", "xxxm", "xxxz", "yyyy"]);
    let (names, objects) = findings(&table, 1);
    assert_eq!(names, named(&[("broken", "boundary-inside-partition"); 3]));
    let partitions: Vec<_> = objects.iter().map(|object| &object["partition"]).collect();
    assert_eq!(partitions, ["xxx", "xxx", "yyy"]);
    assert!(
        objects[0]["mend"].as_str().unwrap().contains("merge_region"),
        "{objects:?}"
    );
    run_with_input(&["txn", "apply", &table.0], "").refused(1, &["partition xxx", "xxxm", "table check"]);
}

#[test]
fn a_table_whose_commits_can_be_lost() {
    let table = TestTable::odd(
        "weak",
        |table| whole(table).with_attribute("DURABILITY", "ASYNC_WAL"),
        &[],
    );
    assert_eq!(findings(&table, 1).0, named(&[("broken", "weak-durability")]));
}

#[test]
fn a_disabled_table() {
    let table = TestTable::odd("disabled", whole, &[]);
    with_admin(async |admin| admin.disable_table(&table.name()).await.unwrap());
    assert_eq!(findings(&table, 1).0, named(&[("broken", "table-disabled")]));
    run(&["get", &table.0, "r"]).refused(1, &["disabled", &table.0]);
    run(&["txn", "apply", &table.0]).refused(1, &["disabled", "enable"]);
}

#[test]
fn a_missing_record_family_is_a_note() {
    let options = ["--family", "f", "--prefix-length", "3", "--no-record-family"];
    let table = TestTable::with("note", &options);
    let (names, objects) = findings(&table, 0);
    assert_eq!(names, named(&[("note", "record-family-missing")]));
    let keys: Vec<_> = objects[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["finding", "grade", "mend", "table", "what", "why"]);
    assert_eq!(objects[0]["grade"], json!("note"));
    run_with_input(&["txn", "apply", &table.0], "").done();
}

#[rstest]
#[case::forgetful(
    "forgetful",
    |table: TableDescriptor| {
        let family = FamilyDescriptor::new(TableDescriptor::RECORD_FAMILY).with_attribute("TTL", "60");
        whole(table).with_family(family)
    },
    "forgets records after 60 s",
    "{NAME => '_txn', TTL => '172800'}"
)]
#[case::window(
    "window",
    |table| whole(table).with_attribute(TableDescriptor::REPLAY_WINDOW, "a day"),
    "a number of seconds, 300 at least",
    "METADATA => {'hbase-txn.replay-window.seconds' => '86400'}"
)]
fn settings_by_which_records_would_be_lost(
    #[case] label: &str,
    #[case] spoil: fn(TableDescriptor) -> TableDescriptor,
    #[case] what: &str,
    #[case] mend: &str,
) {
    let table = TestTable::odd(label, spoil, &[]);
    let (names, objects) = findings(&table, 1);
    assert_eq!(names, named(&[("broken", "records-unusable")]));
    for (key, part) in [("what", what), ("mend", mend)] {
        assert!(objects[0][key].as_str().unwrap().contains(part), "{objects:?}");
    }
    run_with_input(&["txn", "apply", &table.0], "").refused(1, &[what]);
}

#[test]
fn versions_of_partitions_without_a_place() {
    let spoil = |table| whole(table).with_attribute(TableDescriptor::PARTITION_VERSION, "true");
    let table = TestTable::odd("unversioned", spoil, &[]);
    assert_eq!(
        findings(&table, 1).0,
        named(&[("broken", "version-family-missing")])
    );
    run_with_input(&["txn", "apply", &table.0], "").refused(1, &["_version"]);
}
