//! Where a command is, which tables it means, and how it ends.

use std::{collections::BTreeSet, env, fs, path::Path};

use hbase_txn::client::FamilyDescriptor;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    client_side::locks::{lock, lock_table},
    harness::{
        Answer, TestTable, answer, command, run, run_alone, run_with_input, start, stdout_and_reader,
        until_caught, uri,
    },
};

#[test]
fn status_names_the_cluster_and_the_tables_for_transactions() {
    let table = TestTable::new("status");
    let plain = TestTable::odd(
        "status-plain",
        |table| table.with_family(FamilyDescriptor::new("f")),
        &[],
    );
    let status = run(&["status", "--output", "json"]).objects().remove(0);
    assert_eq!(status["source"], "environment variable HBASE_TXN_CONNECT");
    assert_eq!(status["authentication"], "simple");
    let transactions = status["transactions"].as_array().unwrap();
    assert!(transactions.contains(&table.0.as_str().into()), "{status}");
    assert!(!transactions.contains(&plain.0.as_str().into()), "{status}");
    assert!(!status["servers"].as_array().unwrap().is_empty(), "{status}");
    assert!(
        status["master"]
            .as_str()
            .is_some_and(|master| master.contains(',')),
        "{status}"
    );
    let page = run(&["status"]).done();
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(
        lines[0],
        format!("cluster       {}", status["cluster"].as_str().unwrap())
    );
    assert_eq!(lines[1], "chosen by     environment variable HBASE_TXN_CONNECT");
    assert!(page.contains(status["release"].as_str().unwrap()), "{page}");
}

#[test]
fn status_names_a_cluster_that_can_not_be_reached() {
    let unreachable = run_alone(&[
        "status",
        "--connect",
        "hbase+rpc://127.0.0.1:1",
        "--timeout",
        "2s",
    ]);
    unreachable.refused(1, &["127.0.0.1:1"]);
    assert!(
        unreachable
            .stdout
            .contains("hbase+rpc://127.0.0.1:1\nchosen by     --connect\n"),
        "{unreachable:?}"
    );
}

#[test]
fn the_cluster_that_counts_is_named_if_the_environment_has_two() {
    let folder = tempfile::tempdir().unwrap();
    let site = "<configuration><property><name>hbase.zookeeper.quorum</name><value>other</value></property></configuration>";
    fs::write(folder.path().join("hbase-site.xml"), site).unwrap();
    let list = |arguments: &[&str]| {
        let mut list = command([&["table", "list"], arguments].concat());
        list.env("HBASE_TXN_CONNECT", uri())
            .env("HBASE_CONF_DIR", folder.path());
        answer(list.spawn().unwrap())
    };
    let listed = list(&[]);
    assert!(
        listed
            .stderr
            .contains(&format!("the cluster is {}", uri().split('?').next().unwrap()))
            && listed
                .stderr
                .contains("HBASE_CONF_DIR, which names hbase+zk://other:2181/hbase, is not used"),
        "{listed:?}"
    );
    listed.done();
    let chosen = list(&["--connect", uri()]);
    assert_eq!(chosen.stderr, "");
    chosen.done();
}

#[test]
fn tables_are_listed_with_what_they_are_for() {
    let table = TestTable::new("wide");
    let t = table.0.as_str();
    let listed = run(&["table", "list", "--wide", "--output", "json"]).objects();
    let found = listed.iter().find(|object| object["table"] == t).unwrap();
    assert_eq!(
        *found,
        serde_json::json!({"table": t, "state": "enabled", "regions": 1, "rule": {"prefix_length": 3}, "endpoint": true})
    );
    let page = run(&["table", "list", "--wide"]).done();
    let line = page
        .lines()
        .find(|line| line.trim_start().starts_with(t))
        .unwrap();
    assert!(line.contains("enabled") && line.contains("yes"), "{line}");
}

#[test]
fn a_similar_name_is_suggested_and_never_a_new_table() {
    let table = TestTable::new("suggested");
    let mistyped = table.0.replace("suggested", "sugested");
    let refused = run(&["scan", &mistyped]);
    refused.refused(1, &[&format!("did you mean {}?", table.0)]);
    let unknown = run(&["get", "zzzzzzzzzzzz", "r"]);
    unknown.refused(1, &["run hbase-txn table list"]);
    for refusal in [refused, unknown] {
        assert!(!refusal.stderr.contains("create"), "{refusal:?}");
    }
}

#[test]
fn shells_complete_names_of_tables() {
    let table = TestTable::new("completed");
    let complete = |words: &[&str]| {
        let mut complete = command([&["--", "hbase-txn"], words].concat());
        complete
            .env("HBASE_TXN_COMPLETE", "fish")
            .env("HBASE_TXN_CONNECT", uri());
        answer(complete.spawn().unwrap()).done()
    };
    assert_eq!(
        complete(&["get", &table.0[..table.0.len() - 3]]).trim_end(),
        table.0
    );
    assert!(complete(&["table", "dro"]).starts_with("drop"));
    let elsewhere = complete(&["get", "--connect", "hbase+rpc://127.0.0.1:1", ""]);
    assert!(!elsewhere.contains(&table.0), "{elsewhere}");
}

/// Returns the statuses that the table in the command's README has.
fn documented() -> BTreeSet<i32> {
    let readme = fs::read_to_string(Path::new(env!("REPOSITORY")).join("crates/cli/README.md")).unwrap();
    let cells = readme.lines().filter_map(|line| line.strip_prefix("| "));
    cells
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect()
}

#[test]
fn exit_statuses_are_as_documented() {
    let table = TestTable::new("statuses");
    let locks = lock_table("statuses_locks");
    let t = table.0.as_str();
    let create = |rule: &[&str]| run(&[&["table", "create", t, "--family", "f"], rule].concat());
    let record = run(&["txn", "outcome", t, "xxx", "no-such-id"]);
    let rejected = run_with_input(&["import", t, "-"], "no JSON\n");
    // It waits for its input, so it can be interrupted.
    let interrupted = start(&["import", t, "-"]);
    run(&["put", t, "xxx1", "f:q=v"]).done();
    let statuses: &[(i32, Answer)] = &[
        (0, run(&["get", t, "xxx1"])),
        (1, run(&["get", t, "xxx1", "--family", "nosuch"])),
        (2, create(&["--prefix-length", "three"])),
        (2, create(&["--prefix-length", "0"])),
        (2, create(&["--prefix-length", "99999999999999999999"])),
        (2, run(&["get", t, "xxx1", "--timeout", "0s"])),
        (3, create(&["--prefix-length", "3"])),
        (3, rejected),
        (4, record),
        (126, lock(&locks, "run", "a", &["--", "/"])),
        (127, lock(&locks, "run", "a", &["--", "no-such-command"])),
        (130, {
            let pid = Pid::from_child(&interrupted);
            until_caught(pid, Signal::INT);
            kill_process(pid, Signal::INT).unwrap();
            answer(interrupted)
        }),
        (141, {
            let (stdout, reader) = stdout_and_reader();
            let mut child = command(["completions", "bash"]).stdout(stdout).spawn().unwrap();
            drop(reader);
            let code = child.wait().unwrap().code().unwrap();
            Answer {
                code,
                ..run_alone(&["--version"])
            }
        }),
    ];
    for (status, answer) in statuses {
        assert_eq!(answer.code, *status, "{answer:?}");
    }
    let tried: BTreeSet<i32> = statuses.iter().map(|(status, _)| *status).collect();
    assert_eq!(tried, documented());
}
