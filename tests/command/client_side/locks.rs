//! `lock acquire`, `release`, `renew`, `show` and `list`.

use std::{fs::File, net::Shutdown, time::Duration};

use hbase_txn::{
    client::{FamilyDescriptor, TableDescriptor},
    lock::LockTableOptions,
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{
    Answer, TestTable, answer, run, start, start_into, status_of, stdout_and_reader, unique_name, with_admin,
};

/// A table for locks, of one region.
pub(crate) fn lock_table(label: &str) -> TestTable {
    TestTable::odd(
        label,
        |table| LockTableOptions::from(table.name).descriptor(),
        &[],
    )
}

/// The arguments of a command on a lock of client `svc` in farm `fra`.
pub(crate) fn arguments<'a>(
    table: &'a TestTable,
    action: &'a str,
    id: &'a str,
    options: &[&'a str],
) -> Vec<&'a str> {
    let which = [
        "lock", action, &table.0, id, "--farm", "fra", "--client", "svc", "--output", "json",
    ];
    [&which, options].concat()
}

pub(crate) fn lock(table: &TestTable, action: &str, id: &str, options: &[&str]) -> Answer {
    run(&arguments(table, action, id, options))
}

/// Returns the only object of an answer.
#[track_caller]
pub(crate) fn told(answer: &Answer, code: i32) -> Value {
    assert_eq!(answer.code, code, "{answer:?}");
    let mut objects = answer.objects();
    assert_eq!(objects.len(), 1, "{answer:?}");
    objects.remove(0)
}

#[track_caller]
pub(crate) fn show(table: &TestTable, id: &str) -> Value {
    told(&lock(table, "show", id, &[]), 0)
}

/// Acquires a lock, and returns the token.
#[track_caller]
pub(crate) fn acquire(table: &TestTable, id: &str, options: &[&str]) -> String {
    let acquired = told(&lock(table, "acquire", id, options), 0);
    acquired["token"].as_str().unwrap().to_owned()
}

/// Repeats `lock show` until the lock has this state.
#[track_caller]
pub(crate) fn until(table: &TestTable, id: &str, state: &str) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while show(table, id)["state"] != state {
        assert!(std::time::Instant::now() < deadline, "{id} is never {state}");
    }
}

/// Returns the outcome and the holder in an answer.
#[track_caller]
fn ended(answer: &Answer, code: i32) -> (Value, Value) {
    let mut end = told(answer, code);
    (end["outcome"].take(), end["holder"].take())
}

#[test]
fn lock_stays_held_after_the_command_until_its_release() {
    let table = lock_table("held");
    let acquired = told(
        &lock(&table, "acquire", "a", &["--ttl", "60s", "--holder", "me"]),
        0,
    );
    let keys: Vec<_> = acquired.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["fencing", "lock", "token", "ttl_ms"]);
    assert_eq!(
        (&acquired["lock"], &acquired["ttl_ms"]),
        (&json!("DC#fra#svc#a"), &json!(60_000))
    );
    let token = acquired["token"].as_str().unwrap();
    let refused = lock(&table, "acquire", "a", &[]);
    refused.refused(
        3,
        &[
            "DC#fra#svc#a",
            &table.0,
            "not available",
            "held by me",
            &format!("hbase-txn lock show {} a --farm fra --client svc", table.0),
        ],
    );
    assert_eq!(refused.stdout, "");
    let shown = show(&table, "a");
    assert_eq!(
        (
            &shown["lock"],
            &shown["state"],
            &shown["holder"],
            &shown["fencing"],
            &shown["rows_disagree"]
        ),
        (
            &json!("DC#fra#svc#a"),
            &json!("held"),
            &json!("me"),
            &acquired["fencing"],
            &json!(false)
        )
    );
    let left = shown["remaining_ms"].as_u64().unwrap();
    assert!(
        left <= 60_000 && left > 20_000 && shown["age_ms"].as_u64().unwrap() < 40_000,
        "{shown}"
    );

    assert_eq!(
        ended(
            &lock(&table, "renew", "a", &["--token", token, "--ttl", "10m"]),
            0
        ),
        (json!("renewed"), Value::Null)
    );
    assert!(show(&table, "a")["remaining_ms"].as_u64().unwrap() > 500_000);
    assert_eq!(
        ended(&lock(&table, "release", "a", &["--token", token]), 0),
        (json!("released"), Value::Null)
    );
    let free = show(&table, "a");
    let nothing = json!({
        "lock": "DC#fra#svc#a", "level": "dc", "farm": "fra", "client": "svc", "id": "a", "state": "free", "holder": null, "age_ms": null, "remaining_ms": null,
        "waiting": 0, "fencing": free["fencing"], "rows_disagree": false
    });
    assert_eq!(free, nothing);
    let again = told(&lock(&table, "acquire", "a", &[]), 0);
    assert!(
        again["fencing"].as_u64() > acquired["fencing"].as_u64(),
        "{again} after {acquired}"
    );
}

