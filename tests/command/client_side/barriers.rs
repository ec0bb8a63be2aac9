//! `barrier create`, `arrive`, `enter`, `leave`, `show` and `delete`.

use std::time::{Duration, Instant};

use hbase_txn::latch::LatchTableOptions;
use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    client_side::locks::told,
    harness::{Answer, TestTable, answer, run, start, status_of, unique_name, with_admin},
};

/// A table for latches, of one region.
fn latch_table(label: &str) -> TestTable {
    TestTable::odd(
        label,
        |table| LatchTableOptions::from(table.name).descriptor(),
        &[],
    )
}

/// The arguments of a command on the barrier `b` of client `svc`.
pub(crate) fn arguments<'a>(table: &'a TestTable, action: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    let which = ["barrier", action, &table.0, "b"];
    let whose = ["--client", "svc", "--output", "json"];
    [&which[..], options, &whose].concat()
}

fn barrier(table: &TestTable, action: &str, options: &[&str]) -> Answer {
    run(&arguments(table, action, options))
}

/// The answer of `barrier show` for two parties.
fn shown(generation: u64, arrived: u32) -> Value {
    json!({
        "barrier": "XDC#svc#b", "level": "xdc", "farm": null, "client": "svc", "id": "b", "parties": 2,
        "generation": generation, "phase": null, "arrived": arrived
    })
}

#[test]
fn a_barrier_is_made_arrived_at_and_deleted() {
    let table = latch_table("barrier_life");
    barrier(&table, "show", &[]).refused(3, &["no barrier XDC#svc#b", &table.0]);
    barrier(&table, "arrive", &["--participant", "p"])
        .refused(3, &["no such barrier", "create it with Barrier::create"]);
    let made = told(&barrier(&table, "create", &["2", "--ttl", "10m"]), 0);
    assert_eq!(
        made,
        json!({"barrier": "XDC#svc#b", "parties": 2, "double": false, "ttl_ms": 600_000})
    );
    barrier(&table, "create", &["3"]).refused(3, &["the barrier exists, with 2 parties"]);

    let arrive = |participant: &str, options: &[&str]| {
        barrier(
            &table,
            "arrive",
            &[&["--participant", participant], options].concat(),
        )
    };
    let ended = |generation: u64, outcome: &str| json!({"barrier": "XDC#svc#b", "generation": generation, "outcome": outcome});
    let late = arrive("p", &["--wait", "2s"]);
    assert_eq!(told(&late, 3), ended(1, "waiting"));
    assert!(late.took >= Duration::from_secs(2), "{late:?}");
    let show = || told(&barrier(&table, "show", &[]), 0);
    assert_eq!(show(), shown(1, 1));
    // A repeated arrival waits again, and counts once.
    assert_eq!(told(&arrive("p", &["--wait", "2s"]), 3), ended(1, "waiting"));
    assert_eq!(show(), shown(1, 1));
    assert_eq!(told(&arrive("q", &[]), 0), ended(1, "opened"));
    let waiting = start(&arguments(&table, "arrive", &["--participant", "p"]));
    let deadline = Instant::now() + Duration::from_secs(60);
    while show() != shown(2, 1) {
        assert!(Instant::now() < deadline, "{}", show());
    }
    assert_eq!(told(&arrive("q", &[]), 0), ended(2, "opened"));
    assert_eq!(told(&answer(waiting), 0), ended(2, "opened"));

    let deleted = || told(&barrier(&table, "delete", &[]), 0);
    assert_eq!(deleted(), json!({"barrier": "XDC#svc#b", "deleted": true}));
    assert_eq!(deleted(), json!({"barrier": "XDC#svc#b", "deleted": false}));
}

/// Both participants repeat their arrivals in a loop, as scripts do.
#[test]
fn repeated_arrival_stays_in_its_generation() {
    let table = latch_table("barrier_again");
    told(&barrier(&table, "create", &["2", "--ttl", "10m"]), 0);
    let arrive = |participant: &str, generation: &str| {
        let options = [
            "--participant",
            participant,
            "--generation",
            generation,
            "--wait",
            "1s",
        ];
        barrier(&table, "arrive", &options)
    };
    let ended = |generation: u64, outcome: &str| json!({"barrier": "XDC#svc#b", "generation": generation, "outcome": outcome});
    let wait = |generation: &str| barrier(&table, "wait", &["--generation", generation, "--wait", "1s"]);
    assert_eq!(told(&arrive("p", "1"), 3), ended(1, "waiting"));
    assert_eq!(told(&wait("1"), 3), ended(1, "waiting"));
    assert_eq!(told(&arrive("q", "1"), 0), ended(1, "opened"));
    // The generation has opened between two arrivals of p, which is in no other one by that.
    assert_eq!(told(&arrive("p", "1"), 0), ended(1, "opened"));
    assert_eq!(told(&wait("1"), 0), ended(1, "opened"));
    assert_eq!(told(&barrier(&table, "show", &[]), 0), shown(2, 0));
    arrive("p", "3").refused(1, &["generation 3 has not begun", "generation 2"]);
    arrive("p", "0").refused(1, &["numbered from 1"]);
    wait("0").refused(1, &["numbered from 1"]);
}

