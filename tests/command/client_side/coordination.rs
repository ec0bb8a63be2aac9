//! `semaphore`, `elect`, `rwlock` and `group`.

use std::{
    io::Read,
    time::{Duration, Instant},
};

use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    client_side::locks::{lock_table, told},
    harness::{Answer, TestTable, answer, run, run_alone, start, status_of, unique_name},
};

/// The arguments of a command on a semaphore, lock or election of client `svc` in farm `fra`.
pub(crate) fn arguments<'a>(
    table: &'a TestTable,
    words: [&'a str; 2],
    positional: &[&'a str],
    options: &[&'a str],
) -> Vec<&'a str> {
    let which = ["--farm", "fra", "--client", "svc", "--output", "json"];
    [&words, &[&table.0[..], "a"][..], positional, &which, options].concat()
}

fn semaphore(table: &TestTable, action: &str, positional: &[&str], options: &[&str]) -> Answer {
    run(&arguments(table, ["semaphore", action], positional, options))
}

fn elect(table: &TestTable, action: &str, options: &[&str]) -> Answer {
    run(&arguments(table, ["elect", action], &[], options))
}

fn rwlock(table: &TestTable, action: &str, options: &[&str]) -> Answer {
    run(&arguments(table, ["rwlock", action], &[], options))
}

/// Repeats the query until its answer satisfies the condition.
#[track_caller]
pub(crate) fn until(what: &str, ask: impl Fn() -> Answer, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let seen = told(&ask(), 0);
        if so(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "never {what}: {seen}");
    }
}

/// A command that runs until a line or the end of its stdin.
pub(crate) const UNTIL_TOLD: [&str; 4] = [
    "--",
    "sh",
    "-c",
    "read line; echo $HBASE_TXN_LOCK $HBASE_TXN_FENCING",
];

#[test]
fn permits_stay_held_after_the_command_until_their_release() {
    let table = lock_table("permits");
    let created = told(&semaphore(&table, "create", &["3"], &[]), 0);
    assert_eq!(created, json!({"semaphore": "SEM#DC#fra#svc#a", "permits": 3}));
    assert_eq!(told(&semaphore(&table, "create", &["3"], &[]), 0), created);
    semaphore(&table, "create", &["4"], &[]).refused(3, &["4 permits", "with 3", &table.0]);
    let two = ["--permits", "2", "--holder", "me", "--ttl", "60s"];
    let acquired = told(&semaphore(&table, "acquire", &[], &two), 0);
    let keys: Vec<_> = acquired.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["fencing", "permits", "semaphore", "token", "ttl_ms"]);
    assert_eq!(
        (&acquired["permits"], &acquired["ttl_ms"]),
        (&json!(2), &json!(60_000))
    );
    let refused = semaphore(&table, "acquire", &[], &two);
    refused.refused(3, &["SEM#DC#fra#svc#a", "2 of 3 permits", "me", "semaphore show"]);
    assert_eq!(refused.stdout, "");
    let shown = told(&semaphore(&table, "show", &[], &[]), 0);
    assert_eq!((&shown["permits"], &shown["available"]), (&json!(3), &json!(1)));
    // The refused attempt held a permit for a moment, which also raises the number.
    assert!(
        shown["fencing"].as_u64() >= acquired["fencing"].as_u64(),
        "{shown} after {acquired}"
    );
    let holder = &shown["holders"][0];
    assert_eq!((&holder["permits"], &holder["holder"]), (&json!(2), &json!("me")));
    assert!(holder["remaining_ms"].as_u64().unwrap() > 20_000, "{holder}");
    let token = ["--token", acquired["token"].as_str().unwrap()];
    let longer = [&token[..], &["--ttl", "10m"]].concat();
    let renewed = told(&semaphore(&table, "renew", &[], &longer), 0);
    assert_eq!(
        renewed,
        json!({"semaphore": "SEM#DC#fra#svc#a", "outcome": "renewed", "holder": null})
    );
    let shown = told(&semaphore(&table, "show", &[], &[]), 0);
    assert!(
        shown["holders"][0]["remaining_ms"].as_u64().unwrap() > 500_000,
        "{shown}"
    );
    let released = told(&semaphore(&table, "release", &[], &token), 0);
    assert_eq!(
        released,
        json!({"semaphore": "SEM#DC#fra#svc#a", "outcome": "released", "holder": null})
    );
    assert_eq!(
        told(&semaphore(&table, "release", &[], &token), 3)["outcome"],
        "expired"
    );
    assert_eq!(
        told(&semaphore(&table, "renew", &[], &token), 3)["outcome"],
        "expired"
    );
    assert_eq!(told(&semaphore(&table, "resize", &["1"], &[]), 0)["permits"], 1);
    semaphore(&table, "acquire", &[], &two).refused(1, &["from 1 to 1"]);
    assert_eq!(
        told(&semaphore(&table, "delete", &[], &[]), 0)["outcome"],
        "deleted"
    );
    assert_eq!(
        told(&semaphore(&table, "delete", &[], &[]), 3)["outcome"],
        "absent"
    );
    for action in ["show", "acquire"] {
        let create = format!(
            "run hbase-txn semaphore create {} a PERMITS --farm fra --client svc",
            table.0
        );
        semaphore(&table, action, &[], &[]).refused(1, &["no such semaphore", &create]);
    }
}

