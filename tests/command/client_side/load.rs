//! Many rows, with little memory.

use std::{
    env, fs,
    io::{BufRead, BufReader, BufWriter, Write},
    process::Child,
    thread,
};

use crate::harness::{TestTable, answer, start};

const ROWS_IN_A_GROUP: usize = 1_000;
pub(crate) const MAX_RESIDENT: usize = 60 << 10;

/// The largest resident memory of a process so far, in KiB; 0 once it has exited.
pub(crate) fn peak(process: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or_default()
}

/// Passes each line of the process to `see`, and returns the largest memory of the process.
fn follow(process: &mut Child, mut see: impl FnMut(usize, &str)) -> usize {
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut most = 0;
    for (number, line) in lines.enumerate() {
        see(number, &line.unwrap());
        if number.is_multiple_of(100) || number < 100 {
            most = most.max(peak(process));
        }
    }
    assert!(most > 0);
    most
}

fn row(number: usize) -> String {
    format!("{:03}-{:06}", number / ROWS_IN_A_GROUP, number % ROWS_IN_A_GROUP)
}

#[test]
fn load_over_eight_regions_is_read_back_in_bounded_memory() {
    let groups = if env::var_os("HBASE_TXN_TEST_LONG").is_some() {
        200
    } else {
        20
    };
    let splits: Vec<String> = (1..8)
        .map(|region| format!("{:03}", region * groups / 8))
        .collect();
    let mut options = vec!["--family", "f", "--prefix-length", "3"];
    options.extend(splits.iter().flat_map(|split| ["--split", split]));
    let table = TestTable::with("load", &options);

    let mut load = start(&["txn", "apply", &table.0, "--output", "json"]);
    let mut input = BufWriter::new(load.stdin.take().unwrap());
    let writer = thread::spawn(move || {
        for group in 0..groups {
            write!(input, "{{\"prefix\":\"{group:03}\",\"mutations\":[")?;
            for number in 0..ROWS_IN_A_GROUP {
                let row = row(group * ROWS_IN_A_GROUP + number);
                let comma = if number == 0 { "" } else { "," };
                write!(
                    input,
                    "{comma}{{\"op\":\"put\",\"row\":\"{row}\",\"family\":\"f\",\"qualifier\":\"q\",\"value\":\"{row:-<100}\"}}"
                )?;
            }
            writeln!(input, "]}}")?;
        }
        input.flush()
    });
    let loading = follow(&mut load, |number, line| {
        let expected = format!(
            "{{\"line\":{},\"prefix\":\"{number:03}\",\"outcome\":\"committed\",\"rows\":{ROWS_IN_A_GROUP}}}",
            number + 1
        );
        assert_eq!(line, expected);
    });
    let loaded = answer(load);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    writer.join().unwrap().unwrap();

    let mut seen = 0;
    let mut scan = start(&["scan", &table.0, "--output", "json"]);
    let scanning = follow(&mut scan, |number, line| {
        let row = row(number);
        let begin =
            format!("{{\"row\":\"{row}\",\"cells\":[{{\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":");
        let end = format!(",\"value\":\"{row:-<100}\"}}]}}");
        assert!(line.starts_with(&begin) && line.ends_with(&end), "{line}");
        seen += 1;
    });
    assert_eq!(answer(scan).code, 0);
    assert_eq!(seen, groups * ROWS_IN_A_GROUP);
    eprintln!("{seen} rows: {loading} KiB to load them, {scanning} KiB to scan them");
    assert!(loading < MAX_RESIDENT, "{loading} KiB to load {seen} rows");
    assert!(scanning < MAX_RESIDENT, "{scanning} KiB to scan {seen} rows");
}