#[test]
fn double_barrier_is_entered_and_left_by_other_processes() {
    let table = latch_table("barrier_double");
    let made = told(&barrier(&table, "create", &["2", "--double", "--ttl", "10m"]), 0);
    assert_eq!(
        made,
        json!({"barrier": "XDC#svc#b", "parties": 2, "double": true, "ttl_ms": 600_000})
    );
    let call = |action: &str, participant: &str, options: &[&str]| {
        let participant = ["--participant", participant, "--wait", "1s"];
        barrier(&table, action, &[&participant[..], options].concat())
    };
    let ended = |generation: u64, outcome: &str| json!({"barrier": "XDC#svc#b", "generation": generation, "outcome": outcome});
    let show = || {
        let shown = told(&barrier(&table, "show", &[]), 0);
        (
            shown["generation"].clone(),
            shown["phase"].clone(),
            shown["arrived"].clone(),
        )
    };
    call("arrive", "p", &[]).refused(3, &["it is a double barrier", "enter and leave it"]);
    assert_eq!(told(&call("enter", "p", &[]), 3), ended(1, "waiting"));
    assert_eq!(show(), (json!(1), json!("entering"), json!(1)));
    call("leave", "p", &["--generation", "1"]).refused(1, &["generation 1 is not open"]);
    assert_eq!(told(&call("enter", "q", &[]), 0), ended(1, "opened"));
    assert_eq!(
        told(&call("enter", "p", &["--generation", "1"]), 0),
        ended(1, "opened")
    );
    assert_eq!(told(&call("enter", "r", &[]), 3), ended(2, "not-entered"));
    call("leave", "r", &["--generation", "1"]).refused(1, &["has not entered generation 1"]);
    assert_eq!(
        told(&call("leave", "p", &["--generation", "1"]), 3),
        ended(1, "waiting")
    );
    assert_eq!(show(), (json!(1), json!("leaving"), json!(1)));
    assert_eq!(
        told(&call("leave", "q", &["--generation", "1"]), 0),
        ended(1, "opened")
    );
    assert_eq!(
        told(&call("leave", "p", &["--generation", "1"]), 0),
        ended(1, "opened")
    );
    assert_eq!(show(), (json!(2), json!("entering"), json!(0)));
    let list = run(&["latch", "list", &table.0]).done();
    assert!(
        list.contains("double, generation 2, 0 of 2 have entered"),
        "{list}"
    );
}

#[test]
fn a_generation_that_is_not_full_in_time_is_told_as_broken() {
    let table = latch_table("barrier_broken");
    told(&barrier(&table, "create", &["2", "--ttl", "500ms"]), 0);
    for generation in 1..3 {
        let broken = told(&barrier(&table, "arrive", &["--participant", "p"]), 3);
        let expected = json!({"barrier": "XDC#svc#b", "generation": generation, "outcome": "broken"});
        assert_eq!(broken, expected);
    }
}

#[test]
fn a_barrier_is_shown_to_people_and_a_missing_table_is_made() {
    let table = TestTable(unique_name("barrier_made"));
    let people = |action: &str, options: &[&str]| {
        let which = ["barrier", action, &table.0, "b", "--client", "svc"];
        run(&[&which[..], options].concat())
    };
    people("create", &["1"]).refused(1, &["no such table", "--create"]);
    for action in ["show", "delete"] {
        people(action, &[]).refused(1, &["no such table"]);
    }
    assert_eq!(
        people("create", &["1", "--create", "--regions", "2"]).done(),
        "XDC#svc#b: created, 1 to arrive within 3600s\n"
    );
    assert_eq!(
        people("arrive", &["--participant", "p"]).done(),
        "XDC#svc#b: generation 1 opened, all have arrived\n"
    );
    assert_eq!(
        people("show", &[]).done(),
        "XDC#svc#b: generation 2, 0 of 1 have arrived\n"
    );
    assert_eq!(people("delete", &[]).done(), "XDC#svc#b: deleted\n");
    assert_eq!(
        people("delete", &[]).done(),
        "XDC#svc#b: there was nothing to delete\n"
    );
}

#[rstest]
#[case(&["0"], "PARTIES 0 is out of range: 1 to 1000")]
#[case(&["1001"], "PARTIES 1001 is out of range")]
#[case(&["-1"], "PARTIES -1 is out of range")]
#[case(&["2", "--ttl", "99ms"], "--ttl 99ms is out of range")]
#[case(&["2", "--ttl", "8785h"], "out of range")]
#[case(&["2", "--client", "s_vc"], "has a '_'")]
#[case(&["2", "--client", ""], "empty client")]
#[case(&["2", "--create", "--regions", "258"], "from 1 to 257")]
fn invalid_barrier_is_refused_without_creating_a_table(#[case] options: &[&str], #[case] why: &str) {
    let name = unique_name("never");
    let mut line = vec!["barrier", "create", &name, "b"];
    line.extend(options);
    if !options.contains(&"--client") {
        line.extend(["--client", "svc"]);
    }
    let answer = run(&line);
    answer.refused(status_of(&answer.stderr), &[why]);
    assert!(!with_admin(async |admin| admin.exists(&name).await.unwrap()));
}

#[test]
fn an_arrival_that_can_t_be_is_refused() {
    let table = latch_table("barrier_arrivals");
    told(&barrier(&table, "create", &["2"]), 0);
    barrier(&table, "arrive", &["--participant", ""]).refused(1, &["an empty participant"]);
    let java = |table: hbase_txn::client::TableDescriptor| {
        LatchTableOptions::from(table.name).no_state_family().descriptor()
    };
    let java = TestTable::odd("barrier_java", java, &[]);
    barrier(&java, "create", &["2"]).refused(1, &["no family S", "table alter"]);
}
