//! Conditions and ids of `txn apply`, and `txn outcome`.

use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Answer, TestTable, run, run_with_input};

fn apply(table: &TestTable, lines: &str) -> Answer {
    run_with_input(&["txn", "apply", &table.0, "--output", "json"], lines)
}

fn condition(label: &str, row: &str, op: &str, value: Option<&str>) -> Value {
    let mut condition = json!({"label": label, "row": row, "family": "f", "qualifier": "q", "op": op});
    if let Some(value) = value {
        condition["value"] = value.into();
    }
    condition
}

fn put(row: &str, value: &str) -> Value {
    json!({"op": "put", "row": row, "family": "f", "qualifier": "q", "value": value})
}

/// Returns the only answer, without the error.
#[track_caller]
fn answered(answer: &Answer, code: i32) -> Value {
    assert_eq!(answer.code, code, "{answer:?}");
    let mut objects = answer.objects();
    assert_eq!(objects.len(), 1, "{answer:?}");
    objects.remove(0)
}

#[test]
fn a_line_is_applied_only_if_its_conditions_hold() {
    let table = TestTable::new("conditions");
    let taken = condition("it is free", "xxxabc", "absent", None);
    let line = json!({"prefix": "xxx", "conditions": [taken], "mutations": [put("xxxabc", r"v\x00"), put("xxx2", "w")]})
        .to_string();
    let done = apply(&table, &line);
    assert_eq!(
        done.stdout,
        "{\"line\":1,\"prefix\":\"xxx\",\"outcome\":\"committed\",\"rows\":2}\n"
    );
    let refused = apply(&table, &line);
    assert_eq!(refused.code, 3, "{refused:?}");
    let expected = r#"{"line":1,"prefix":"xxx","outcome":"rejected","rows":2,"failed":[{"label":"it is free","row":"xxxabc","found":"v\\x00"}]}"#;
    assert_eq!(refused.stdout.trim_end(), expected);
    let people = run_with_input(&["txn", "apply", &table.0], &line);
    assert_eq!(
        people.stdout,
        "line 1: partition xxx, 2 rows, rejected: not met: it is free (found v\\x00)\n"
    );
}

#[test]
fn assertion_names_all_failed_conditions() {
    let table = TestTable::new("assertion");
    run(&["put", &table.0, "xxx1", "f:q=m"]).done();
    let nothing = json!({"conditions": [condition("", "xxx1", "present", None)]});
    let conditions = [
        condition("holds", "xxx1", "equal", Some("m")),
        condition("smaller", "xxx1", "less", Some("m")),
        condition("there", "xxx2", "present", None),
        condition("other", "xxx2", "not_equal", Some("m")),
    ];
    let failing = json!({"prefix": "xxx", "conditions": conditions});
    let done = answered(&apply(&table, &nothing.to_string()), 0);
    assert_eq!(
        done,
        json!({"line": 1, "prefix": "xxx", "outcome": "committed", "rows": 0})
    );
    let found = answered(&apply(&table, &failing.to_string()), 3);
    let failed = json!([
        {"label": "smaller", "row": "xxx1", "found": "m"},
        {"label": "there", "row": "xxx2", "found": null}
    ]);
    assert_eq!(found["failed"], failed);
    // A condition without a label is described.
    let line = r#"{"conditions":[{"op":"absent","row":"xxx1","family":"f","qualifier":"q"}]}"#;
    assert_eq!(
        answered(&apply(&table, line), 3)["failed"][0]["label"],
        "xxx1 f:q absent"
    );
}

#[rstest]
#[case("absent", None, "", true)]
#[case("absent", None, "m", false)]
#[case("present", None, "", false)]
#[case("present", None, "m", true)]
#[case("equal", Some("m"), "m", true)]
#[case("equal", Some("m"), "z", false)]
#[case("not_equal", Some("m"), "m", false)]
#[case("not_equal", Some("m"), "", true)]
#[case("less", Some("m"), "a", true)]
#[case("less", Some("m"), "m", false)]
#[case("less_or_equal", Some("m"), "m", true)]
#[case("less_or_equal", Some("m"), "z", false)]
#[case("greater", Some("m"), "z", true)]
#[case("greater", Some("m"), "", false)]
#[case("greater_or_equal", Some("m"), "m", true)]
#[case("greater_or_equal", Some("m"), "a", false)]
fn the_stored_value_stands_left_of_the_operator(
    #[case] op: &str,
    #[case] value: Option<&str>,
    #[case] stored: &str,
    #[case] holds: bool,
) {
    let table = TestTable::new(op);
    run(&["put", &table.0, "xxx1", &format!("f:q={stored}")]).done();
    let line = json!({"conditions": [condition("", "xxx1", op, value)]}).to_string();
    assert_eq!(apply(&table, &line).code, if holds { 0 } else { 3 });
}

