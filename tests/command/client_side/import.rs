//! `import`: lines that are written, rejected, or written again after an interruption.

use std::{
    env,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Child,
    time::{Duration, Instant},
};

use hbase_txn::client::{FamilyDescriptor, Row, Scan};
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    client_side::load::{MAX_RESIDENT, peak},
    harness::{
        Answer, TestTable, answer, command, run, run_with_input, unique_name, uri, with_admin,
        with_default_signals,
    },
    support::{forwarder::Forwarder, standalone},
};

/// The rows of an import that is resumed. It is stopped after this many answers, the first of which
/// are those of the registry; a call writes 2,000 rows at most.
const RESUMED: usize = 20_000;
const ANSWERS: usize = 10;

/// A file in a folder of its own.
pub(crate) struct Input {
    folder: TempDir,
    name: &'static str,
}

impl Input {
    pub(crate) fn new(name: &'static str, contents: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let input = Self { folder, name };
        fs::write(input.file(), contents).unwrap();
        input
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    pub(crate) fn path(&self) -> String {
        self.file().to_str().unwrap().to_owned()
    }

    /// Returns the path of a file beside it.
    pub(crate) fn beside(&self, extension: &str) -> PathBuf {
        self.folder.path().join(format!("{}.{extension}", self.name))
    }

    pub(crate) fn import(&self, table: &TestTable, options: &[&str]) -> Answer {
        let path = self.path();
        run(&[&["import", &table.0, &path], options].concat())
    }

    /// Returns the objects of the file of rejects.
    pub(crate) fn rejects(&self) -> Vec<Value> {
        objects(&self.beside("rejects"))
    }

    fn checkpoint(&self) -> Value {
        objects(&self.beside("checkpoint")).remove(0)
    }
}

pub(crate) fn objects(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A row with one cell, as a line.
pub(crate) fn row(key: &str, value: &str) -> String {
    format!(r#"{{"row":"{key}","cells":[{{"family":"f","qualifier":"q","value":"{value}"}}]}}"#)
}

pub(crate) fn lines(rows: usize) -> String {
    let mut lines = String::new();
    for number in 0..rows {
        writeln!(
            lines,
            "{}",
            row(&format!("{number:07}"), &format!("value {number}"))
        )
        .unwrap();
    }
    lines
}

/// Returns the rows of a table.
fn scan(table: &TestTable) -> Vec<Row> {
    with_admin(async |_| {
        let connection = hbase_txn::client::Connection::connect(uri()).await.unwrap();
        let mut scanner = connection.table(table.name()).unwrap().scan(Scan::new()).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = scanner.next().await.unwrap() {
            rows.push(row);
        }
        rows
    })
}

pub(crate) fn keys(table: &TestTable) -> Vec<String> {
    let rows = run(&["scan", &table.0, "--output", "json"]).objects();
    rows.iter()
        .map(|row| row["row"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn rows_and_mutations_are_imported() {
    let table = TestTable::with(
        "import_lines",
        &[
            "--family",
            "f",
            "--family",
            "g",
            "--prefix-length",
            "3",
            "--split",
            "m",
        ],
    );
    run(&["put", &table.0, "old", "f:q=1", "g:q=2", "--timestamp", "5"]).done();
    let input = Input::new(
        "rows.json",
        [
            r#"{"row":"a\\x00\\xFf","cells":[{"family":"f","qualifier":"","timestamp":5,"value":"\\x00"},{"family":"g","qualifier":"q","timestamp":6,"value":"é"}]}"#,
            "",
            r#"{"op":"put","row":"put","family":"f","qualifier":"q","value":"v","timestamp":7}"#,
            r#"{"op":"delete","row":"old","family":"f"}"#,
            r#"{"row":"z","cells":[{"family":"f","qualifier":"q","timestamp":8,"value":""}]}"#,
        ]
        .join("\r\n"),
    );
    let done = input.import(&table, &[]).done();
    assert_eq!(done, format!("{}: 4 lines imported\n", table.0));
    let expected = "a\\x00\\xFF  f:  5  \\x00\na\\x00\\xFF  g:q  6  \\xC3\\xA9\nold  g:q  5  2\nput  f:q  7  v\nz  f:q  8  \n";
    assert_eq!(run(&["scan", &table.0]).done(), expected);
    let names: Vec<_> = fs::read_dir(input.folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "the checkpoint is removed: {names:?}");

    let summary = input.import(&table, &["--output", "json"]);
    assert_eq!(summary.stderr, "");
    let expected = format!(
        "{{\"table\":\"{}\",\"outcome\":\"complete\",\"imported\":4,\"rejected\":0,\"line\":5}}\n",
        table.0
    );
    assert_eq!(summary.done(), expected);
}

#[test]
fn broken_lines_are_named_and_the_rest_is_imported() {
    let table = TestTable::new("import_broken");
    let input = Input::new(
        "rows.jsonl",
        [
            row("a", "1").as_bytes(),
            b"not JSON",
            row("b", "2").as_bytes(),
            br#"{"row":"c","cells":[{"family":"f","value":"v"}]}"#,
            b"{\"row\":\"\xff\"}",
            &[b"{\"row\":\"".as_slice(), &vec![b'x'; 64 << 20]].concat(),
            row("", "3").as_bytes(),
            br#"{"op":"increment","row":"n","family":"f","qualifier":"q","amount":1}"#,
            row("d", "4").as_bytes(),
        ]
        .join(&b'\n'),
    );
    let answer = input.import(&table, &["--output", "json"]);
    answer.refused(
        3,
        &[
            "rejected: line 2, column 2: not a JSON object",
            "rejected: line 4, column 46: a cell needs `qualifier`",
            "rejected: line 6 is longer than 67108864 bytes",
            "rejected: line 7: put, table",
            "empty row key",
        ],
    );
    let rejects = input.beside("rejects");
    let expected = json!({
        "table": table.0, "outcome": "complete", "imported": 3, "rejected": 6, "line": 9,
        "rejects": rejects.to_str().unwrap(),
    });
    assert_eq!(answer.objects(), [expected]);
    assert_eq!(keys(&table), ["a", "b", "d"]);
    let rejects = input.rejects();
    let numbers: Vec<_> = rejects.iter().map(|reject| &reject["line"]).collect();
    assert_eq!(numbers, [2, 4, 5, 6, 7, 8]);
    assert_eq!(
        rejects[0],
        json!({"line": 2, "error": "line 2, column 2: not a JSON object", "text": "not JSON"})
    );
    assert_eq!(rejects[2]["bytes"], r#"{"row":"\xFF"}"#);
    assert_eq!(
        rejects[3],
        json!({"line": 6, "error": "line 6 is longer than 67108864 bytes"})
    );
    assert!(!input.beside("checkpoint").exists());

    // The texts of the rejects, corrected, are the next input.
    let corrected = rejects[1]["text"]
        .as_str()
        .unwrap()
        .replace("\"value\"", "\"qualifier\":\"q\",\"value\"");
    run_with_input(&["import", &table.0, "-"], &corrected).done();
    assert_eq!(keys(&table), ["a", "b", "c", "d"]);
}

#[test]
fn import_stops_at_too_many_rejects() {
    let table = TestTable::new("import_limit");
    let mut text = String::new();
    for number in 0..10 {
        writeln!(text, "{}\nbroken", row(&number.to_string(), "v")).unwrap();
    }
    let input = Input::new("rows.json", text);
    let stopped = input.import(&table, &["--max-rejects", "2"]);
    stopped.refused(
        1,
        &[
            "more than 2 lines were rejected",
            "stopped behind line 6: run the same command with --resume",
        ],
    );
    assert_eq!(keys(&table), ["0", "1", "2"]);
    assert_eq!(input.checkpoint()["done"]["position"]["line"], 6);
    input
        .import(&table, &[])
        .refused(1, &["has stopped behind line 6; add --resume", "delete "]);
    let again = input.import(&table, &["--max-rejects", "2", "--resume"]);
    again.refused(1, &["more than 2 lines"]);
    let done = input.import(&table, &["--resume", "--output", "json"]);
    let summary = done.objects().remove(0);
    assert_eq!(
        (done.code, &summary["imported"], &summary["rejected"]),
        (3, &json!(10), &json!(10))
    );
    assert_eq!(input.rejects().len(), 10);
    assert_eq!(keys(&table).len(), 10);
    assert!(!input.beside("checkpoint").exists());
}

#[test]
fn stdin_is_imported_but_not_resumed() {
    let table = TestTable::new("import_stdin");
    let import = ["import", &table.0, "-"];
    let answer = run_with_input(&import, &format!("{}\nbroken\n{}", row("a", "1"), row("b", "2")));
    answer.refused(3, &["rejected: line 2, column 1: not a JSON object"]);
    assert_eq!(
        answer.stdout,
        format!("{}: 2 lines imported, 1 line rejected\n", table.0)
    );
    assert_eq!(keys(&table), ["a", "b"]);
    for option in [&["--resume"][..], &["--checkpoint", "c"]] {
        run(&[&import, option].concat()).refused(2, &[option[0], "stdin can't be read again"]);
    }
    let folder = tempfile::tempdir().unwrap();
    let rejects = folder.path().join("rejects");
    let options = ["--rejects", rejects.to_str().unwrap(), "--max-rejects", "0"];
    let stopped = run_with_input(&[&import[..], &options].concat(), "broken\n");
    stopped.refused(1, &["stopped behind line 1: this input can't be resumed"]);
    assert_eq!(objects(&rejects).len(), 1);
}

#[rstest]
#[case("rows.json", &["--checkpoint", "FILE"], "--checkpoint")]
#[case("rows.json", &["--rejects", "FILE"], "--rejects")]
#[case("rows.json", &["--checkpoint", "absent", "--rejects", "./absent"], "--rejects")]
#[case("rows.csv", &[], "--format json or --format tsv")]
#[case("rows.tsv", &[], "TSV needs --columns")]
#[case("rows.json", &["--format", "json", "--columns", "HBASE_ROW_KEY,f:q"], "--columns is for TSV")]
fn unusable_options_are_refused(#[case] name: &'static str, #[case] options: &[&str], #[case] why: &str) {
    let input = Input::new(name, "{}");
    let path = input.path();
    let options: Vec<_> = options
        .iter()
        .map(|word| if *word == "FILE" { &*path } else { *word })
        .collect();
    let answer = run(&[&["import", "absent", &path], &options[..]].concat());
    answer.refused(2, &[why]);
    assert_eq!(fs::read_to_string(input.file()).unwrap(), "{}");
}

#[test]
fn missing_file_or_table_leaves_no_checkpoint() {
    let input = Input::new("rows.json", lines(10));
    let absent = unique_name("absent");
    let answer = run(&["import", &absent, &input.path()]);
    answer.refused(1, &["run hbase-txn table list"]);
    assert!(!input.beside("checkpoint").exists() && !input.beside("rejects").exists());
    let missing = input.beside("missing.json");
    let missing = missing.to_str().unwrap();
    run(&["import", &absent, missing]).refused(1, &["reading", missing]);
}

/// A delete and a put of one row in one millisecond would leave no cell.
#[test]
fn put_behind_a_delete_of_its_row_survives() {
    let table = TestTable::new("import_order");
    let mut text = String::new();
    for number in 0..100 {
        let key = format!("{number:03}");
        writeln!(text, "{}", row(&key, "first")).unwrap();
        writeln!(text, r#"{{"op":"delete","row":"{key}"}}"#).unwrap();
        writeln!(text, "{}", row(&key, "last")).unwrap();
    }
    Input::new("rows.json", text).import(&table, &[]).done();
    let rows = scan(&table);
    assert_eq!(rows.len(), 100);
    assert!(rows.iter().all(|row| row.value("f", "q").unwrap() == "last"));
}

/// A forwarder that holds the answers of the server, and its runtime.
pub(crate) struct Held {
    pub(crate) forwarder: Forwarder,
    _runtime: Runtime,
}

/// Returns a forwarder to the cluster, and its URI.
pub(crate) fn forwarder() -> (Held, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = standalone().status.ports["region-server"];
    let forwarder = runtime.block_on(Forwarder::in_front_of(server));
    let uri = format!("hbase+rpc://127.0.0.1:{}", forwarder.port);
    let held = Held {
        forwarder,
        _runtime: runtime,
    };
    (held, uri)
}

/// Starts an import, and holds the answers to its writes after some of them.
pub(crate) fn import_until_held(table: &TestTable, input: &Input, options: &[&str]) -> (Child, Held) {
    let (held, uri) = forwarder();
    let child = command([&["import", &table.0, &input.path()], options].concat())
        .env("HBASE_TXN_CONNECT", uri)
        .spawn()
        .unwrap();
    until(|| held.forwarder.answered() > ANSWERS);
    held.forwarder.hold(true);
    (child, held)
}

#[track_caller]
pub(crate) fn until(mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(Instant::now() < deadline, "it has not become true");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Resumes an import, and checks that each row is there and that none before the checkpoint was
/// written again. Returns how many were.
#[track_caller]
fn resume(table: &TestTable, input: &Input) -> usize {
    let checkpoint = input.checkpoint();
    let line = checkpoint["done"]["position"]["line"].as_u64().unwrap();
    let line = usize::try_from(line).unwrap();
    assert!(line > 0 && line < RESUMED, "{checkpoint}");
    let before = scan(table);
    let done = input.import(table, &["--resume", "--output", "json"]);
    let summary: Value = serde_json::from_str(&done.done()).unwrap();
    assert_eq!(summary["imported"], RESUMED);
    let after = scan(table);
    assert_eq!(after.len(), RESUMED);
    assert!(
        before[..line] == after[..line],
        "rows before the checkpoint were written again"
    );
    let again = before.len() - line;
    eprintln!("{RESUMED} rows: stopped behind line {line}, {again} were written again");
    again
}

/// Reads a line of its stderr.
fn complaint(stderr: &mut impl BufRead) -> String {
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    line
}

#[rstest]
#[case::waits_for_the_lines_in_flight(false)]
#[case::second_signal_ends_the_wait(true)]
fn interrupted_import_is_resumed(#[case] twice: bool) {
    let table = TestTable::new("import_interrupted");
    let input = Input::new("rows.json", lines(RESUMED));
    let (mut child, held) = import_until_held(&table, &input, &[]);
    let pid = Pid::from_child(&child);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    kill_process(pid, Signal::INT).unwrap();
    assert!(complaint(&mut stderr).contains("waiting for the lines in flight"));
    if twice {
        kill_process(pid, Signal::INT).unwrap();
    } else {
        held.forwarder.hold(false);
    }
    let stopped = answer(child);
    assert_eq!(stopped.code, 130, "{stopped:?}");
    assert_eq!(complaint(&mut stderr), "hbase-txn: interrupted\n");
    let next = complaint(&mut stderr);
    assert!(
        next.contains("run the same command with --resume to continue there"),
        "{next}"
    );
    drop(held);
    let again = resume(&table, &input);
    assert!(twice || again == 0, "{again} lines were written before and after");
}

#[test]
fn killed_import_is_resumed() {
    let table = TestTable::new("import_killed");
    let input = Input::new("rows.json", lines(RESUMED));
    let (child, held) = import_until_held(&table, &input, &[]);
    until(|| input.checkpoint()["done"]["position"]["line"] != 0);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(answer(child).code, -1);
    drop(held);
    let again = resume(&table, &input);
    assert!(again < RESUMED / 2, "{again} lines were written before and after");
}

#[test]
fn import_stops_when_the_server_does_not_answer() {
    let table = TestTable::new("import_silent");
    let input = Input::new("rows.json", lines(RESUMED));
    let (child, held) = import_until_held(&table, &input, &["--timeout", "2s"]);
    let stopped = answer(child);
    assert_eq!(stopped.code, 1, "{stopped:?}");
    assert!(stopped.stderr.contains("--resume"), "{stopped:?}");
    assert!(!input.beside("rejects").exists(), "no line is broken");
    drop(held);
    let again = resume(&table, &input);
    assert!(again < RESUMED / 2, "{again} lines were written before and after");
}

#[test]
fn changed_file_is_not_resumed() {
    let table = TestTable::new("import_changed");
    let input = Input::new(
        "rows.json",
        format!("{}\nbroken\n{}\n", row("a", "1"), row("b", "2")),
    );
    input
        .import(&table, &["--max-rejects", "0"])
        .refused(1, &["behind line 2"]);
    let original = fs::read_to_string(input.file()).unwrap();
    for (changed, why) in [
        (format!("{original}\n"), "bytes"),
        (original.replace("\"1\"", "\"9\""), "it begins with other lines"),
    ] {
        fs::write(input.file(), changed).unwrap();
        let refused = input.import(&table, &["--resume"]);
        refused.refused(
            1,
            &["rows.json has changed since line 2 was imported", why, "delete "],
        );
    }
    fs::write(input.file(), original).unwrap();
    let other = TestTable::new("import_other");
    input
        .import(&other, &["--resume"])
        .refused(1, &["an import into table"]);
    input.import(&table, &["--resume"]).refused(3, &[]);
    assert_eq!(keys(&table), ["a", "b"]);
}

#[test]
fn tsv_is_imported_as_import_tsv_does() {
    let table = TestTable::odd(
        "import_tsv",
        |table| table.with_family(FamilyDescriptor::new("f")),
        &[],
    );
    let input = Input::new(
        "rows.tsv",
        "r1\t5\t1\t\\x00\\x09\nr2\t6\t\\N\t\nr3\t7\t1\nr4\tsoon\t1\t2\nr5\t8\t\\q\t2\n",
    );
    let columns = ["--columns", "HBASE_ROW_KEY,HBASE_TS_KEY,f:a,f:b"];
    let answer = input.import(&table, &columns);
    answer.refused(
        3,
        &[
            "rejected: line 3: 3 fields instead of 4",
            "rejected: line 4, field 2: the timestamp is \"soon\"",
            "rejected: line 5, field 3: a stray backslash",
        ],
    );
    assert_eq!(
        run(&["scan", &table.0]).done(),
        "r1  f:a  5  1\nr1  f:b  5  \\x00\\x09\nr2  f:b  6  \n"
    );
    assert_eq!(input.rejects()[0]["text"], "r3\t7\t1");
    let raw = ["--columns", "f:a,HBASE_ROW_KEY", "--separator", ";", "--raw"];
    let raw = run_with_input(&[&["import", &table.0, "-"], &raw[..]].concat(), "\\N\t;r6\n");
    raw.done();
    assert!(run(&["get", &table.0, "r6"]).done().ends_with("  \\x5CN\\x09\n"));
}

#[test]
fn large_file_is_imported_in_bounded_memory() {
    let rows = match env::var_os("HBASE_TXN_TEST_LONG") {
        Some(_) => 1_000_000,
        None => 100_000,
    };
    let table = TestTable::odd(
        "import_large",
        |table| table.with_family(FamilyDescriptor::new("f")),
        &["0025000", "0050000", "0075000"],
    );
    let mut text = String::new();
    for number in 0..rows {
        let key = format!("{number:07}");
        writeln!(text, "{}", row(&key, &format!("{key:-<100}"))).unwrap();
    }
    let input = Input::new("rows.json", text);
    let began = Instant::now();
    let mut import = command(["import", &table.0, &input.path()])
        .env("HBASE_TXN_CONNECT", uri())
        .spawn()
        .unwrap();
    let mut most = 0;
    until(|| {
        most = most.max(peak(&import));
        import.try_wait().unwrap().is_some()
    });
    let took = began.elapsed();
    let done = answer(import).done();
    assert_eq!(done, format!("{}: {rows} lines imported\n", table.0));
    eprintln!("{rows} rows: imported in {took:?}, in {most} KiB");
    assert!(most < MAX_RESIDENT, "{most} KiB to import {rows} rows");
    let last = format!("{:07}", rows - 10);
    let found = run(&["scan", &table.0, "--start-row", &last]).done();
    assert_eq!(found.lines().count(), 10);
}

/// Runs the commands of the page in order, and compares what they print.
#[test]
fn commands_of_the_page_print_what_it_shows() {
    let table = unique_name("visitors");
    let page = fs::read_to_string(concat!(env!("REPOSITORY"), "/docs/importing.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_hbase-txn"))
        .parent()
        .unwrap()
        .to_str()
        .unwrap();
    let path = format!("{binary}:{}", env::var("PATH").unwrap());
    let mut printed = String::new();
    let mut runs = 0;
    for block in page.replace("visitors", &table).split("```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap();
        match language {
            "sh" => {
                let mut shell = with_default_signals("sh");
                shell.args(["-euc", text]).current_dir(folder.path());
                let shell = shell.env("PATH", &path).env("HBASE_TXN_CONNECT", uri()).spawn();
                printed = answer(shell.unwrap()).done();
                runs += 1;
            }
            "text" => assert_eq!(
                printed
                    .lines()
                    .rev()
                    .take(text.lines().count())
                    .collect::<Vec<_>>(),
                text.lines().rev().collect::<Vec<_>>()
            ),
            other => panic!("{other}: {text}"),
        }
    }
    assert!(runs > 3);
    run(&["table", "drop", &table, "--yes"]).done();
}
