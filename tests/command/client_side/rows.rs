//! `get`, `scan`, `put` and `delete`.

use rstest::rstest;

use crate::harness::{TestTable, run, run_with_input};

#[test]
fn rows_are_written_read_and_deleted() {
    let table = TestTable::with(
        "rows",
        &["--family", "f", "--family", "g", "--prefix-length", "3"],
    );
    let t = table.0.as_str();
    run(&["put", t, r"a\x00\xfF", "f:q=é\\x5C", "g:=", "--timestamp", "5"]).done();
    run(&["put", t, "b", "f:q=1", "f:r=2", "--timestamp", "6"]).done();
    run(&["put", t, "c", "f:q=3", "--timestamp", "7"]).done();

    let a = r#"{"row":"a\\x00\\xFF","cells":[{"family":"f","qualifier":"q","timestamp":5,"value":"\\xC3\\xA9\\x5C"},{"family":"g","qualifier":"","timestamp":5,"value":""}]}"#;
    let b = r#"{"row":"b","cells":[{"family":"f","qualifier":"q","timestamp":6,"value":"1"},{"family":"f","qualifier":"r","timestamp":6,"value":"2"}]}"#;
    let b_r = r#"{"row":"b","cells":[{"family":"f","qualifier":"r","timestamp":6,"value":"2"}]}"#;
    let c = r#"{"row":"c","cells":[{"family":"f","qualifier":"q","timestamp":7,"value":"3"}]}"#;
    let json: &[(&[&str], &[&str])] = &[
        (&["get", t, r"a\x00\xff"], &[a]),
        (&["get", t, "b", "--column", "f:r"], &[b_r]),
        (&["get", t, "b", "--family", "g"], &[]),
        (&["get", t, "absent"], &[]),
        (&["scan", t], &[a, b, c]),
        (&["scan", t, "--limit", "2"], &[a, b]),
        (&["scan", t, "--limit", "0"], &[]),
        (&["scan", t, "--start-row", "b", "--stop-row", "c"], &[b]),
        (&["scan", t, "--prefix", r"a\x00"], &[a]),
        (&["scan", t, "--column", "f:r"], &[b_r]),
    ];
    for (line, expected) in json {
        let out = run(&[line, &["--output", "json"][..]].concat()).done();
        assert_eq!(out.lines().collect::<Vec<_>>(), *expected, "{line:?}");
    }
    assert_eq!(
        run(&["scan", t, "--start-row", "b"]).done(),
        "b  f:q  6  1\nb  f:r  6  2\nc  f:q  7  3\n"
    );
    assert_eq!(run(&["get", t, "absent"]).done(), "");

    run(&["delete", t, "b", "f:r"]).done();
    assert_eq!(run(&["get", t, "b"]).done(), "b  f:q  6  1\n");
    run(&["delete", t, "b", "f", "--timestamp", "5"]).done();
    assert_eq!(
        run(&["get", t, "b"]).done(),
        "b  f:q  6  1\n",
        "it is stamped after that"
    );
    run(&["delete", t, "b", "f", "g"]).done();
    run(&["delete", t, "c"]).done();
    assert_eq!(run(&["scan", t]).done().lines().count(), 2);
}

#[test]
fn toolkit_cells_are_shown_only_if_their_family_is_named() {
    let options = ["--family", "f", "--prefix-length", "3", "--partition-version"];
    let table = TestTable::with("notes", &options);
    let t = table.0.as_str();
    for (id, row) in [("1", "xxx1"), ("2", "xxx2")] {
        let line = format!(
            r#"{{"id":"{id}","mutations":[{{"op":"put","row":"{row}","family":"f","qualifier":"q","value":"v","timestamp":5}}]}}"#
        );
        run_with_input(&["txn", "apply", t], &line).done();
    }
    let both = "xxx1  f:q  5  v\nxxx2  f:q  5  v\n";
    assert_eq!(run(&["scan", t]).done(), both);
    assert_eq!(run(&["scan", t, "--limit", "2"]).done(), both);
    assert_eq!(
        run(&["scan", t, "--start-row", "xxx3"]).done(),
        "",
        "behind them are only notes"
    );
    assert_eq!(run(&["get", t, "xxx1"]).done(), "xxx1  f:q  5  v\n");
    let record = r"xxx\xFF_txn\xFFr1";
    assert_eq!(run(&["get", t, record]).done(), "");
    assert!(
        run(&["get", t, record, "--family", "_txn"])
            .done()
            .starts_with(record)
    );
    assert!(
        run(&["get", t, record, "--column", "_txn:r"])
            .done()
            .starts_with(record)
    );
    for (part, lines) in [
        (&["--column", "_txn:r"][..], 2),
        (&["--family", "_version"], 1),
        (&["--column", "_txn:r", "--family", "f"], 4),
    ] {
        let found = run(&[&["scan", t], part].concat()).done();
        assert_eq!(found.lines().count(), lines, "{part:?}: {found}");
    }
}