#[test]
fn conditions_over_two_partitions_are_refused() {
    let table = TestTable::new("whole");
    let mut elsewhere = condition("odd", "xxx2", "absent", None);
    elsewhere["family"] = "nope".into();
    let lines = [
        json!({"id": "1", "mutations": [put("xxx1", "v"), put("yyy1", "v")]}),
        json!({"conditions": [condition("", "yyy1", "absent", None)], "mutations": [put("xxx1", "v")]}),
        json!({"conditions": [condition("", "xxx2", "equal", Some(""))], "mutations": [put("xxx1", "v")]}),
        json!({"conditions": [elsewhere]}),
        // Too short to share a partition with a record.
        json!({"id": "1", "mutations": [put("xx", "v")]}),
    ];
    let why = [
        "line 1: row xxx1 is in partition xxx, row yyy1 in partition yyy; what has an `id` or `conditions` is one transaction",
        "line 2: row xxx1 is in partition xxx, row yyy1 in partition yyy",
        "a comparison with an empty value, which counts as absent",
        "condition odd, table TABLE, row xxx2: the table has no family nope; it has f",
        "can't have a record",
    ];
    let answer = apply(&table, &lines.map(|line| line.to_string()).join("\n"));
    assert_eq!(answer.code, 1, "{answer:?}");
    for (object, why) in answer.objects().iter().zip(why) {
        assert_eq!(object["outcome"], "invalid", "{object}");
        let error = object["error"].as_str().unwrap();
        assert!(error.contains(&why.replace("TABLE", &table.0)), "{object}");
    }
    assert_eq!(run(&["scan", &table.0]).done(), "");
}

#[test]
fn a_line_with_an_id_is_applied_once_however_often_it_is_sent() {
    let table = TestTable::new("replay");
    let count = json!({"op": "increment", "row": "xxxn", "family": "f", "qualifier": "n", "amount": 1});
    let first = condition("first", "xxxn", "absent", None);
    let line =
        json!({"id": r"a\x00", "conditions": [first], "mutations": [count, put("xxxn", "v")]}).to_string();
    let committed = json!({"line": 1, "prefix": "xxx", "outcome": "committed", "rows": 1});
    assert_eq!(answered(&apply(&table, &line), 0), committed);
    // Its condition no longer holds, and is not checked.
    let again = apply(&table, &line);
    assert_eq!(
        again.stdout,
        "{\"line\":1,\"prefix\":\"xxx\",\"outcome\":\"committed\",\"rows\":1,\"replayed\":true}\n"
    );
    let people = run_with_input(&["txn", "apply", &table.0], &line).done();
    assert_eq!(people, "line 1: partition xxx, 1 row, committed before\n");
    let other = json!({"id": r"a\x00", "mutations": [put("xxxn", "w")]}).to_string();
    let reused = answered(&apply(&table, &other), 1);
    assert_eq!(reused["outcome"], "invalid");
    assert!(
        reused["error"].as_str().unwrap().contains("other contents"),
        "{reused}"
    );
    let rows = run(&["scan", &table.0, "--output", "json"]).objects();
    assert_eq!(rows.len(), 1, "the record is hidden");
    assert_eq!(rows[0]["cells"][0]["value"], r"\x00\x00\x00\x00\x00\x00\x00\x01");
}

