//! `lock watch` and `elect watch`.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    client_side::coordination,
    client_side::locks::{arguments, lock, lock_table, told},
    harness::{TestTable, answer, run, run_alone, start},
};

/// A watch, and its stdout.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(arguments: &[&str]) -> Self {
        let mut child = start(arguments);
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn object(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }
}

#[track_caller]
fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn lock_watch_prints_each_change_until_a_signal() {
    let table = lock_table("watch");
    let mut watch = Watch::start(&arguments(&table, "watch", "a", &["b", "--renewals"]));
    let mut free = [watch.object(), watch.object()];
    free.sort_by_key(|object| object["lock"].to_string());
    for (object, id) in free.iter().zip(["a", "b"]) {
        let of = (&object["lock"], &object["event"], &object["waiting"]);
        assert_eq!(
            of,
            (&json!(format!("DC#fra#svc#{id}")), &json!("free"), &json!(0))
        );
        let expected = [
            "at",
            "event",
            "fencing",
            "holder",
            "lock",
            "remaining_ms",
            "token",
            "waiting",
        ];
        assert_eq!(keys(object), expected);
        assert_eq!(
            (&object["fencing"], &object["holder"]),
            (&Value::Null, &Value::Null)
        );
    }
    let acquired = told(
        &lock(&table, "acquire", "b", &["--ttl", "60s", "--holder", "me"]),
        0,
    );
    let event = watch.object();
    assert_eq!(
        [
            &event["lock"],
            &event["event"],
            &event["holder"],
            &event["token"],
            &event["fencing"]
        ],
        [
            &json!("DC#fra#svc#b"),
            &json!("acquired"),
            &json!("me"),
            &acquired["token"],
            &acquired["fencing"]
        ]
    );
    assert!(event["remaining_ms"].as_u64().unwrap() <= 60_000, "{event}");
    let token = ["--token", acquired["token"].as_str().unwrap()];
    told(
        &lock(&table, "renew", "b", &[&token[..], &["--ttl", "70s"]].concat()),
        0,
    );
    assert_eq!(watch.object()["event"], "renewed");
    told(&lock(&table, "release", "b", &token), 0);
    let event = watch.object();
    assert_eq!(
        [&event["event"], &event["holder"], &event["remaining_ms"]],
        [&json!("released"), &json!("me"), &Value::Null]
    );
    told(&lock(&table, "acquire", "a", &["--ttl", "1s"]), 0);
    assert_eq!(watch.object()["event"], "acquired");
    assert_eq!(watch.object()["event"], "expired");
    kill_process(Pid::from_child(&watch.child), Signal::INT).unwrap();
    let stopped = answer(watch.child);
    assert_eq!((stopped.code, &stopped.stderr[..]), (0, ""));
}

#[test]
fn watch_ends_after_its_time_or_its_number_of_changes() {
    let table = lock_table("watch_ends");
    let began = Instant::now();
    let watched = lock(&table, "watch", "a", &["--wait", "1s"]);
    assert_eq!(told(&watched, 0)["event"], "free");
    assert!(began.elapsed() >= Duration::from_secs(1));
    told(
        &lock(&table, "watch", "a", &["--wait", "100ms", "--count", "1"]),
        3,
    );
    let none = lock(&table, "watch", "a", &["--count", "0"]);
    assert_eq!((none.code, &none.stdout[..]), (0, ""));

    let page = [
        "lock", "watch", &table.0, "a", "--farm", "fra", "--client", "svc", "--count", "2",
    ];
    let mut watch = Watch::start(&page);
    assert!(watch.line().ends_with("Z  DC#fra#svc#a: free\n"));
    let holder = ["--ttl", "2s", "--holder", "a\nb"];
    told(&lock(&table, "acquire", "a", &holder), 0);
    let line = watch.line();
    assert!(line.contains(r"DC#fra#svc#a: acquired by a\nb, "), "{line}");
    assert!(line.contains(" left; fencing number "), "{line}");
    let line = watch.line();
    assert!(
        line.contains(r": expired, last held by a\nb; fencing number "),
        "{line}"
    );
    assert_eq!(answer(watch.child).code, 0);
}

#[test]
fn elect_watch_prints_leaders_and_their_terms() {
    let table = lock_table("watch_elect");
    let arguments = coordination::arguments(&table, ["elect", "watch"], &[], &["--count", "2"]);
    let mut watch = Watch::start(&arguments);
    let free = watch.object();
    let expected = [
        "at",
        "election",
        "event",
        "holder",
        "remaining_ms",
        "term",
        "token",
    ];
    assert_eq!(keys(&free), expected);
    assert_eq!(
        (&free["election"], &free["event"]),
        (&json!("LEAD#DC#fra#svc#a"), &json!("free"))
    );
    let leads = ["--holder", "first", "--", "sleep", "1"];
    run(&coordination::arguments(&table, ["elect", "run"], &[], &leads)).done();
    let elected = watch.object();
    assert_eq!(
        (&elected["event"], &elected["holder"]),
        (&json!("acquired"), &json!("first"))
    );
    assert!(elected["term"].is_u64(), "{elected}");
    let resigned = watch.object();
    assert_eq!(
        (&resigned["event"], &resigned["term"]),
        (&json!("released"), &elected["term"])
    );
    assert_eq!(answer(watch.child).code, 0);
}

#[test]
fn watch_of_a_table_that_disappears_fails() {
    let table = lock_table("watch_dropped");
    let mut watch = Watch::start(&arguments(&table, "watch", "a", &[]));
    assert_eq!(watch.object()["event"], "free");
    let name = table.0.clone();
    drop(table);
    let failed = answer(watch.child);
    failed.refused(1, &["DC#fra#svc#a", &name]);
    let missing = TestTable(name);
    lock(&missing, "watch", "a", &[]).refused(1, &[&missing.0, "table list"]);
}

#[test]
fn invalid_names_are_refused_before_any_call() {
    let watch = |which: &[&str]| run_alone(&[&["lock", "watch", "locks", "a"], which].concat());
    watch(&["--client", "svc"]).refused(2, &["--farm"]);
    watch(&["--client", "a#b", "--level", "xdc"]).refused(1, &["a#b"]);
    watch(&["--client", "svc", "--level", "xdc", "--wait", "-1s"]).refused(2, &["--wait -1s"]);
    watch(&["--client", "svc", "--level", "xdc", "--count", "-1"]).refused(2, &["--count -1"]);
}
