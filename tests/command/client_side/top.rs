//! `lock top`.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::tempdir;

use crate::{
    client_side::locks::{acquire, arguments, lock, lock_table, told},
    harness::{TestTable, answer, run, start, until_caught},
};

/// Returns the ids, the waiting processes and the totals of one screen.
fn screen(table: &TestTable, options: &[&str]) -> (Vec<(String, u64)>, [u64; 2]) {
    let top = ["lock", "top", &table.0, "--count", "1", "--output", "json"];
    let screen = told(&run(&[&top, options].concat()), 0);
    let locks = screen["locks"].as_array().unwrap().iter();
    let locks = locks.map(|lock| {
        assert!(lock["holder"].is_string() && lock["age_ms"].is_u64(), "{lock}");
        (
            lock["id"].as_str().unwrap().to_owned(),
            lock["waiting"].as_u64().unwrap(),
        )
    });
    (
        locks.collect(),
        ["held", "waiting"].map(|total| screen[total].as_u64().unwrap()),
    )
}

#[test]
fn locks_are_ranked_by_waiters_and_by_age() {
    let table = lock_table("top");
    for id in ["old", "wanted"] {
        acquire(&table, id, &["--holder", "me"]);
    }
    let waiting: Vec<_> = ["one", "two"]
        .into_iter()
        .map(|holder| {
            start(&arguments(
                &table,
                "acquire",
                "wanted",
                &["--holder", holder, "--wait", "2m"],
            ))
        })
        .collect();
    let end = Instant::now() + Duration::from_secs(60);
    let wanted = ("wanted".to_owned(), 2);
    while screen(&table, &[]) != (vec![wanted.clone(), ("old".to_owned(), 0)], [2, 2]) {
        assert!(Instant::now() < end, "{:?}", screen(&table, &[]));
    }
    let (locks, totals) = screen(&table, &["--by", "held", "--rows", "1"]);
    assert_eq!((locks, totals), (vec![("old".to_owned(), 0)], [2, 2]));
    assert_eq!(told(&lock(&table, "show", "wanted", &[]), 0)["waiting"], json!(2));
    let shown = run(&["lock", "show", &table.0, "DC#fra#svc#wanted"]).done();
    assert!(shown.contains("; 2 waiting"), "{shown}");

    let folder = tempdir().unwrap();
    let file = folder.path().join("locks.prom");
    let metrics = [
        "--count",
        "2",
        "--interval",
        "100ms",
        "--metrics",
        file.to_str().unwrap(),
    ];
    let page = run(&[&["lock", "top", &table.0][..], &metrics].concat()).done();
    assert_eq!(page.matches(": 2 locks held, 2 waiting\n").count(), 2, "{page}");
    assert!(!page.contains('\x1b'), "no terminal is cleared: {page}");
    let lines: Vec<&str> = page.lines().collect();
    assert!(
        lines[2].contains("DC#fra#svc#wanted") && lines[3].contains("DC#fra#svc#old"),
        "{page}"
    );
    let text = fs::read_to_string(&file).unwrap();
    let table_label = format!("table=\"{}\"", table.0);
    for expected in [
        format!("hbase_txn_table_locks_held{{{table_label}}} 2\n"),
        format!("hbase_txn_table_lock_waiters{{{table_label}}} 2\n"),
        format!("hbase_txn_lock_waiters{{{table_label},lock=\"DC#fra#svc#wanted\"}} 2\n"),
        format!("hbase_txn_lock_held_seconds{{{table_label},lock=\"DC#fra#svc#old\"}} "),
    ] {
        assert!(text.contains(&expected), "{expected} is not in\n{text}");
    }
    for child in waiting {
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        answer(child);
    }
}

#[test]
fn top_ends_at_a_signal() {
    let table = lock_table("top-signal");
    let top = start(&["lock", "top", &table.0, "--interval", "1h"]);
    let pid = Pid::from_child(&top);
    // The last handler that is installed: that of TERM has a listener by then.
    until_caught(pid, Signal::USR2);
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(answer(top).code, 0);
    run(&["lock", "top", &table.0, "--metrics", "/"]).refused(1, &["this is no file"]);
}
