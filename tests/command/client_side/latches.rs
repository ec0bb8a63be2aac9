//! `latch init`, `show`, `count-down`, `count-up`, `wait` and `delete`.

use std::time::Duration;

use hbase_txn::{client::TableDescriptor, latch::LatchTableOptions};
use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    checks::{findings, named},
    client_side::locks::told,
    harness::{Answer, TestTable, answer, run, start, status_of, unique_name, with_admin},
    latches::with,
};

/// A table for latches, of one region.
pub(crate) fn latch_table(label: &str) -> TestTable {
    TestTable::odd(
        label,
        |table| LatchTableOptions::from(table.name).descriptor(),
        &[],
    )
}

/// The arguments of a command on a latch of client `svc` in farm `fra`.
fn arguments<'a>(table: &'a TestTable, action: &'a str, id: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    let which = ["latch", action, &table.0, id];
    let whose = ["--farm", "fra", "--client", "svc", "--output", "json"];
    [&which[..], options, &whose].concat()
}

fn latch(table: &TestTable, action: &str, id: &str, options: &[&str]) -> Answer {
    run(&arguments(table, action, id, options))
}

#[track_caller]
fn counted(answer: &Answer) -> (Value, Value) {
    let mut told = told(answer, 0);
    (told["counted"].take(), told["count"].take())
}

#[test]
fn a_latch_is_made_counted_waited_for_and_deleted() {
    let table = latch_table("latch_life");
    let show = || told(&latch(&table, "show", "a", &[]), 0);
    let shown = |state: &str, count: Value, farms: Value| {
        json!({
            "latch": "DC#fra#svc#a", "level": "dc", "farm": "fra", "client": "svc", "id": "a",
            "state": state, "count": count, "farms": farms
        })
    };
    assert_eq!(show(), shown("absent", Value::Null, json!({})));
    let made = told(&latch(&table, "init", "a", &["3"]), 0);
    assert_eq!(
        made,
        json!({"latch": "DC#fra#svc#a", "count": 3, "ttl_ms": 3_600_000})
    );
    assert_eq!(show(), shown("open", json!(3), json!({"fra": 3})));
    latch(&table, "init", "a", &["3"]).refused(3, &["svc_a", "the latch exists: open, 3 to count down"]);

    let (yes, no) = (json!(true), json!(false));
    let down = |options: &[&str]| latch(&table, "count-down", "a", options);
    assert_eq!(counted(&down(&["--participant", "w1"])), (yes.clone(), json!(2)));
    assert_eq!(counted(&down(&["--participant", "w1"])), (no, json!(2)));
    assert_eq!(
        counted(&latch(&table, "count-up", "a", &["--by", "2"])),
        (yes.clone(), json!(4))
    );
    down(&["--by", "5"]).refused(3, &["only 4 left"]);
    let late = latch(&table, "wait", "a", &["--wait", "700ms"]);
    assert_eq!(told(&late, 3), json!({"latch": "DC#fra#svc#a", "state": "open"}));
    assert!(late.took >= Duration::from_millis(700), "{late:?}");
    let waiting = start(&arguments(&table, "wait", "a", &[]));
    assert_eq!(counted(&down(&["--by", "4"])), (yes, json!(0)));
    assert_eq!(
        told(&answer(waiting), 0),
        json!({"latch": "DC#fra#svc#a", "state": "reached"})
    );
    assert_eq!(show(), shown("reached", json!(0), json!({"fra": 0})));
    down(&[]).refused(3, &["reached"]);

    let deleted = |answer: &Answer| told(answer, 0)["deleted"].take();
    assert_eq!(deleted(&latch(&table, "delete", "a", &[])), json!(true));
    assert_eq!(deleted(&latch(&table, "delete", "a", &[])), json!(false));
    for (action, options) in [
        ("count-down", &[][..]),
        ("count-down", &["--participant", "p"]),
        ("count-up", &[]),
    ] {
        latch(&table, action, "a", options)
            .refused(3, &["svc_a", "there is no such latch", "create it with init"]);
    }
    assert_eq!(
        told(&latch(&table, "wait", "a", &[]), 3),
        json!({"latch": "DC#fra#svc#a", "state": "absent"})
    );
}

