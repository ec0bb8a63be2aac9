//! Exports that stop, and continue.

use std::{fmt::Write as _, fs, path::Path, process::Child};

use hbase_txn::client::FamilyDescriptor;
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    client_side::import::{Held, forwarder, until},
    harness::{TestTable, answer, command, run, run_with_input},
};

const ROWS: usize = 3_000;

/// A table whose rows are in several regions, and too many for one answer.
fn filled(label: &str) -> TestTable {
    let table = TestTable::odd(
        label,
        |table| table.with_family(FamilyDescriptor::new("f")),
        &["0001000", "0002000"],
    );
    let mut lines = String::new();
    for number in 0..ROWS {
        writeln!(
            lines,
            r#"{{"row":"{number:07}","cells":[{{"family":"f","qualifier":"q","value":"{number:->2000}"}}]}}"#
        )
        .unwrap();
    }
    run_with_input(&["import", &table.0, "-"], &lines).done();
    table
}

/// Starts an export, and holds the answers of the server when the first rows are in the file.
fn export_until_held(table: &TestTable, path: &str, options: &[&str]) -> (Child, Held) {
    let (held, uri) = forwarder();
    let child = command([&["export", &table.0, path], options].concat())
        .env("HBASE_TXN_CONNECT", uri)
        .spawn()
        .unwrap();
    until(|| fs::metadata(format!("{path}.partial")).is_ok_and(|found| found.len() > 100_000));
    held.forwarder.hold(true);
    (child, held)
}

fn sorted(path: &Path) -> Vec<String> {
    let mut lines: Vec<_> = fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

#[rstest]
#[case::interrupted(Signal::INT, "1")]
#[case::interrupted_with_three_regions(Signal::INT, "3")]
#[case::killed(Signal::KILL, "3")]
fn stopped_export_is_continued(#[case] signal: Signal, #[case] regions: &str) {
    let table = filled("export_stopped");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    fs::write(&file, "old").unwrap();
    let path = file.to_str().unwrap();
    let options = ["--regions-at-once", regions, "--versions", "2"];
    let (child, held) = export_until_held(&table, path, &options);
    let pid = Pid::from_child(&child);
    run(&["export", &table.0, path, "--resume"]).refused(
        1,
        &[&format!(
            "process {} is writing {path}.partial",
            pid.as_raw_nonzero()
        )],
    );
    let checkpoint = folder.path().join("rows.json.partial.checkpoint");
    if signal == Signal::KILL {
        until(|| checkpoint.exists());
    }
    kill_process(pid, signal).unwrap();
    let stopped = answer(child);
    drop(held);
    if signal == Signal::INT {
        stopped.refused(130, &["the export stopped after", "with --resume", "interrupted"]);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");

    let again = |more: &[&str]| run(&[&["export", &table.0, path], more].concat());
    again(&options).refused(1, &["has stopped after", "add --resume", "delete "]);
    again(&["--resume"]).refused(1, &["has other options"]);
    let done = again(&[&options[..], &["--resume", "--output", "json"]].concat());
    let summary = json!({"table": table.0, "rows": ROWS, "file": path});
    assert_eq!(done.objects(), [summary], "{done:?}");
    let lines = sorted(&file);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    again(&[]).done();
    assert!(sorted(&file) == lines, "the continued export has other lines");
    assert_eq!(lines.len(), ROWS);
}

#[test]
fn options_that_can_not_be_continued_are_refused() {
    for (options, why) in [
        (&["--resume"][..], "stdout can't be continued"),
        (&["rows.json", "--resume", "--limit", "5"], "--limit"),
        (
            &["rows.json", "--regions-at-once", "2", "--limit", "5"],
            "--limit",
        ),
    ] {
        run(&[&["export", "absent"], options].concat()).refused(2, &[why]);
    }
    run(&["export", "absent", "--regions-at-once", "65"]).refused(2, &["out of range: 1 to 64"]);
}