#[test]
fn people_are_told_in_sentences() {
    let table = lock_table("sentences");
    let run = |action: &str, options: &[&str]| {
        let which = ["lock", action, &table.0, "a", "--client", "svc", "--level", "xdc"];
        run(&[&which, options].concat())
    };
    let held = run("acquire", &["--ttl", "20s", "--holder", "me\x1b[31m"]).done();
    assert!(held.starts_with("XDC#svc#a: held for 20s; token "), "{held}");
    let token = held.split(' ').nth(5).unwrap().trim_end_matches(',').to_owned();
    let shown = run("show", &[]).done();
    assert!(shown.starts_with(r"XDC#svc#a: held by me\u{1b}[31m, "), "{shown}");
    assert!(shown.contains(" s left; fencing number "), "{shown}");
    assert_eq!(run("renew", &["--token", &token]).done(), "XDC#svc#a: renewed\n");
    assert_eq!(
        run("release", &["--token", &token]).done(),
        "XDC#svc#a: released\n"
    );
    let twice = run("release", &["--token", &token]);
    assert_eq!(twice.code, 3);
    assert_eq!(
        twice.stdout,
        "XDC#svc#a: not held by this token: its lease expired, or it was released\n"
    );
    assert_eq!(run("release", &["--force"]).stdout, "XDC#svc#a: not held\n");
    assert!(run("show", &[]).done().starts_with("XDC#svc#a: free"));
}

#[test]
fn a_release_or_renewal_of_what_is_over_says_so_and_who_has_it() {
    let table = lock_table("over");
    let twice = acquire(&table, "twice", &[]);
    lock(&table, "release", "twice", &["--token", &twice]).done();
    let short = acquire(&table, "short", &["--ttl", "1s"]);
    until(&table, "short", "free");
    let expired = (json!("expired"), Value::Null);
    for (id, token) in [("twice", &twice), ("short", &short)] {
        for action in ["release", "renew"] {
            assert_eq!(
                ended(&lock(&table, action, id, &["--token", token]), 3),
                expired,
                "{action} {id}"
            );
        }
    }
    let next = acquire(&table, "short", &["--holder", "the next"]);
    for action in ["release", "renew"] {
        let taken = (json!("taken"), json!("the next"));
        assert_eq!(
            ended(&lock(&table, action, "short", &["--token", &short]), 3),
            taken,
            "{action}"
        );
    }
    // The lock of the next holder is unchanged.
    assert_eq!(
        ended(&lock(&table, "release", "short", &["--token", &next]), 0).0,
        "released"
    );
}

#[test]
fn token_of_another_lock_is_reported_with_the_holder() {
    let table = lock_table("other-token");
    let token = acquire(&table, "a", &[]);
    acquire(&table, "b", &["--holder", "the holder", "--ttl", "1h"]);
    for action in ["release", "renew"] {
        let which = ["lock", action, &table.0, "DC#fra#svc#b", "--token", &token];
        let other = run(&which);
        assert_eq!(other.code, 3, "{other:?}");
        let begin = "DC#fra#svc#b: not held by this token, but by the holder, ";
        assert!(
            other.stdout.starts_with(begin) && other.stdout.ends_with(" min left\n"),
            "{other:?}"
        );
    }
}

#[test]
fn printed_names_are_accepted_without_a_client() {
    let table = lock_table("names");
    let acquired = told(
        &run(&["lock", "acquire", &table.0, "XDC#svc#a#b", "--output", "json"]),
        0,
    );
    assert_eq!(acquired["lock"], "XDC#svc#a#b");
    let listed = run(&["lock", "list", &table.0, "--output", "json"]);
    let name = told(&listed, 0)["lock"].as_str().unwrap().to_owned();
    let shown = told(&run(&["lock", "show", &table.0, &name, "--output", "json"]), 0);
    let parts = ["level", "farm", "client", "id"].map(|key| shown[key].clone());
    assert_eq!(parts, [json!("xdc"), Value::Null, json!("svc"), json!("a#b")]);
    for (name, why) in [("a", "--client"), ("LEAD#XDC#svc#a", "hbase-txn elect")] {
        run(&["lock", "show", &table.0, name]).refused(2, &[why]);
    }
}

