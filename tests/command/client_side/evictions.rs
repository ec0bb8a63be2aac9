//! Forced releases: `lock`, `semaphore`, `elect` and `rwlock release --force`.

use std::process::Child;

use serde_json::{Value, json};

use crate::{
    client_side::coordination::{UNTIL_TOLD, arguments, until},
    client_side::locks::{lock, lock_table, told},
    harness::{Answer, TestTable, answer, run, run_alone, start},
};

const NO_TOKEN: &str = "00000000000000000000000000000000";

/// Runs an action on one kind of hold.
fn act(table: &TestTable, kind: &str, action: &str, options: &[&str]) -> Answer {
    run(&arguments(table, [kind, action], &[], options))
}

/// Starts a command under a hold with a lease of two seconds that is renewed.
fn hold(table: &TestTable, words: [&str; 2], holder: &str) -> Child {
    let options = ["--holder", holder, "--ttl", "2s", "--wait", "20s"];
    let options = [&options, &UNTIL_TOLD[..]].concat();
    start(&arguments(table, words, &[], &options))
}

/// Waits until `show` has a holder of this name at this place, and returns its token.
fn token_of(table: &TestTable, kind: &str, holder: &str, place: &str) -> String {
    let show = || act(table, kind, "show", &[]);
    let there = |seen: &Value| seen.pointer(place).is_some_and(|seen| seen["holder"] == holder);
    let seen = until("held", show, there);
    seen.pointer(place).unwrap()["token"].as_str().unwrap().to_owned()
}

/// Evicts the holder of the first command. The second one waits meanwhile, and must acquire the
/// hold; a second forced release by that token is refused and does not affect it.
fn evicted_once(kind: &str, words: [[&str; 2]; 2], places: [&str; 2], key: &str) {
    let table = lock_table("evicted");
    if kind == "semaphore" {
        run(&arguments(&table, [kind, "create"], &["1"], &[])).done();
    }
    let first = hold(&table, words[0], "the victim");
    let token = token_of(&table, kind, "the victim", places[0]);
    let mut second = hold(&table, words[1], "the next");
    let force = ["--token", token.as_str(), "--force"];
    let forced = act(
        &table,
        kind,
        "release",
        &[&force[..], &["--log", "hbase_txn=warn"]].concat(),
    );
    let evicted = json!({kind_key(kind): key, "outcome": "evicted", "holder": "the victim"});
    assert_eq!(told(&forced, 0), evicted);
    for part in ["WARN", "released by force", key, "the victim", &token] {
        assert!(forced.stderr.contains(part), "{part:?} is not in {forced:?}");
    }
    answer(first).refused(4, &[key, "lost"]);
    token_of(&table, kind, "the next", places[1]);
    let gone = json!({kind_key(kind): key, "outcome": "gone", "holder": null});
    assert_eq!(told(&act(&table, kind, "release", &force), 3), gone);
    drop(second.stdin.take());
    answer(second).done();
}

fn kind_key(kind: &str) -> &str {
    if kind == "elect" { "election" } else { kind }
}

#[test]
fn evicted_leader_is_followed_by_the_next() {
    evicted_once(
        "elect",
        [["elect", "run"]; 2],
        ["/leader"; 2],
        "LEAD#DC#fra#svc#a",
    );
}

#[test]
fn evicted_permit_holder_makes_room() {
    let words = [["semaphore", "run"]; 2];
    evicted_once("semaphore", words, ["/holders/0"; 2], "SEM#DC#fra#svc#a");
}

#[test]
fn evicted_reader_lets_a_writer_in() {
    let words = [["rwlock", "read"], ["rwlock", "write"]];
    evicted_once("rwlock", words, ["/readers/0", "/writer"], "RW#DC#fra#svc#a");
}

#[test]
fn evicted_writer_lets_a_reader_in() {
    let words = [["rwlock", "write"], ["rwlock", "read"]];
    evicted_once("rwlock", words, ["/writer", "/readers/0"], "RW#DC#fra#svc#a");
}

#[test]
fn forced_release_of_a_lock_is_logged() {
    let table = lock_table("logged");
    let acquired = told(&lock(&table, "acquire", "a", &["--holder", "the victim"]), 0);
    let forced = lock(&table, "release", "a", &["--force", "--log", "warn"]);
    assert_eq!(told(&forced, 0)["outcome"], "evicted");
    let token = acquired["token"].as_str().unwrap();
    for part in ["WARN", "DC#fra#svc#a", "the victim", token] {
        assert!(forced.stderr.contains(part), "{part:?} is not in {forced:?}");
    }
}

#[test]
fn gone_holder_is_reported_in_a_sentence() {
    let table = lock_table("gone-sentences");
    for kind in ["elect", "rwlock"] {
        let which = [kind, "release", &table.0, "a", "--farm", "fra", "--client", "svc"];
        let gone = run(&[&which[..], &["--token", NO_TOKEN, "--force"]].concat());
        assert_eq!(gone.code, 3, "{gone:?}");
        let why =
            format!("nothing was revoked: token {NO_TOKEN} holds nothing; show prints the present holders");
        assert!(
            gone.stdout.ends_with(&format!("#DC#fra#svc#a: {why}\n")),
            "{gone:?}"
        );
    }
}

#[test]
fn leader_and_reader_are_not_revoked_without_force() {
    for kind in ["elect", "rwlock"] {
        let which = [kind, "release", "t", "a", "--farm", "fra", "--client", "svc"];
        run_alone(&[&which[..], &["--token", NO_TOKEN]].concat()).refused(2, &["--force"]);
        run_alone(&[&which[..], &["--force"]].concat()).refused(2, &["--token"]);
    }
}
