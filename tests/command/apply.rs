//! `txn apply`: the effects of lines, and their answers.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use rstest::rstest;

use crate::harness::{TestTable, run, run_with_input};

/// A put in the form of a line.
fn put(row: &str, value: &str) -> String {
    format!(r#"{{"op":"put","row":"{row}","family":"f","qualifier":"q","value":"{value}"}}"#)
}

#[test]
fn lines_are_answered_in_order_and_a_bad_one_stops_no_other() {
    let table = TestTable::with(
        "lines",
        &["--family", "f", "--prefix-length", "3", "--split", "mmm"],
    );
    let input = [
        format!(
            r#"{{"prefix":"xxx","mutations":[{},{},{{"op":"delete","row":"xxxzzz"}}]}}"#,
            put("xxxabc", "1"),
            put("xxx123", "2")
        ),
        String::new(),
        format!(r#"{{"mutations":[{},{},{},{}]}}"#, put("aaa1", "3"), put("zzz1", "4"), put("aaa2", "5"), put("a", "6")),
        r#"{"prefix":"xxx","mutations":[{"op":"put","row":"yyy1","family":"f","qualifier":"q","value":"v"}]}"#.to_owned(),
        r#"{"prefix":"xxx","mutations":[{"op":"put","row":"xxx9","family":"nope","qualifier":"q","value":"v"}]}"#.to_owned(),
        r#"{"prefix":"xxx","mutatoins":[]}"#.to_owned(),
        r#"{"prefix":"xxx","id":"1","mutations":[]}"#.to_owned(),
        r#"{"prefix":"xxx","conditions":[{"op":"absent","row":"yyy1","family":"f","qualifier":"q"}]}"#.to_owned(),
        r#"{"mutations":[{"op":"increment","row":"xxx1","family":"f","qualifier":"q"}]}"#.to_owned(),
        r#"{"prefix":"xxx\\q","mutations":[]}"#.to_owned(),
        r#"{"prefix":"too long","mutations":[{"op":"delete","row":"too long"}]}"#.to_owned(),
        "not JSON".to_owned(),
        format!(r#"{{"prefix":"\\x00\\xfF\\xFf","mutations":[{}]}}"#, put(r"\\x00\\xFF\\xffrow", r"\\x01")),
    ];
    let answer = run_with_input(&["txn", "apply", &table.0, "--output", "json"], &input.join("\n"));
    assert_eq!(answer.code, 1, "{answer:?}");
    let expected = [
        r#"{"line":1,"prefix":"xxx","outcome":"committed","rows":3}"#,
        r#"{"line":3,"prefix":"aaa","outcome":"committed","rows":2}"#,
        r#"{"line":3,"prefix":"zzz","outcome":"committed","rows":1}"#,
        r#"{"line":3,"prefix":"a","outcome":"committed","rows":1}"#,
        r#"{"line":4,"prefix":"xxx","outcome":"invalid","rows":1,"error":"put, table TABLE, row yyy1: row yyy1 is in partition yyy; this transaction is in partition xxx; rows of several partitions go into a batch: one transaction each"}"#,
        r#"{"line":5,"prefix":"xxx","outcome":"invalid","rows":1,"error":"put, table TABLE, row xxx9: the table has no family nope; it has f"}"#,
        r#"{"line":6,"outcome":"invalid","error":"line 6, column 27: unknown field `mutatoins`, expected one of `prefix`, `id`, `conditions`, `mutations`"}"#,
        r#"{"line":7,"outcome":"invalid","error":"line 7, column 40: neither mutations nor conditions"}"#,
        r#"{"line":8,"prefix":"xxx","outcome":"invalid","rows":0,"error":"condition yyy1 f:q absent, table TABLE: row yyy1 is in partition yyy; this transaction is in partition xxx; rows of several partitions go into a batch: one transaction each"}"#,
        r#"{"line":9,"outcome":"invalid","error":"line 9, column 74: an increment needs `amount`"}"#,
        r#"{"line":10,"outcome":"invalid","error":"line 10, column 18: `prefix`: a stray backslash at column 4, in \"xxx\\\\q\"; write a byte as \\xNN and a backslash itself as \\x5C"}"#,
        r#"{"line":11,"prefix":"too long","outcome":"invalid","rows":1,"error":"transaction, table TABLE: prefix too long has 8 bytes; this table's partitions have 3"}"#,
        r#"{"line":12,"outcome":"invalid","error":"line 12, column 2: not a JSON object"}"#,
        r#"{"line":13,"prefix":"\\x00\\xFF\\xFF","outcome":"committed","rows":1}"#,
    ];
    let found: Vec<_> = answer.stdout.lines().collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|line| line.replace("TABLE", &table.0))
        .collect();
    assert_eq!(found, expected);
    let scanned = run(&["scan", &table.0, "--output", "json"]).objects();
    let rows: Vec<_> = scanned.iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(
        rows,
        [
            r"\x00\xFF\xFFrow",
            "a",
            "aaa1",
            "aaa2",
            "xxx123",
            "xxxabc",
            "zzz1"
        ]
    );
    let people = run_with_input(&["txn", "apply", &table.0], &input[..4].join("\n"));
    let lines: Vec<_> = people.stdout.lines().collect();
    assert_eq!(lines[0], "line 1: partition xxx, 3 rows, committed");
    assert_eq!(lines[2], "line 3: partition zzz, 1 row, committed");
}

#[test]
fn puts_deletes_stamps_and_times_to_live() {
    let table = TestTable::with("words", &["--family", "f", "--family", "g", "--delimiter", "/"]);
    let t = table.0.as_str();
    for row in ["c/row", "c/family", "c/column", "c/stamped"] {
        run(&["put", t, row, "f:q=1", "f:r=2", "g:q=3", "--timestamp", "10"]).done();
    }
    let line = [
        r#"{"op":"delete","row":"c/row"}"#,
        r#"{"op":"delete","row":"c/family","family":"f"}"#,
        r#"{"op":"delete","row":"c/column","family":"f","qualifier":"q"}"#,
        r#"{"op":"delete","row":"c/stamped","timestamp":9}"#,
        r#"{"op":"put","row":"c/put","family":"f","qualifier":"q","value":"v","timestamp":7}"#,
        r#"{"op":"put","row":"c/expired","family":"f","qualifier":"q","value":"v","timestamp":7,"ttl_ms":1}"#,
    ];
    let line = format!(r#"{{"prefix":"c","mutations":[{}]}}"#, line.join(","));
    let answer = run_with_input(&["txn", "apply", t, "-", "--output", "json"], &line);
    assert_eq!(
        answer.done(),
        "{\"line\":1,\"prefix\":\"c\",\"outcome\":\"committed\",\"rows\":6}\n"
    );
    let expected = "c/column  f:r  10  2\nc/column  g:q  10  3\nc/family  g:q  10  3\nc/put  f:q  7  v\n\
                    c/stamped  f:q  10  1\nc/stamped  f:r  10  2\nc/stamped  g:q  10  3\n";
    assert_eq!(run(&["scan", t]).done(), expected);
}

#[rstest]
#[case(
    r#"{"op":"put","row":"xxx","family":"f","qualifier":"q","value":"v","ttl_ms":0}"#,
    "whole millisecond"
)]
#[case(
    r#"{"op":"put","row":"","family":"f","qualifier":"q","value":"v"}"#,
    "empty row key"
)]
#[case(
    r#"{"op":"put","row":"xxx","family":"f","qualifier":"q","value":"v","timestamp":9223372036854775807}"#,
    "out of range"
)]
#[case(
    r#"{"op":"put","row":"xxx","family":"_txn","qualifier":"q","value":"v"}"#,
    "family _txn is reserved for"
)]
#[case(r#"{"op":"delete","row":"xxx","ttl_ms":5}"#, "come back")]
fn invalid_transaction_is_an_invalid_line(#[case] mutations: &str, #[case] why: &str) {
    let table = TestTable::new("refused");
    let line = format!(r#"{{"mutations":[{mutations}]}}"#);
    let answer = run_with_input(&["txn", "apply", &table.0, "--output", "json"], &line);
    let object = answer.objects().remove(0);
    assert_eq!(
        (answer.code, object["outcome"].as_str()),
        (1, Some("invalid")),
        "{object}"
    );
    assert!(object["error"].as_str().unwrap().contains(why), "{object}");
    assert_eq!(run(&["scan", &table.0]).done(), "");
}

#[test]
fn mutations_of_a_line_apply_in_sequence() {
    let table = TestTable::new("sequence");
    let lines = [
        r#"{"op":"put","row":"xxxabc","family":"f","qualifier":"q","value":"old"}"#,
        r#"{"op":"delete","row":"xxxabc"}"#,
        r#"{"op":"put","row":"xxxabc","family":"f","qualifier":"q","value":"a"}"#,
        r#"{"op":"append","row":"xxxabc","family":"f","qualifier":"q","value":"b"}"#,
        r#"{"op":"increment","row":"xxxabc","family":"f","qualifier":"n","amount":3}"#,
        r#"{"op":"increment","row":"xxxabc","family":"f","qualifier":"n","amount":-1}"#,
    ];
    let input = format!(r#"{{"mutations":[{}]}}"#, lines.join(","));
    run_with_input(&["txn", "apply", &table.0], &input).done();
    let row = run(&["get", &table.0, "xxxabc", "--output", "json"])
        .objects()
        .remove(0);
    let values: Vec<_> = (0..2)
        .map(|cell| row["cells"][cell]["value"].as_str().unwrap())
        .collect();
    assert_eq!(values, [r"\x00\x00\x00\x00\x00\x00\x00\x02", "ab"]);
}

#[test]
fn without_the_endpoint_increments_and_appends_are_answered() {
    let table = TestTable::new("results");
    let input = r#"{"prefix":"xxx","mutations":[{"op":"increment","row":"xxx1","family":"f","qualifier":"n","amount":258},{"op":"append","row":"xxx2","family":"f","qualifier":"log","value":"a"},{"op":"put","row":"xxx3","family":"f","qualifier":"q","value":"v"}]}
{"prefix":"xxx","conditions":[{"op":"absent","row":"xxx9","family":"f","qualifier":"q"}]}"#;
    let apply = ["txn", "apply", &table.0, "--without-endpoint", "--output", "json"];
    let answer = run_with_input(&apply, input);
    assert_eq!(answer.code, 1, "{answer:?}");
    let lines: Vec<_> = answer.stdout.lines().collect();
    let results = r#""results":[{"row":"xxx1","family":"f","qualifier":"n","value":258,"value_type":"toLong"},{"row":"xxx2","family":"f","qualifier":"log","value":"a"}]"#;
    assert_eq!(
        lines[0],
        format!(r#"{{"line":1,"prefix":"xxx","outcome":"committed","rows":3,{results}}}"#)
    );
    assert!(
        lines[1].contains("invalid") && lines[1].contains("need the endpoint"),
        "{answer:?}"
    );
    let people = run_with_input(&apply[..4], input.lines().next().unwrap()).done();
    let expected = "line 1: partition xxx, 3 rows, committed; xxx1 f:n is 516; \
                    xxx2 f:log is aa\n";
    assert_eq!(people, expected);
}

#[test]
fn a_guarded_put_is_seen_over_what_is_stamped_in_the_future() {
    let table = TestTable::new("guard");
    let (t, future) = (table.0.as_str(), "9000000000000");
    for row in ["xxx1", "xxx2"] {
        run(&["put", t, row, "f:q=future", "--timestamp", future]).done();
    }
    let line = |row| format!(r#"{{"mutations":[{}]}}"#, put(row, "now"));
    run_with_input(&["txn", "apply", t, "--guard-timestamps"], &line("xxx1")).done();
    run_with_input(&["txn", "apply", t], &line("xxx2")).done();
    let found = run(&["scan", t, "--prefix", "xxx"]).done();
    assert_eq!(
        found,
        format!("xxx1  f:q  9000000000001  now\nxxx2  f:q  {future}  future\n")
    );
}

/// A delete and a put of one row in one millisecond would leave no cell: the server stamps both
/// with its time, and a delete hides cells of the same timestamp.
#[rstest]
#[case::waiting("order", &[])]
#[case::guarded("guarded", &["--guard-timestamps"])]
fn lines_of_one_partition_are_applied_in_their_order(#[case] label: &str, #[case] options: &[&str]) {
    let table = TestTable::new(label);
    let mut input = String::new();
    for partition in 0..200 {
        let row = format!("{partition:03}row");
        for value in ["first", "second", "third"] {
            writeln!(input, r#"{{"mutations":[{}]}}"#, put(&row, value)).unwrap();
            if value != "third" {
                writeln!(input, r#"{{"mutations":[{{"op":"delete","row":"{row}"}}]}}"#).unwrap();
            }
        }
    }
    let apply = [&["txn", "apply", &table.0, "--output", "json"], options].concat();
    let answer = run_with_input(&apply, &input);
    let lines: Vec<_> = answer
        .objects()
        .iter()
        .map(|object| object["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, (1..=1_000).collect::<Vec<_>>());
    answer.done();
    let rows = run(&["scan", &table.0, "--output", "json"]).objects();
    let values: BTreeMap<_, _> = rows
        .iter()
        .map(|row| (row["row"].as_str(), &row["cells"][0]["value"]))
        .collect();
    assert_eq!(values.len(), 200, "rows are missing");
    assert!(
        values.values().all(|value| value.as_str() == Some("third")),
        "{values:?}"
    );
}

#[test]
fn a_file_is_read_and_one_that_can_t_be_is_named() {
    let table = TestTable::new("file");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.json");
    fs::write(
        &file,
        format!(
            "{{\"prefix\":\"xxx\",\"mutations\":[{}]}}\r\n\r\n",
            put("xxx1", "v")
        ),
    )
    .unwrap();
    let done = run(&["txn", "apply", &table.0, file.to_str().unwrap()]).done();
    assert_eq!(done, "line 1: partition xxx, 1 row, committed\n");
    for unreadable in [folder.path().join("absent"), folder.path().to_owned()] {
        let path = unreadable.to_str().unwrap();
        run(&["txn", "apply", &table.0, path]).refused(1, &["hbase-txn: reading", path]);
    }
    assert_eq!(
        run(&["txn", "apply", &table.0]).done(),
        "",
        "nothing is no failure"
    );
}