#[test]
fn lock_that_stays_held_is_marked_detached() {
    let table = lock_table("detached");
    let token = acquire(&table, "a", &["--ttl", "1h"]);
    let holder = show(&table, "a")["holder"].as_str().unwrap().to_owned();
    assert!(
        holder.contains('@') && holder.ends_with(" (detached)"),
        "{holder}"
    );
    // For its own lease.
    let renewed = lock(&table, "renew", "a", &["--token", &token]);
    assert_eq!(ended(&renewed, 0), (json!("renewed"), Value::Null));
    let left = show(&table, "a")["remaining_ms"].as_u64().unwrap();
    assert!(left > 3_500_000, "{left}");
}

#[test]
fn force_takes_a_lock_away_and_says_whom_that_hit() {
    let table = lock_table("force");
    let token = acquire(&table, "a", &["--holder", "victim"]);
    assert_eq!(
        ended(&lock(&table, "release", "a", &["--force"]), 0),
        (json!("evicted"), json!("victim"))
    );
    assert_eq!(
        ended(&lock(&table, "release", "a", &["--force"]), 3),
        (json!("free"), Value::Null)
    );
    assert_eq!(lock(&table, "renew", "a", &["--token", &token]).code, 3);
    acquire(&table, "a", &[]);
}

#[test]
fn a_held_lock_is_waited_for_as_long_as_was_said() {
    let table = lock_table("wait");
    acquire(&table, "a", &["--ttl", "1h"]);
    let waited = lock(&table, "acquire", "a", &["--wait", "700ms"]);
    assert_eq!(waited.code, 3, "{waited:?}");
    assert!(waited.took >= Duration::from_millis(700), "{waited:?}");
    acquire(&table, "b", &["--ttl", "1s"]);
    acquire(&table, "b", &["--wait", "1m"]);
}

#[test]
fn a_java_clients_lock_is_held_by_a_client_without_a_name() {
    let table = lock_table("java");
    let token = acquire(&table, "a", &[]);
    lock(&table, "release", "a", &["--token", &token]).done();
    let rows = run(&["scan", &table.0, "--output", "json"]).objects();
    let row = rows[0]["row"].as_str().unwrap();
    assert!(!row.ends_with("_own"), "{rows:?}");
    run(&["put", &table.0, row, "D:L=M"]).done();
    let held = show(&table, "a");
    assert_eq!(
        (&held["state"], &held["holder"], &held["remaining_ms"]),
        (&json!("held"), &Value::Null, &Value::Null)
    );
    assert!(held["age_ms"].is_u64(), "{held}");
    let shown = run(&["lock", "show", &table.0, "a", "--farm", "fra", "--client", "svc"]).done();
    assert!(shown.contains("held by a client that leaves no name"), "{shown}");
    lock(&table, "acquire", "a", &[]).refused(3, &["a client that leaves no name"]);
    assert_eq!(
        ended(&lock(&table, "renew", "a", &["--token", &token]), 3),
        (json!("taken"), Value::Null)
    );
    assert_eq!(
        ended(&lock(&table, "release", "a", &["--force"]), 0),
        (json!("evicted"), Value::Null)
    );
    assert_eq!(show(&table, "a")["state"], "free");
}

