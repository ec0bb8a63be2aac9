//! Values with types, filters, and what else a read can show.

use rstest::rstest;

use crate::harness::{TestTable, run, run_with_input};

#[test]
fn numbers_are_written_and_shown_as_numbers() {
    let table = TestTable::new("numbers");
    let t = table.0.as_str();
    let cells = [
        "f:n:toLong=5",
        "f:i:toInt=-1",
        "f:d:toDouble=0.5",
        "f:b:toBoolean=true",
    ];
    run(&[&["put", t, "xxx1"], &cells[..], &["--timestamp", "7"]].concat()).done();
    assert_eq!(
        run(&["get", t, "xxx1", "--column", "f:n"]).done(),
        "xxx1  f:n  7  \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05\n"
    );
    let typed = [
        "--column",
        "f:n:toLong",
        "--column",
        "f:i:toInt",
        "--column",
        "f:b:toBoolean",
    ];
    assert_eq!(
        run(&[&["get", t, "xxx1"], &typed[..]].concat()).done(),
        "xxx1  f:b  7  true\nxxx1  f:i  7  -1\nxxx1  f:n  7  5\n"
    );
    // Bytes that are not of the type are shown as bytes.
    assert_eq!(
        run(&[
            "scan",
            t,
            "--formatter",
            "toLong",
            "--column",
            "f:n",
            "--column",
            "f:b"
        ])
        .done(),
        "xxx1  f:b  7  \\xFF\nxxx1  f:n  7  5\n"
    );
    let json = run(&["get", t, "xxx1", "--column", "f:d:toDouble", "--output", "json"]).done();
    assert_eq!(
        json.trim_end(),
        r#"{"row":"xxx1","cells":[{"family":"f","qualifier":"d","timestamp":7,"value":0.5,"value_type":"toDouble"}]}"#
    );
    assert!(run(&["increment", t, "xxx1", "f:n=2"]).done().ends_with("  7\n"));
    let counted = run(&["increment", t, "xxx1", "f:n=-8", "--output", "json"]).done();
    assert!(
        counted.contains(r#""value":-1,"value_type":"toLong""#),
        "{counted}"
    );
    run(&["delete", t, "xxx1", "f:n:toLong"]).refused(2, &["no value here for toLong"]);
    run(&["put", t, "xxx1", "f:n:toLong=five"]).refused(2, &["five is not a whole number"]);
}

#[rstest]
#[case::json(&["--column", "f:n:toLong", "--column", "f:s"], &[])]
#[case::tsv(&["--columns", "HBASE_ROW_KEY,HBASE_TS_KEY,f:n:toLong,f:s"], &["--columns", "HBASE_ROW_KEY,HBASE_TS_KEY,f:n:toLong,f:s"])]
fn typed_exports_are_imported(#[case] exporting: &[&str], #[case] importing: &[&str]) {
    let (table, copy) = (TestTable::new("typed"), TestTable::new("typed-copy"));
    run(&[
        "put",
        &table.0,
        "xxx1",
        "f:n:toLong=-5",
        "f:s=5",
        "--timestamp",
        "7",
    ])
    .done();
    run(&["put", &table.0, "xxx2", "f:n:toLong=1250", "--timestamp", "7"]).done();
    let exported = run(&[&["export", &table.0], exporting].concat()).done();
    assert!(exported.contains("-5") && exported.contains("1250"), "{exported}");
    run_with_input(&[&["import", &copy.0, "-"], importing].concat(), &exported).done();
    assert_eq!(run(&["scan", &copy.0]).done(), run(&["scan", &table.0]).done());
    run(&["put", &table.0, "xxx3", "f:n=5"]).done();
    let again = run(&[&["export", &table.0], exporting].concat());
    match importing {
        // JSON has a form for each cell.
        [] => assert!(again.done().contains(r#""value":"5"}"#)),
        _ => again.refused(1, &["row xxx3", "f:n", "toLong"]),
    }
}

#[test]
fn transactions_have_numbers() {
    let table = TestTable::new("balances");
    let t = table.0.as_str();
    let put = r#"{"mutations":[{"op":"put","row":"xxx1","family":"f","qualifier":"n","value":-5}]}"#;
    run_with_input(&["txn", "apply", t], put).done();
    let add = |op: &str, limit: &str| {
        let line = format!(
            r#"{{"conditions":[{{"op":"{op}","row":"xxx1","family":"f","qualifier":"n","value":{limit}}}],"mutations":[{{"op":"increment","row":"xxx1","family":"f","qualifier":"n","amount":1}}]}}"#
        );
        run_with_input(&["txn", "apply", t], &line)
    };
    add("less", "0").done();
    assert_eq!(add("greater", "0").code, 3);
    let refused = add("equal", "0");
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stdout.contains("xxx1 f:n = 0 (found -4)"), "{refused:?}");
    let line = r#"{"mutations":[{"op":"increment","row":"xxx1","family":"f","qualifier":"n","amount":9},{"op":"append","row":"xxx1","family":"f","qualifier":"s","value":"12345678"}]}"#;
    let results = run_with_input(&["txn", "apply", t, "--without-endpoint"], line).done();
    assert!(
        results.contains("f:n is 5") && results.contains("f:s is 12345678"),
        "{results}"
    );
}

#[test]
fn scans_filter_and_count() {
    let table = TestTable::new("filtered");
    let t = table.0.as_str();
    for (row, value) in [("xxx1", "a"), ("xxx2", "b"), ("yyy1", "b")] {
        run(&["put", t, row, &format!("f:q={value}"), "--timestamp", "7"]).done();
    }
    let filter = "ValueFilter(=, 'binary:b') AND PrefixFilter('xxx')";
    assert_eq!(run(&["scan", t, "--filter", filter]).done(), "xxx2  f:q  7  b\n");
    assert_eq!(run(&["get", t, "xxx1", "--filter", filter]).done(), "");
    let count = run(&["scan", t, "--filter", "ValueFilter(=, 'binary:b')", "--count"]).done();
    assert_eq!(count, format!("{t}: 2 rows\n"));
    let json = run(&["scan", t, "--count", "--output", "json"]).done();
    assert_eq!(json, format!("{{\"table\":\"{t}\",\"rows\":3}}\n"));
    run(&["scan", t, "--filter", "ValueFilter(=, 'b')"]).refused(2, &["expected binary:", "column"]);
}

#[test]
fn raw_scans_show_delete_markers() {
    let table = TestTable::new("raw");
    let t = table.0.as_str();
    run(&["put", t, "xxx1", "f:q=v", "--timestamp", "7"]).done();
    run(&["delete", t, "xxx1", "f:q", "--timestamp", "8"]).done();
    assert_eq!(run(&["scan", t]).done(), "");
    assert_eq!(
        run(&["scan", t, "--raw"]).done(),
        "xxx1  f:q  8  type=DeleteColumn\nxxx1  f:q  7  v\n"
    );
    let json = run(&["scan", t, "--raw", "--output", "json"]).done();
    assert!(json.contains(r#""value":"","kind":"DeleteColumn"}"#), "{json}");
    // Its markers would become values.
    let refused = run_with_input(&["import", t, "-"], &json);
    assert_eq!(refused.code, 3, "{refused:?}");
}
