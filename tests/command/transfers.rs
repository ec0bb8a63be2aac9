//! What `export` and `import` do not keep, and how they report it.

use std::fs;

use hbase_txn::client::{FamilyDescriptor, Put};
use rustix::process::Pid;
use serde_json::json;

use crate::{
    client_side::import::{Input, import_until_held, keys, lines, row},
    harness::{TestTable, answer, run, run_with_input, uri, with_admin},
};

/// Writes a row by the library.
fn put(table: &TestTable, put: Put) {
    with_admin(async |_| {
        let connection = hbase_txn::client::Connection::connect(uri()).await.unwrap();
        connection.table(table.name()).unwrap().put(put).await.unwrap();
    });
}

#[test]
fn row_that_is_too_long_for_a_line_is_imported_from_several() {
    let (from, into) = (TestTable::new("export_long"), TestTable::new("import_long"));
    // Each byte may be five characters of JSON.
    for qualifier in 0..13 {
        let cell = Put::new("r").cell_at("f", qualifier.to_string(), 5, vec![b'x'; 1 << 20]);
        put(&from, cell);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    let path = file.to_str().unwrap();
    let done = run(&["export", &from.0, path]).done();
    assert_eq!(done, format!("{}: 1 row exported to {path}\n", from.0));
    let exported = fs::read_to_string(&file).unwrap();
    let lengths: Vec<_> = exported.lines().map(str::len).collect();
    assert_eq!(lengths.len(), 2, "{lengths:?}");
    run(&["import", &into.0, path]).done();
    assert!(run(&["export", &into.0]).done() == exported);
}

#[test]
fn cells_that_deletes_of_the_table_hide_are_counted() {
    let table = TestTable::odd(
        "import_hidden",
        |table| table.with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "2")),
        &["b"],
    );
    let cells = ["a", "b", "c"].map(|key| {
        format!(r#"{{"row":"{key}","cells":[{{"family":"f","qualifier":"q","timestamp":5,"value":"1"}},{{"family":"f","qualifier":"q","timestamp":6,"value":"2"}}]}}"#)
    });
    let input = Input::new("rows.json", cells.join("\n") + "\n" + &row("d", "3"));
    let check = |options: &[&str]| input.import(&table, &[&["--check"], options].concat());
    check(&[]).refused(3, &["not visible: line 1, row a, cell f:q at 5"]);
    input.import(&table, &[]).done();
    assert_eq!(
        check(&[]).done(),
        format!("{}: 7 cells, 0 not visible\n", table.0)
    );

    // The rows of a backup, which is restored after a delete.
    run(&["delete", &table.0, "a"]).done();
    run_with_input(
        &["import", &table.0, "-"],
        r#"{"op":"delete","row":"b","family":"f","timestamp":5}"#,
    )
    .done();
    let restored = input.import(&table, &[]);
    assert_eq!(restored.done(), format!("{}: 4 lines imported\n", table.0));
    let checked = check(&["--output", "json"]);
    checked.refused(
        3,
        &[
            "not visible: line 1, row a, cell f:q at 5",
            "not visible: line 1, row a, cell f:q at 6",
            "not visible: line 2, row b, cell f:q at 5",
        ],
    );
    assert_eq!(
        checked.objects(),
        [json!({"table": table.0, "cells": 7, "hidden": 3, "invalid": 0})]
    );

    // Newer versions replace the older ones, and lines that can't be imported have no cells.
    run(&["put", &table.0, "c", "f:q=new"]).done();
    let odd = [
        cells[2].clone(),
        row("", "1"),
        row("e", "1").replace(r#""f""#, r#""nope""#),
        "odd".to_owned(),
    ];
    let checked = run_with_input(&["import", &table.0, "-", "--check"], &odd.join("\n"));
    checked.refused(
        3,
        &[
            "line 1, row c, cell f:q at 5",
            "line 2, row ,",
            "line 3, row e",
            "invalid: line 4",
        ],
    );
    assert_eq!(
        checked.stdout,
        format!("{}: 4 cells, 3 not visible, 1 line invalid\n", table.0)
    );
    run(&["import", &table.0, &input.path(), "--check", "--resume"]).refused(2, &["--check"]);
}

#[test]
fn second_import_of_a_file_is_refused_while_the_first_runs() {
    const ROWS: usize = 20_000;
    let table = TestTable::new("import_twice");
    let input = Input::new("rows.json", format!("broken\n{}", lines(ROWS)));
    let (child, held) = import_until_held(&table, &input, &[]);
    let holder = format!("process {} is writing", Pid::from_child(&child).as_raw_nonzero());
    input
        .import(&table, &["--resume"])
        .refused(1, &[&holder, "rows.json.checkpoint"]);
    let checkpoint = input.beside("other").to_str().unwrap().to_owned();
    let other = ["--checkpoint", &checkpoint];
    input
        .import(&table, &other)
        .refused(1, &[&holder, "rows.json.rejects"]);
    let rejects = input.beside("rejects");
    let piped = ["import", &table.0, "-", "--rejects", rejects.to_str().unwrap()];
    run_with_input(&piped, "broken").refused(1, &[&holder]);
    held.forwarder.hold(false);
    let first = answer(child);
    first.refused(3, &["rejected: line 1"]);
    assert_eq!(input.rejects().len(), 1);
    assert_eq!(keys(&table).len(), ROWS);
    // The locks are removed.
    let rejects_too = format!("{checkpoint}.rejects");
    let other = ["--checkpoint", &checkpoint, "--rejects", &rejects_too];
    input.import(&table, &other).refused(3, &["rejected: line 1"]);
    let mut left: Vec<_> = fs::read_dir(rejects.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(
        left,
        ["rows.json", "rows.json.other.rejects", "rows.json.rejects"]
    );
}