#[test]
fn held_locks_are_listed_and_chosen() {
    let table = lock_table("list");
    let other = |id: &str, options: &[&str]| {
        let which = ["lock", "acquire", &table.0, id];
        run(&[&which, options].concat()).done();
    };
    acquire(&table, "a", &["--holder", "me"]);
    let free = acquire(&table, "free", &[]);
    lock(&table, "release", "free", &["--token", &free]).done();
    other("b", &["--client", "svc", "--level", "xdc"]);
    other("c", &["--client", "other", "--farm", "ams"]);
    run(&["put", &table.0, "?stranger", "D:L=M"]).done();
    let listed = |options: &[&str]| {
        let which = ["lock", "list", &table.0, "--output", "json"];
        let listed = run(&[&which, options].concat());
        assert_eq!(listed.code, 0, "{listed:?}");
        listed.objects()
    };
    let keys = |options: &[&str]| {
        let mut keys: Vec<_> = listed(options)
            .iter()
            .map(|lock| lock["lock"].as_str().unwrap().to_owned())
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys(&[]),
        ["DC#ams#other#c", "DC#fra#svc#a", "XDC#svc#b", "stranger"]
    );
    assert_eq!(keys(&["--level", "dc"]), ["DC#ams#other#c", "DC#fra#svc#a"]);
    assert_eq!(keys(&["--farm", "ams"]), ["DC#ams#other#c"]);
    assert_eq!(keys(&["--client", "svc"]), ["DC#fra#svc#a", "XDC#svc#b"]);
    assert_eq!(keys(&["--client", "svc", "--level", "dc"]), ["DC#fra#svc#a"]);
    assert_eq!(keys(&["--client", "nobody"]), [""; 0]);
    let mine = listed(&["--farm", "fra"]).remove(0);
    let shown = show(&table, "a");
    for key in ["lock", "state", "holder", "rows_disagree"] {
        assert_eq!(mine[key], shown[key], "{key}");
    }
    assert!(mine["remaining_ms"].is_u64() && mine["age_ms"].is_u64(), "{mine}");
    let page = run(&["lock", "list", &table.0, "--client", "svc"]).done();
    assert!(
        page.contains("holder") && page.contains("DC#fra#svc#a") && page.contains(" me "),
        "{page}"
    );
}

#[rstest]
#[case(&["", "--client", "svc"], "empty lock id")]
#[case(&["a", "--client", "s#vc"], "has a '#'")]
#[case(&["a", "--client", ""], "empty client")]
#[case(&["a", "--client", "svc", "--farm", "f#a"], "has a '#'")]
#[case(&["a", "--client", "svc", "--farm", ""], "empty farm")]
#[case(&["a", "--client", "svc", "--ttl", "0s"], "--ttl 0s is out of range")]
#[case(&["a", "--client", "svc", "--ttl", "99ms"], "100ms")]
#[case(&["a", "--client", "svc", "--ttl", "-1s"], "--ttl -1s is out of range")]
#[case(&["a", "--client", "svc", "--ttl", "721h"], "out of range")]
#[case(&["a", "--client", "svc", "--wait", "-1s"], "--wait -1s is out of range")]
#[case(&["a", "--client", "svc", "--create", "--regions", "0"], "from 1 to 257")]
#[case(&["a", "--client", "svc", "--create", "--regions", "258"], "from 1 to 257")]
fn invalid_locks_create_no_table(#[case] options: &[&str], #[case] why: &str) {
    let name = unique_name("never");
    let level = if options.contains(&"--farm") { "dc" } else { "xdc" };
    let answer = run(&[&["lock", "acquire", &name, "--level", level], options].concat());
    answer.refused(status_of(&answer.stderr), &[why]);
    assert!(!with_admin(async |admin| admin.exists(&name).await.unwrap()));
}

#[test]
fn names_too_long_are_refused() {
    let table = lock_table("long");
    let id = "i".repeat(32_768);
    lock(&table, "acquire", &id, &[]).refused(1, &["bytes"]);
    let holder = "h".repeat(257);
    lock(&table, "acquire", "a", &["--holder", &holder]).refused(1, &["257 bytes"]);
    assert_eq!(show(&table, "a")["state"], "free");
}

#[test]
fn a_lock_of_a_farm_needs_one() {
    let name = unique_name("farmless");
    for action in ["acquire", "show"] {
        run(&["lock", action, &name, "a", "--client", "svc"]).refused(2, &["--farm", "--level xdc"]);
    }
}

#[test]
fn an_id_may_have_the_separator_and_bytes_as_they_are_shown() {
    let table = lock_table("ids");
    acquire(&table, "order#1", &[]);
    assert_eq!(show(&table, "order#1")["lock"], "DC#fra#svc#order#1");
    acquire(&table, "ключ", &[]);
    let shown = show(&table, r"\xD0\xBAл\xD1\x8E\xD1\x87");
    assert_eq!(
        (&shown["state"], &shown["lock"]),
        (
            &json!("held"),
            &json!(r"DC#fra#svc#\xD0\xBA\xD0\xBB\xD1\x8E\xD1\x87")
        )
    );
}

