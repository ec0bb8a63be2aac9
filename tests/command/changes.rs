//! `--change-log` and `--sign`.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Answer, TestTable, run, unique_name};

const LAST_CHANGE: &str = "hbase-txn.last-change";

struct Log(TempDir);

impl Log {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> String {
        self.0.path().join("changes.jsonl").to_str().unwrap().to_owned()
    }

    /// Runs a command that must succeed, with the log.
    fn done(&self, line: &[&str]) -> Answer {
        let answer = run(&[line, &["--change-log", &self.path()]].concat());
        assert_eq!(answer.code, 0, "{answer:?}");
        answer
    }

    /// Returns the first and the last line of each change, in the order of the first ones.
    fn changes(&self) -> Vec<(Value, Value)> {
        let text = fs::read_to_string(self.path()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of = |event: &str| {
            lines
                .iter()
                .filter(|line| line["event"] == event)
                .cloned()
                .collect::<Vec<_>>()
        };
        let (begun, ended) = (of("begins"), of("ends"));
        assert_eq!(begun.len() + ended.len(), lines.len(), "{text}");
        let pairs = begun.into_iter().map(|begun| {
            let ended = ended.iter().find(|ended| ended["id"] == begun["id"]);
            (begun, ended.unwrap().clone())
        });
        pairs.collect()
    }
}

fn described(table: &str) -> Value {
    let answer = run(&["table", "describe", table, "--output", "json"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.objects()[0].clone()
}

#[test]
fn each_change_of_a_table_is_logged_with_what_was_before() {
    let (log, table) = (Log::new(), TestTable(unique_name("changes")));
    let name = &*table.0;
    log.done(&["table", "create", name, "--family", "f", "--prefix-length", "3"]);
    log.done(&["table", "alter", name, "--family-attribute", "f:VERSIONS=3"]);
    log.done(&["table", "describe", name]);
    log.done(&["table", "drop", name, "--yes"]);
    let changes = log.changes();
    let calls: Vec<_> = changes
        .iter()
        .map(|(begun, _)| begun["change"].as_str().unwrap())
        .collect();
    assert_eq!(
        calls,
        ["CreateTable", "ModifyTable", "DisableTable", "DeleteTable"]
    );
    for (begun, ended) in &changes {
        assert_eq!(ended["result"], "done", "{ended}");
        assert!(
            begun["user"].as_str().is_some_and(|user| !user.is_empty()),
            "{begun}"
        );
        assert!(
            begun["cluster"].as_str().unwrap().starts_with("hbase+"),
            "{begun}"
        );
        assert_eq!(begun["command"][1], "table");
    }
    let versions = |begun: &Value, when: &str| begun[when]["families"]["f"]["VERSIONS"].clone();
    assert!(changes[0].0.get("before").is_none());
    assert_eq!(changes[0].0["after"]["table"], name);
    assert_ne!(versions(&changes[1].0, "before"), "3");
    assert_eq!(versions(&changes[1].0, "after"), "3");
    assert!(changes[2].0["request"].as_str().unwrap().contains(name));
    assert_eq!(versions(&changes[3].0, "before"), "3");
    let mode = fs::metadata(log.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn change_that_the_master_refuses_is_logged_as_failed() {
    let (log, table) = (Log::new(), TestTable::new("changes"));
    let create = [
        "table",
        "create",
        &table.0,
        "--family",
        "f",
        "--prefix-length",
        "3",
    ];
    let answer = run(&[&create[..], &["--change-log", &log.path()]].concat());
    assert_ne!(answer.code, 0, "{answer:?}");
    let changes = log.changes();
    let (_, ended) = changes.last().unwrap();
    assert_eq!(ended["result"], "failed");
    assert!(
        ended["error"].as_str().unwrap().contains("TableExists"),
        "{ended}"
    );
}

#[test]
fn change_is_not_sent_if_the_log_cannot_be_written() {
    let table = TestTable::new("changes");
    let before = described(&table.0);
    for (path, why) in [
        ("/dev/full", "No space left on device"),
        ("/no/such/folder/changes", "No such file or directory"),
    ] {
        let answer = run(&[
            "table",
            "alter",
            &table.0,
            "--family",
            "new",
            "--change-log",
            path,
        ]);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.stderr.contains("log of changes"), "{answer:?}");
        assert!(
            answer.stderr.contains(path) && answer.stderr.contains(why),
            "{answer:?}"
        );
    }
    assert_eq!(described(&table.0), before);
    let read = run(&["table", "describe", &table.0, "--change-log", "/dev/full"]);
    assert_eq!(read.code, 0, "{read:?}");
}

#[test]
fn signature_names_the_last_change_and_is_no_difference() {
    let table = TestTable(unique_name("changes"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.toml");
    let file = file.to_str().unwrap();
    let write = |versions: u32| {
        let text = format!(
            "table = '{}'\npartition = {{prefix_length = 3}}\nfamily = [{{name = 'f', versions = {versions}}}]\n",
            table.0
        );
        fs::write(file, text).unwrap();
    };
    let apply = |more: &[&str]| {
        let answer = run(&[&["provision", "apply", file], more].concat());
        assert_eq!(answer.code, 0, "{answer:?}");
        described(&table.0)["attributes"][LAST_CHANGE].clone()
    };
    write(1);
    let created = apply(&["--sign"]);
    assert!(
        created.as_str().is_some_and(|text| text.contains('@')),
        "{created}"
    );
    assert_eq!(apply(&[]), created, "nothing was changed");
    let plan = run(&["provision", "plan", file, "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "{plan:?}");
    assert!(!plan.stdout.contains(LAST_CHANGE), "{plan:?}");
    write(2);
    let changed = apply(&["--sign"]);
    assert_ne!(changed, created);
    let exported = run(&["provision", "export", &table.0]);
    assert!(
        exported.code == 0 && !exported.stdout.contains(LAST_CHANGE),
        "{exported:?}"
    );
    write(3);
    assert_eq!(apply(&[]), Value::Null, "an unsigned change");
    let altered = run(&["table", "alter", &table.0, "--splits", "off", "--sign"]);
    assert_eq!(altered.code, 0, "{altered:?}");
    assert_ne!(described(&table.0)["attributes"][LAST_CHANGE], Value::Null);
}