#[test]
fn versions_and_ttl() {
    let table = TestTable::odd(
        "versions",
        |table| {
            table.with_family(hbase_txn::client::FamilyDescriptor::new("f").with_attribute("VERSIONS", "3"))
        },
        &[],
    );
    for stamp in ["1", "2", "3"] {
        run(&[
            "put",
            &table.0,
            "r",
            &format!("f:q={stamp}"),
            "--timestamp",
            stamp,
        ])
        .done();
    }
    assert_eq!(run(&["get", &table.0, "r"]).done(), "r  f:q  3  3\n");
    assert_eq!(
        run(&["get", &table.0, "r", "--versions", "2"]).done(),
        "r  f:q  3  3\nr  f:q  2  2\n"
    );
    assert_eq!(
        run(&["scan", &table.0, "--versions", "99999999999"])
            .done()
            .lines()
            .count(),
        3
    );
    // The timestamp is so old that the cell has expired when it arrives.
    run(&[
        "put",
        &table.0,
        "gone",
        "f:q=v",
        "--timestamp",
        "1",
        "--ttl",
        "1s",
    ])
    .done();
    run(&["put", &table.0, "stays", "f:q=v", "--ttl", "1h"]).done();
    assert_eq!(run(&["get", &table.0, "gone"]).done(), "");
    assert_eq!(run(&["get", &table.0, "stays"]).done().lines().count(), 1);
}

#[rstest]
#[case(&["get", "TABLE", "r", "--versions", "0"], &["at least one version"])]
#[case(&["get", "TABLE", ""], &["empty row key"])]
#[case(&["get", "TABLE", "r", "--family", "x"], &["x", "NoSuchColumnFamily"])]
#[case(&["put", "TABLE", "r", "x:q=v"], &["x", "NoSuchColumnFamily"])]
#[case(&["put", "TABLE", "r", "f:q=v", "--ttl", "0s"], &["whole millisecond"])]
#[case(&["put", "TABLE", "r", "f:q=v", "--timestamp", "9223372036854775807"], &["out of range"])]
#[case(&["delete", "TABLE", "r", "x"], &["x", "NoSuchColumnFamily"])]
fn a_value_out_of_range_fails(#[case] line: &[&str], #[case] why: &[&str]) {
    let table = TestTable::new("range");
    let line: Vec<_> = line
        .iter()
        .map(|word| if *word == "TABLE" { &table.0 } else { *word })
        .collect();
    run(&line).refused(1, why);
}

#[test]
fn rows_are_counted_and_scanned_in_both_directions() {
    let table = TestTable::new("both-directions");
    for row in ["aaa1", "aaa2", "bbb1"] {
        run(&["put", &table.0, row, "f:q=1"]).done();
    }
    let keys = |arguments: &[&str]| -> Vec<String> {
        let found = run(&[&["scan", &table.0, "--output", "json"], arguments].concat()).objects();
        found
            .iter()
            .map(|row| row["row"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(keys(&["--reversed"]), ["bbb1", "aaa2", "aaa1"]);
    assert_eq!(keys(&["--reversed", "--prefix", "aaa"]), ["aaa2", "aaa1"]);
    assert_eq!(keys(&["--reversed", "--start-row", "aaa2"]), ["aaa2", "aaa1"]);
    run(&["scan", &table.0, "--start-row", "b", "--stop-row", "a"])
        .refused(1, &["start row b is after stop row a"]);

    let count = |arguments: &[&str]| run(&[&["table", "count", &table.0], arguments].concat()).done();
    assert_eq!(count(&[]), format!("{}: 3 rows\n", table.0));
    assert_eq!(count(&["--prefix", "aaa"]), format!("{}: 2 rows\n", table.0));
    assert_eq!(count(&["--limit", "1"]), format!("{}: 1 rows\n", table.0));
}

#[test]
fn counters_and_values_grow_and_are_printed() {
    let table = TestTable::new("counters");
    let value = |arguments: &[&str]| {
        let rows = run(&[arguments, &["--output", "json"]].concat()).objects();
        rows[0]["cells"][0]["value"].clone()
    };
    assert_eq!(value(&["increment", &table.0, "aaa1", "f:n=5"]), 5);
    assert_eq!(value(&["increment", &table.0, "aaa1", "f:n=-2"]), 3);
    assert_eq!(value(&["append", &table.0, "aaa1", "f:log=a;"]), "a;");
    assert_eq!(value(&["append", &table.0, "aaa1", "f:log=b;"]), "a;b;");
    let refused = run(&["increment", &table.0, "aaa1", "f:n=1", "f:log=1"]);
    refused.refused(
        1,
        &[
            &table.0,
            "aaa1 f:log holds 4 bytes, not an 8-byte counter; nothing was added",
        ],
    );
    run(&["increment", &table.0, "aaa1", "f:n=x"]).refused(2, &["F:Q=NUMBER"]);
}