#[test]
fn a_latch_that_expires_is_told_from_one_that_never_was() {
    let table = latch_table("latch_expiry");
    told(&latch(&table, "init", "a", &["1", "--ttl", "500ms"]), 0);
    assert_eq!(
        told(&latch(&table, "wait", "a", &[]), 3),
        json!({"latch": "DC#fra#svc#a", "state": "expired"})
    );
    let shown = told(&latch(&table, "show", "a", &[]), 0);
    assert_eq!(
        (&shown["state"], &shown["count"]),
        (&json!("expired"), &Value::Null)
    );
    latch(&table, "count-down", "a", &[]).refused(3, &["the latch has expired"]);
    told(&latch(&table, "init", "a", &["1"]), 0);
}

#[test]
fn farms_are_added_up_and_shown_to_people() {
    let table = latch_table("latch_farms");
    let xdc = |action: &str, farm: &str, options: &[&str]| {
        let which = [
            "latch", action, &table.0, "a", "--level", "xdc", "--client", "svc",
        ];
        let farm: &[&str] = if farm.is_empty() { &[] } else { &["--farm", farm] };
        run(&[&which[..], farm, options].concat())
    };
    assert_eq!(
        xdc("init", "fra", &["3"]).done(),
        "XDC#svc#a: created, 3 to count down within 3600s\n"
    );
    assert_eq!(
        xdc("count-down", "sgp", &[]).done(),
        "XDC#svc#a: counted; 2 left to count down\n"
    );
    let again = || xdc("count-down", "sgp", &["--participant", "p"]).done();
    assert_eq!(again(), "XDC#svc#a: counted; 1 left to count down\n");
    assert_eq!(again(), "XDC#svc#a: had arrived before; 1 left to count down\n");
    // These commands count nothing, so they need no farm.
    let shown = xdc("show", "", &[]).done();
    assert!(
        shown.starts_with(
            "XDC#svc#a: open, 1 to count down; farms: fra 3, sgp -2; 1 participant arrived; expires in "
        ),
        "{shown}"
    );
    let late = xdc("wait", "", &["--wait", "700ms"]);
    assert_eq!(
        (late.code, &late.stdout[..]),
        (3, "XDC#svc#a: still open after 700ms\n"),
        "{late:?}"
    );
    assert_eq!(xdc("delete", "", &[]).done(), "XDC#svc#a: deleted\n");
    assert_eq!(
        xdc("delete", "", &[]).done(),
        "XDC#svc#a: there was nothing to delete\n"
    );
    assert_eq!(xdc("show", "", &[]).done(), "XDC#svc#a: absent\n");
    for (action, options) in [("init", &["3"][..]), ("count-down", &[]), ("count-up", &[])] {
        xdc(action, "", options).refused(2, &["--farm", "also at level xdc"]);
    }
    for action in ["show", "wait", "delete"] {
        run(&["latch", action, &table.0, "a", "--client", "svc"]).refused(2, &["--farm", "--level xdc"]);
    }
}