#[rstest]
#[case(&["create", "t", "a", "0"], "1 to 1024")]
#[case(&["create", "t", "a", "1025"], "1 to 1024")]
#[case(&["create", "t", "a", "-1"], "out of range")]
#[case(&["create", "t", "", "1"], "empty lock id")]
#[case(&["acquire", "t", "a", "--permits", "0"], "1 to 1024")]
#[case(&["acquire", "t", "a", "--ttl", "1ms"], "--ttl 1ms")]
fn invalid_arguments_need_no_server_to_be_refused(#[case] line: &[&str], #[case] why: &str) {
    let line = [&["semaphore"], line, &["--farm", "fra", "--client", "svc"]].concat();
    let answer = run_alone(&line);
    answer.refused(status_of(&answer.stderr), &[why]);
}

#[test]
fn only_create_makes_the_table_of_a_semaphore() {
    let table = TestTable(unique_name("unmade"));
    semaphore(&table, "acquire", &[], &[]).refused(1, &[&table.0]);
    semaphore(&table, "create", &["2"], &[]).refused(1, &["no such table", "--create"]);
    told(
        &semaphore(
            &table,
            "create",
            &["2"],
            &["--create", "--regions", "1", "--no-java-clients"],
        ),
        0,
    );
    told(&semaphore(&table, "acquire", &[], &[]), 0);
}

#[test]
fn command_runs_under_permits_that_are_free_afterwards() {
    let table = lock_table("underpermits");
    told(&semaphore(&table, "create", &["2"], &[]), 0);
    let options = [&["--permits", "2", "--ttl", "3s"], &UNTIL_TOLD[..]].concat();
    let mut running = start(&arguments(&table, ["semaphore", "run"], &[], &options));
    let seen = until(
        "held",
        || semaphore(&table, "show", &[], &[]),
        |seen| seen["available"] == 0,
    );
    semaphore(&table, "run", &[], &["--", "echo", "ran"]).refused(3, &["not available"]);
    drop(running.stdin.take());
    let ran = answer(running);
    assert_eq!(ran.done(), format!("SEM#DC#fra#svc#a {}\n", seen["fencing"]));
    assert_eq!(told(&semaphore(&table, "show", &[], &[]), 0)["available"], 2);
}

#[test]
fn a_command_leads_when_nobody_else_does_and_in_a_higher_term() {
    let table = lock_table("leads");
    let nobody = json!({
        "election": "LEAD#DC#fra#svc#a", "level": "dc", "farm": "fra", "client": "svc", "id": "a",
        "term": null, "leader": null
    });
    assert_eq!(told(&elect(&table, "show", &[]), 0), nobody);
    let options = [&["--holder", "first", "--ttl", "2s"], &UNTIL_TOLD[..]].concat();
    let mut first = start(&arguments(&table, ["elect", "run"], &[], &options));
    let led = until(
        "led",
        || elect(&table, "show", &[]),
        |seen| !seen["leader"].is_null(),
    );
    assert_eq!(led["leader"]["holder"], "first");
    elect(&table, "run", &["--wait", "0s", "--", "echo", "ran"]).refused(3, &["first", "elect show"]);
    // Without --wait the second waits without limit.
    let second = start(&arguments(&table, ["elect", "run"], &[], &UNTIL_TOLD));
    drop(first.stdin.take());
    let first = answer(first).done();
    assert_eq!(first, format!("LEAD#DC#fra#svc#a {}\n", led["term"]));
    let mut second = second;
    drop(second.stdin.take());
    let second = answer(second).done();
    let term = |line: &str| -> u64 { line.trim_end().split(' ').nth(1).unwrap().parse().unwrap() };
    assert!(term(&second) > term(&first), "{second} after {first}");
    assert_eq!(told(&elect(&table, "show", &[]), 0)["leader"], Value::Null);
}

