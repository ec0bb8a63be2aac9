//! A reader that closes its pipe, and one that waits for each answer.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    net::Shutdown,
};

use crate::harness::{TestTable, answer, run, run_with_input, start, start_into, stdout_and_reader};

fn line(row: usize, value: &str) -> String {
    format!(
        "{{\"mutations\":[{{\"op\":\"put\",\"row\":\"{row:03}\",\"family\":\"f\",\"qualifier\":\"q\",\"value\":\"{value}\"}}]}}\n"
    )
}

#[test]
fn a_scan_whose_reader_has_seen_enough_ends_well() {
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
    assert!(end.code == 0 && end.stderr.is_empty(), "{end:?}");
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