#[test]
fn latches_and_barriers_are_listed_by_names_that_are_accepted() {
    let table = latch_table("latch_list");
    let on_table = |words: [&str; 2], rest: &[&str]| {
        let which = [&words[..], &[&table.0], rest, &["--output", "json"]].concat();
        let answer = run(&which);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.objects()
    };
    on_table(["latch", "init"], &["DC#fra#svc#a_b", "3"]);
    on_table(["latch", "count-down"], &["DC#fra#svc#a_b", "--participant", "p"]);
    on_table(["latch", "init"], &["XDC#svc#all", "2", "--farm", "fra"]);
    on_table(["latch", "count-down"], &["XDC#svc#all", "--farm", "sgp"]);
    on_table(["latch", "init"], &["DC#fra#other#gone", "1"]);
    on_table(["latch", "delete"], &["DC#fra#other#gone"]);
    on_table(["latch", "init"], &["DC#fra#other#old", "1", "--ttl", "100ms"]);
    assert_eq!(run(&["latch", "wait", &table.0, "DC#fra#other#old"]).code, 3);
    on_table(["barrier", "create"], &["XDC#svc#rounds", "2"]);
    run(&[
        "barrier",
        "arrive",
        &table.0,
        "XDC#svc#rounds",
        "--participant",
        "p",
        "--wait",
        "0s",
    ]);

    let mut listed = on_table(["latch", "list"], &[]);
    listed.sort_by_key(|object| (object["kind"].to_string(), object["id"].to_string()));
    let latch = |name: &str, state: &str, count: Option<u64>| json!(["latch", name, state, count]);
    let seen: Vec<_> = listed[1..]
        .iter()
        .map(|object| json!([object["kind"], object["latch"], object["state"], object["count"]]))
        .collect();
    assert_eq!(
        seen,
        [
            latch("DC#fra#svc#a_b", "open", Some(2)),
            latch("XDC#svc#all", "open", Some(1)),
            latch("DC#fra#other#old", "expired", None),
        ]
    );
    assert_eq!(listed[2]["farms"], json!({"fra": 2, "sgp": -1}));
    let rounds = json!({
        "kind": "barrier", "barrier": "XDC#svc#rounds", "level": "xdc", "farm": null, "client": "svc",
        "id": "rounds", "parties": 2, "generation": 1, "phase": null, "arrived": 1
    });
    assert_eq!(listed[0], rounds);
    for object in &listed {
        let kind = object["kind"].as_str().unwrap();
        let name = object[kind].as_str().unwrap();
        let mut shown = on_table([kind, "show"], &[name]).remove(0);
        shown["kind"] = object["kind"].clone();
        assert_eq!(shown, *object);
    }
    assert_eq!(on_table(["latch", "list"], &["--client", "other"]).len(), 1);
    let page = run(&["latch", "list", &table.0]).done();
    for part in [
        "kind",
        "DC#fra#svc#a_b",
        "open, 2 to count down",
        "generation 1, 1 of 2 have arrived",
    ] {
        assert!(page.contains(part), "{page}");
    }
    for (name, why) in [("a", "--client"), ("DC#fra#svc#a", "--farm")] {
        run(&["latch", "show", &table.0, name, "--farm", "fra"]).refused(2, &[why]);
    }
    run(&["barrier", "show", &table.0, "DC#fra#svc#rounds"]).refused(2, &["XDC#CLIENT#ID"]);
}

#[rstest]
#[case(&["", "3"], "empty latch id")]
#[case(&["a", "3", "--client", ""], "empty client")]
#[case(&["a", "3", "--client", "s_vc"], "has a '_'")]
#[case(&["a", "3", "--farm", ""], "empty farm")]
#[case(&["a", "-1"], "COUNT -1 is out of range")]
#[case(&["a", "9223372036854775808"], "at most 9223372036854775807")]
#[case(&["a", "99999999999999999999"], "out of range")]
#[case(&["a", "3", "--ttl", "99ms"], "100ms")]
#[case(&["a", "3", "--ttl", "-1s"], "--ttl -1s is out of range")]
#[case(&["a", "3", "--ttl", "8785h"], "out of range")]
#[case(&["a", "3", "--create", "--regions", "0"], "from 1 to 257")]
#[case(&["a", "3", "--create", "--regions", "258"], "from 1 to 257")]
fn invalid_latches_create_no_table(#[case] options: &[&str], #[case] why: &str) {
    let name = unique_name("never");
    let mut line = vec!["latch", "init", &name];
    line.extend(options);
    for (option, value) in [("--farm", "fra"), ("--client", "svc")] {
        if !options.contains(&option) {
            line.extend([option, value]);
        }
    }
    let answer = run(&line);
    answer.refused(status_of(&answer.stderr), &[why]);
    assert!(!with_admin(async |admin| admin.exists(&name).await.unwrap()));
}