#[test]
fn command_that_led_keeps_its_status_and_resigns() {
    let table = lock_table("led-status");
    let ran = elect(&table, "run", &["--", "sh", "-c", "echo said; exit 7"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (7, "said\n"), "{ran:?}");
    assert_eq!(elect(&table, "run", &["--", "sh", "-c", "kill -9 $$"]).code, 137);
    assert_eq!(told(&elect(&table, "show", &[]), 0)["leader"], Value::Null);
}

#[rstest]
#[case::told_to_end("trap 'echo told; exit 0' TERM", "told\n")]
#[case::that_must_be_killed("trap '' TERM", "")]
fn a_command_whose_leadership_is_over_is_ended(#[case] trap: &str, #[case] said: &str) {
    let table = lock_table("dethroned");
    let script = format!("{trap}; echo leads; while :; do sleep 0.05; done");
    let options = ["--holder", "first", "--ttl", "2s", "--", "sh", "-c", &script];
    let mut leading = start(&arguments(&table, ["elect", "run"], &[], &options));
    let mut leads = [0; 6];
    leading.stdout.as_mut().unwrap().read_exact(&mut leads).unwrap();
    assert_eq!(&leads, b"leads\n");
    // No renewal is sent while the process is stopped.
    let pid = Pid::from_child(&leading);
    kill_process(pid, Signal::STOP).unwrap();
    until(
        "led by nobody",
        || elect(&table, "show", &[]),
        |seen| seen["leader"].is_null(),
    );
    kill_process(pid, Signal::CONT).unwrap();
    let deposed = answer(leading);
    deposed.refused(
        4,
        &[
            "running sh under lock LEAD#DC#fra#svc#a",
            "lost",
            "its lease expired",
        ],
    );
    assert_eq!(deposed.stdout, said, "{deposed:?}");
    assert_eq!(told(&elect(&table, "show", &[]), 0)["leader"], Value::Null);
}

#[test]
fn readers_run_beside_each_other_and_a_writer_alone() {
    let table = lock_table("readwrite");
    let options = [&["--holder", "reader"], &UNTIL_TOLD[..]].concat();
    let mut reader = start(&arguments(&table, ["rwlock", "read"], &[], &options));
    let show = || rwlock(&table, "show", &[]);
    until("read", show, |seen| {
        seen["readers"].as_array().unwrap().len() == 1
    });
    rwlock(&table, "read", &["--", "true"]).done();
    rwlock(&table, "write", &["--", "echo", "ran"]).refused(3, &["reader", "rwlock show"]);
    drop(reader.stdin.take());
    answer(reader).done();
    let wrote = rwlock(
        &table,
        "write",
        &["--wait", "10s", "--", "sh", "-c", "echo $HBASE_TXN_LOCK"],
    );
    assert_eq!(wrote.done(), "RW#DC#fra#svc#a\n");
    let free = told(&show(), 0);
    assert_eq!(
        (&free["rwlock"], &free["writer"], &free["readers"]),
        (&json!("RW#DC#fra#svc#a"), &Value::Null, &json!([]))
    );
}

fn group(table: &TestTable, action: &str, options: &[&str]) -> Answer {
    run(&arguments(table, ["group", action], &[], options))
}

#[test]
fn members_are_shown_with_their_data_while_their_commands_run() {
    let table = lock_table("members");
    let show = || group(&table, "show", &[]);
    let join = |name: &str, data: &str| {
        let options = [
            &["--holder", name, "--ttl", "3s", "--data", data],
            &UNTIL_TOLD[..],
        ]
        .concat();
        start(&arguments(&table, ["group", "run"], &[], &options))
    };
    let members = |seen: &Value| seen["members"].as_array().unwrap().clone();
    let mut first = join("first", "10.0.0.7:9000");
    until("joined", show, |seen| members(seen).len() == 1);
    let second = join("second", r"\x00here");
    let seen = until("both joined", show, |seen| members(seen).len() == 2);
    let member = |place: usize| {
        let member = &seen["members"][place];
        (member["holder"].clone(), member["data"].clone())
    };
    assert_eq!(member(0), (json!("first"), json!("10.0.0.7:9000")));
    assert_eq!(member(1), (json!("second"), json!(r"\x00here")));
    let token = seen["members"][1]["token"].as_str().unwrap();
    let evicted = told(&group(&table, "release", &["--token", token, "--force"]), 0);
    assert_eq!(
        evicted,
        json!({"group": "GRP#DC#fra#svc#a", "outcome": "evicted", "holder": "second"})
    );
    answer(second).refused(4, &["GRP#DC#fra#svc#a", "lost", "revoked"]);
    drop(first.stdin.take());
    assert!(answer(first).done().starts_with("GRP#DC#fra#svc#a "));
    assert_eq!(members(&told(&show(), 0)), [] as [Value; 0]);
    let page = run(&["group", "show", &table.0, "GRP#DC#fra#svc#a"]).done();
    assert_eq!(page, "GRP#DC#fra#svc#a: no members\n");
    group(&table, "run", &["--wait", "1s", "--", "true"]).refused(2, &["--wait"]);
}

#[test]
fn everything_held_in_a_table_is_listed_with_its_kind() {
    let table = lock_table("list-all");
    told(&semaphore(&table, "create", &["3"], &[]), 0);
    told(
        &run(&[
            "semaphore",
            "create",
            &table.0,
            "SEM#XDC#svc#free",
            "2",
            "--output",
            "json",
        ]),
        0,
    );
    let two = ["--permits", "2", "--holder", "many"];
    told(&semaphore(&table, "acquire", &[], &two), 0);
    run(&["lock", "acquire", &table.0, "DC#fra#svc#a", "--holder", "alone"]).done();
    let hold = |words: [&str; 2], holder: &str| {
        let options = [&["--holder", holder], &UNTIL_TOLD[..]].concat();
        start(&arguments(&table, words, &[], &options))
    };
    let holders = [
        hold(["elect", "run"], "first"),
        hold(["rwlock", "read"], "reader"),
        hold(["group", "run"], "member"),
    ];
    let list = |options: &[&str]| {
        let which = ["lock", "list", &table.0, "--output", "json"];
        run(&[&which, options].concat()).objects()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while list(&["--all"]).len() < 6 {
        assert!(Instant::now() < deadline, "{:?}", list(&["--all"]));
    }
    let mut listed = list(&["--all"]);
    listed.sort_by_key(|object| (object["kind"].to_string(), object["id"].to_string()));
    let names: Vec<_> = listed
        .iter()
        .map(|object| object[object["kind"].as_str().unwrap()].as_str().unwrap())
        .collect();
    let expected = [
        "LEAD#DC#fra#svc#a",
        "GRP#DC#fra#svc#a",
        "DC#fra#svc#a",
        "RW#DC#fra#svc#a",
        "SEM#DC#fra#svc#a",
        "SEM#XDC#svc#free",
    ];
    assert_eq!(names, expected);
    assert_eq!(listed[0]["leader"]["holder"], "first");
    assert_eq!(listed[1]["members"][0]["holder"], "member");
    assert_eq!(listed[2]["holder"], "alone");
    assert_eq!(listed[3]["readers"][0]["holder"], "reader");
    assert_eq!(
        (&listed[4]["available"], &listed[5]["available"]),
        (&json!(1), &json!(2))
    );
    // The commands of each kind accept the name.
    for (object, group) in listed
        .iter()
        .zip(["elect", "group", "lock", "rwlock", "semaphore", "semaphore"])
    {
        let name = object[object["kind"].as_str().unwrap()].as_str().unwrap();
        let shown = told(&run(&[group, "show", &table.0, name, "--output", "json"]), 0);
        for key in ["level", "farm", "client", "id"] {
            assert_eq!(shown[key], object[key], "{name} {key}");
        }
    }
    let locks = list(&[]);
    assert_eq!((locks.len(), &locks[0]["lock"]), (1, &json!("DC#fra#svc#a")));
    assert_eq!(list(&["--all", "--level", "xdc"]).len(), 1);
    let page = run(&["lock", "list", &table.0, "--all"]).done();
    for part in [
        "kind",
        "leads",
        "reads",
        "2 of 3 permits",
        "2 free permits",
        "alone",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    for mut holder in holders {
        drop(holder.stdin.take());
        answer(holder).done();
    }
}

#[test]
fn people_are_told_in_sentences() {
    let table = lock_table("coordination-sentences");
    let line = |words: [&'static str; 2], rest: &[&str]| {
        let which = ["--client", "svc", "--level", "xdc"];
        run(&[&words[..], &[&table.0, "a"], rest, &which].concat())
    };
    let created = line(["semaphore", "create"], &["1"]).done();
    assert_eq!(created, "SEM#XDC#svc#a: 1 permit\n");
    let held = line(["semaphore", "acquire"], &["--ttl", "90s", "--holder", "me"]).done();
    assert!(
        held.starts_with("SEM#XDC#svc#a: 1 permit held for 90s; token "),
        "{held}"
    );
    let shown = line(["semaphore", "show"], &[]).done();
    assert!(
        shown.starts_with("SEM#XDC#svc#a: 0 of 1 permit free\n1 held by me, "),
        "{shown}"
    );
    assert_eq!(line(["elect", "show"], &[]).done(), "LEAD#XDC#svc#a: no leader\n");
    assert_eq!(line(["rwlock", "show"], &[]).done(), "RW#XDC#svc#a: free\n");
    let deleted = line(["semaphore", "delete"], &[]).done();
    assert_eq!(deleted, "SEM#XDC#svc#a: deleted\n");
}