#[test]
fn a_missing_table_is_made_once_as_asked() {
    let table = TestTable(unique_name("made"));
    for (action, options) in [
        ("acquire", &[][..]),
        ("run", &["--", "echo", "ran"]),
        ("show", &[]),
        ("release", &["--force"]),
        ("renew", &["--token", "00000000000000000000000000000000"]),
    ] {
        let refused = lock(&table, action, "a", options);
        let hint = if ["acquire", "run"].contains(&action) {
            "add --create"
        } else {
            "table list"
        };
        refused.refused(1, &["no such table", "check its name", hint]);
        assert_eq!(refused.stdout, "");
    }
    run(&["lock", "list", &table.0]).refused(1, &["no such table", "table list"]);
    assert!(!with_admin(async |admin| admin
        .exists(&table.name())
        .await
        .unwrap()));
    for option in [
        &["--regions", "4"][..],
        &["--java-layout"],
        &["--no-java-clients"],
    ] {
        lock(&table, "acquire", "a", option).refused(2, &["--create"]);
    }
    let options = [
        "--create",
        "--regions",
        "4",
        "--protect-java-clients",
        "--no-java-clients",
    ];
    let line = arguments(&table, "acquire", "a", &options);
    let racing: Vec<_> = (0..4).map(|_| start(&line)).collect();
    let mut codes: Vec<_> = racing.into_iter().map(|racer| answer(racer).code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 3, 3, 3]);
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    assert_eq!(described["regions"].as_array().unwrap().len(), 4);
    assert_eq!(
        described["families"][0]["attributes"]["NEW_VERSION_BEHAVIOR"],
        "true"
    );
    assert_eq!(described["attributes"]["hbase-txn.lock-companion"], "false");
    let rows = run(&["scan", &table.0, "--output", "json"]).objects();
    assert!(
        rows.iter()
            .all(|row| !row["row"].as_str().unwrap().ends_with("_own")),
        "{rows:?}"
    );
}

#[test]
fn a_created_table_has_eight_regions() {
    let table = TestTable(unique_name("eight"));
    acquire(&table, "a", &["--create"]);
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    assert_eq!(described["regions"].as_array().unwrap().len(), 8);
}

#[test]
fn java_layout_creates_the_java_librarys_regions() {
    let table = TestTable(unique_name("java_layout"));
    acquire(&table, "a", &["--create", "--java-layout"]);
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    let starts: Vec<_> = described["regions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|region| &region["start"])
        .collect();
    assert_eq!(starts.len(), 257);
    assert_eq!(
        (starts[0], starts[1], starts[256]),
        (&json!(""), &json!(r"\x00"), &json!(r"\xFF"))
    );
    let family = &described["families"][0];
    assert_eq!(
        (&family["family"], &family["attributes"]["COMPRESSION"]),
        (&json!("D"), &json!("GZ"))
    );
    assert_eq!(family["attributes"]["VERSIONS"], "1");
}

#[rstest]
#[case::other_families("families", |table: TableDescriptor| {
    table.with_family(FamilyDescriptor::new("f")).with_family(FamilyDescriptor::new("D"))
}, 0, "")]
#[case::no_family("nofamily", |table: TableDescriptor| table.with_family(FamilyDescriptor::new("f")), 1, "no family D")]
#[case::short_lived("shortlived", |table: TableDescriptor| {
    table.with_family(FamilyDescriptor::new("D").with_attribute("TTL", "20"))
}, 1, "from 100ms to 20s")]
fn a_table_that_is_there_is_taken_as_it_is(
    #[case] label: &str,
    #[case] describe: fn(TableDescriptor) -> TableDescriptor,
    #[case] code: i32,
    #[case] why: &str,
) {
    let table = TestTable::odd(label, describe, &[]);
    lock(&table, "acquire", "a", &[]).refused(code, &[why]);
}

#[test]
fn a_disabled_table_is_refused_with_what_enables_it() {
    let table = lock_table("disabled");
    with_admin(async |admin| admin.disable_table(&table.name()).await.unwrap());
    for (action, options) in [("acquire", &[][..]), ("show", &[]), ("release", &["--force"])] {
        lock(&table, action, "a", options).refused(1, &["disabled", "enable"]);
    }
}

#[test]
fn a_lock_whose_token_can_t_be_told_is_released() {
    let table = lock_table("untold");
    for format in ["table", "json"] {
        let line = [
            "lock", "acquire", &table.0, "a", "--farm", "fra", "--client", "svc", "--output", format,
        ];
        let full = File::create("/dev/full").unwrap();
        let full = start_into(&line, full);
        answer(full).refused(1, &["cannot print the token", "No space left", "it was released"]);
        let (closed, reader) = stdout_and_reader();
        reader.shutdown(Shutdown::Both).unwrap();
        answer(start_into(&line, closed)).refused(1, &["cannot print the token", "it was released"]);
        assert_eq!(show(&table, "a")["state"], "free");
    }
}