#[test]
fn counts_and_participants_out_of_range_are_refused() {
    let table = latch_table("latch_range");
    told(&latch(&table, "init", "a", &["9223372036854775807"]), 0);
    latch(&table, "count-up", "a", &[]).refused(1, &["would exceed eight bytes"]);
    for (by, status) in [("-1", 2), ("9223372036854775808", 1), ("99999999999999999999", 2)] {
        for action in ["count-up", "count-down"] {
            let refused = latch(&table, action, "a", &["--by", by]);
            assert_eq!(refused.code, status, "{action} {by}");
        }
    }
    let long = "p".repeat(257);
    for participant in ["", &long] {
        latch(&table, "count-down", "a", &["--participant", participant])
            .refused(1, &["a participant's name of"]);
    }
}

#[test]
fn a_missing_table_is_made_once_as_asked() {
    let table = TestTable(unique_name("latch_made"));
    let missing = ["no such table", "check its name", "add --create"];
    latch(&table, "init", "a", &["1"]).refused(1, &missing);
    for action in ["show", "count-down", "count-up", "wait", "delete"] {
        latch(&table, action, "a", &[]).refused(1, &["no such table", "table list"]);
    }
    run(&["latch", "list", &table.0]).refused(1, &["no such table", "table list"]);
    assert!(!with_admin(async |admin| admin
        .exists(&table.name())
        .await
        .unwrap()));
    for option in [&["1", "--regions", "4"][..], &["1", "--java-layout"]] {
        latch(&table, "init", "a", option).refused(2, &["--create"]);
    }
    let line = arguments(&table, "init", "a", &["1", "--create", "--regions", "4"]);
    let racing: Vec<_> = (0..4).map(|_| start(&line)).collect();
    let mut codes: Vec<_> = racing.into_iter().map(|racer| answer(racer).code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 3, 3, 3]);
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    assert_eq!(described["regions"].as_array().unwrap().len(), 4);
    let families: Vec<_> = described["families"]
        .as_array()
        .unwrap()
        .iter()
        .map(|family| &family["family"])
        .collect();
    assert_eq!(families, [&json!("C"), &json!("S")]);
}

#[test]
fn cells_that_are_no_latch_are_named() {
    let table = latch_table("latch_stranger");
    told(&latch(&table, "init", "a", &["1"]), 0);
    let rows = run(&["scan", &table.0, "--output", "json"]).objects();
    let row = rows[0]["row"].as_str().unwrap();
    run(&["put", &table.0, row, "C:count_fra=short"]).done();
    for action in ["show", "count-down", "wait"] {
        latch(&table, action, "a", &[]).refused(1, &["C:count_fra", "has 5 bytes, a count has eight"]);
    }
    run(&["delete", &table.0, row, "C:count_fra"]).done();
    told(&latch(&table, "init", "a", &["1"]), 0);
}

#[test]
fn a_java_made_table_is_taken_and_refuses_participants() {
    let describe =
        |table: TableDescriptor| LatchTableOptions::from(table.name).no_state_family().descriptor();
    let table = TestTable::odd("latch_java", describe, &[]);
    told(&latch(&table, "init", "a", &["2"]), 0);
    assert_eq!(
        counted(&latch(&table, "count-down", "a", &[])),
        (json!(true), json!(1))
    );
    latch(&table, "count-down", "a", &["--participant", "p"]).refused(1, &["no family S", "table alter"]);
    assert_eq!(findings(&table, 0).0, named(&[("note", "state-family-missing")]));
}

#[test]
fn a_family_that_forgets_early_bounds_how_long_a_latch_lives() {
    let table = TestTable::odd("latch_short", |table| with(table, "TTL", "60"), &[]);
    latch(&table, "init", "a", &["1"]).refused(1, &["a lifetime of 3600s", "to 60s in this table"]);
    told(&latch(&table, "init", "a", &["1", "--ttl", "60s"]), 0);
}
