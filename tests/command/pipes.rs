//! A reader that closes its pipe, and one that waits for each answer.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    net::Shutdown,
};

use hbase_txn::client::FamilyDescriptor;

use crate::harness::{
    Answer, TestTable, answer, run, run_with_input, start, start_into, stdout_and_reader, unique_name,
};

fn line(row: usize, value: &str) -> String {
    format!(
        "{{\"mutations\":[{{\"op\":\"put\",\"row\":\"{row:03}\",\"family\":\"f\",\"qualifier\":\"q\",\"value\":\"{value}\"}}]}}\n"
    )
}

/// The status of a command whose output was cut off: that of a program that SIGPIPE ends.
const CUT: i32 = 141;

/// Runs the binary with a stdout that its reader has closed.
fn run_without_reader(arguments: &[&str]) -> Answer {
    let (stdout, reader) = stdout_and_reader();
    reader.shutdown(Shutdown::Both).unwrap();
    answer(start_into(arguments, stdout))
}

#[test]
fn a_scan_whose_reader_has_seen_enough_ends_as_any_program() {
    let table = TestTable::new("head");
    let value = "v".repeat(10_000);
    let input: String = (0..100).map(|row| line(row, &value)).collect();
    run_with_input(&["txn", "apply", &table.0], &input).done();
    let mut child = start(&["scan", &table.0]);
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.starts_with("000  f:q"), "{first:.40}");
    let end = answer(child);
    assert!(end.code == CUT && end.stderr.is_empty(), "{end:?}");
}

#[test]
fn closed_stdout_is_never_the_status_of_success() {
    let table = TestTable::new("cut");
    run(&["put", &table.0, "xxxr", "f:q=v"]).done();
    for arguments in [
        &["get", &table.0, "xxxr"][..],
        &["export", &table.0],
        &["table", "list"],
        &["table", "count", &table.0],
        &["table", "describe", &table.0],
    ] {
        for format in ["table", "json"] {
            let arguments = [arguments, &["--output", format]].concat();
            let end = run_without_reader(&arguments);
            assert!(end.code == CUT && end.stderr.is_empty(), "{arguments:?}: {end:?}");
        }
    }
}

#[test]
fn verdict_counts_although_nobody_reads_it() {
    let broken = TestTable::odd(
        "verdict",
        |table| table.with_family(FamilyDescriptor::new("f")),
        &[],
    );
    let name = &broken.0[..];
    assert_eq!(run_without_reader(&["table", "check", name]).code, 1);
    assert_eq!(run_without_reader(&["doctor", name]).code, 1);
    let table = TestTable::new("verdict");
    assert_eq!(
        run_without_reader(&["txn", "outcome", &table.0, "xxx", "id"]).code,
        4
    );
    // A watch ends when it has a change to print and stdout is closed.
    assert_eq!(run_without_reader(&["doctor", name, "--watch", "1s"]).code, 1);
}

#[test]
fn tables_are_applied_to_the_end_although_nobody_reads_the_steps() {
    let folder = tempfile::tempdir().unwrap();
    let tables = ["one", "two"].map(|label| TestTable(unique_name(label)));
    let file = |table: &TestTable, lines: &str| {
        let path = folder.path().join(format!("{}.toml", table.0.replace(':', ".")));
        let text = format!(
            "table = '{}'\npartition = {{prefix_length = 3}}\nfamily = [{{name = 'f'}}]\n{lines}\n",
            table.0
        );
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [one, two] = tables.each_ref().map(|table| file(table, ""));
    let end = run_without_reader(&["provision", "apply", &one, &two]);
    assert!(end.code == CUT && end.stderr.is_empty(), "{end:?}");
    assert_eq!(
        run(&["provision", "plan", &one, &two, "--detailed-exitcode"]).code,
        0
    );

    // The master refuses the first: stderr has the failure, and the table that was not started.
    let one = file(&tables[0], "attributes = {SPLIT_POLICY = 'no.such.Policy'}");
    let two = file(&tables[1], "split = {hex = 4}\nattributes = {x = 'y'}");
    let end = run_without_reader(&["provision", "apply", &one, &two]);
    end.refused(1, &["no.such.Policy", &format!("not started: {}", tables[1].0)]);
}

#[test]
fn a_full_disk_is_told_as_one() {
    let table = TestTable::new("full");
    run(&["put", &table.0, "r", "f:q=v"]).done();
    for format in ["table", "json"] {
        let full = File::create("/dev/full").unwrap();
        let full = start_into(&["scan", &table.0, "--output", format], full);
        answer(full).refused(1, &["writing to stdout: No space left on device"]);
    }
}

#[test]
fn answers_come_at_once_and_a_load_without_a_reader_stops() {
    let table = TestTable::new("dialogue");
    let (stdout, reader) = stdout_and_reader();
    let mut child = start_into(&["txn", "apply", &table.0, "--output", "json"], stdout);
    let mut stdin = child.stdin.take().unwrap();
    let mut reader = BufReader::new(reader);
    for number in 1..=3 {
        stdin.write_all(line(number, "v").as_bytes()).unwrap();
        let mut said = String::new();
        reader.read_line(&mut said).unwrap();
        assert!(
            said.starts_with(&format!("{{\"line\":{number},")) && said.contains("committed"),
            "{said}"
        );
    }
    reader.get_ref().shutdown(Shutdown::Both).unwrap();
    stdin.write_all(line(4, "v").as_bytes()).unwrap();
    // Its stdin stays open: the command must not wait for more lines.
    let end = answer(child);
    end.refused(1, &["the answers can't be written", "1 answer"]);
    drop(stdin);
}