#[test]
fn an_outcome_is_read_and_settled_by_prefix_and_id() {
    let table = TestTable::new("outcome");
    let outcome = |options: &[&str]| {
        let asked = run(&[
            &["txn", "outcome", &table.0, "xxx", r"7\x00", "--output", "json"],
            options,
        ]
        .concat());
        let outcome = asked.objects().remove(0)["outcome"].as_str().unwrap().to_owned();
        (asked.code, outcome)
    };
    let line = json!({"id": r"7\x00", "mutations": [put("xxx1", "v")]}).to_string();
    assert_eq!(outcome(&[]), (4, "none".to_owned()));
    assert_eq!(outcome(&[]), (4, "none".to_owned()), "asking changes nothing");
    assert_eq!(outcome(&["--settle"]), (0, "aborted".to_owned()));
    assert_eq!(outcome(&[]), (0, "aborted".to_owned()));
    // The aborted attempt can't be applied any more; the id may be used again.
    let committed = answered(&apply(&table, &line), 0);
    assert_eq!(
        (&committed["outcome"], &committed["replayed"]),
        (&json!("committed"), &Value::Null)
    );
    assert_eq!(outcome(&[]), (0, "committed".to_owned()));
    assert_eq!(outcome(&["--settle"]), (0, "committed".to_owned()));
    let asked = run(&["txn", "outcome", &table.0, "xxx", r"7\x00"]).done();
    assert_eq!(asked, "partition xxx, transaction 7\\x00: committed\n");
    let asked = run(&["txn", "outcome", &table.0, "xxx", r"7\x00", "--output", "json"]).done();
    assert_eq!(
        asked,
        "{\"prefix\":\"xxx\",\"id\":\"7\\\\x00\",\"outcome\":\"committed\"}\n"
    );
}

#[test]
fn reserved_row_is_written_only_on_request() {
    let table = TestTable::new("reserved");
    let line = json!({"id": "7", "mutations": [put("xxx1", "v")]}).to_string();
    answered(&apply(&table, &line), 0);
    let row = r"xxx\xFF_txn\xFFr7";
    for write in [
        &["delete", &table.0, row][..],
        &["put", &table.0, row, "f:q=v"],
        &["increment", &table.0, row, "f:n=1"],
        &["append", &table.0, row, "f:q=v"],
    ] {
        run(write).refused(1, &["reserved", "--reserved"]);
    }
    let outcome = || run(&["txn", "outcome", &table.0, "xxx", "7"]);
    assert!(outcome().done().ends_with("committed\n"));
    // A record is stamped ahead.
    let late = ["--timestamp", "9000000000000", "--reserved"];
    run(&[&["delete", &table.0, row][..], &late].concat()).done();
    assert_eq!(outcome().code, 4, "the record is gone");
}

#[rstest]
#[case(&["xxx", ""], "empty transaction id")]
#[case(&["xxx", "12345678901234567890123456789012345678901234567890123456789012345"], "65 bytes")]
#[case(&["toolong", "7"], "this table's partitions have 3")]
#[case(&["xx", "7", "--settle"], "can't have a record")]
fn invalid_questions_are_refused(#[case] what: &[&str], #[case] why: &str) {
    let table = TestTable::new("ask");
    run(&[&["txn", "outcome", &table.0], what].concat()).refused(1, &[why]);
}

#[test]
fn table_without_record_family_refuses_ids_with_a_fix() {
    let table = TestTable::with(
        "unrecorded",
        &["--family", "f", "--prefix-length", "3", "--no-record-family"],
    );
    let line = json!({"id": "7", "mutations": [put("xxx1", "v")]}).to_string();
    let refused = answered(&apply(&table, &line), 1);
    let error = refused["error"].as_str().unwrap();
    assert!(
        refused["outcome"] == "invalid" && error.contains("_txn") && error.contains("--record-family"),
        "{refused}"
    );
    for settle in [&[][..], &["--settle"]] {
        run(&[&["txn", "outcome", &table.0, "xxx", "7"], settle].concat())
            .refused(1, &["_txn", "--record-family"]);
    }
}

#[test]
fn the_gravest_outcome_ends_the_command() {
    let table = TestTable::new("gravest");
    let rejected = json!({"conditions": [condition("", "xxx1", "present", None)]}).to_string();
    let committed = json!({"mutations": [put("yyy1", "v")]}).to_string();
    assert_eq!(
        apply(
            &table,
            &[&committed, &rejected, &committed].map(String::as_str).join("\n")
        )
        .code,
        3
    );
    assert_eq!(apply(&table, &[&rejected, "{}"].join("\n")).code, 1);
}
