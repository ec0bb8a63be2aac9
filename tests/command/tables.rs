//! `table create`, `describe` and `drop`.

use std::{io::Write, process::Stdio};

use serde_json::json;

use crate::harness::{Answer, TestTable, answer, run, unique_name, uri, with_default_signals};

#[test]
fn create_makes_a_table_that_transactions_are_possible_on() {
    let name = unique_name("create");
    let made = run(&[
        "table",
        "create",
        &name,
        "--family",
        "f",
        "--family",
        "g",
        "--prefix-length",
        "3",
        "--split",
        "ppp",
        "--split",
        r"gg\xfF",
        "--output",
        "json",
    ]);
    let expected = json!({
        "table": name, "rule": {"prefix_length": 3}, "families": ["_txn", "f", "g"], "regions": 3
    });
    assert_eq!(made.objects(), [expected]);
    assert_eq!(run(&["table", "check", &name, "--output", "json"]).done(), "");
    let described = run(&["table", "describe", &name, "--output", "json"])
        .objects()
        .remove(0);
    assert_eq!(described["state"], "enabled");
    assert_eq!(described["rule"], json!({"prefix_length": 3}));
    let attributes = &described["attributes"];
    assert_eq!(
        attributes["hbase.regionserver.region.split_restriction.type"],
        "KeyPrefix"
    );
    assert_eq!(attributes["KeyPrefixRegionSplitPolicy.prefix_length"], "3");
    let family = &described["families"][0];
    assert_eq!(family["family"], "_txn");
    assert_eq!(family["attributes"]["NEW_VERSION_BEHAVIOR"], "true");
    assert_eq!(family["attributes"]["TTL"], "172800");
    assert_eq!(family["attributes"]["VERSIONS"], "1");
    let regions = described["regions"].as_array().unwrap();
    let starts: Vec<_> = regions
        .iter()
        .map(|region| region["start"].as_str().unwrap())
        .collect();
    assert_eq!(starts, ["", r"gg\xFF", "ppp"]);
    assert!(
        regions.iter().all(|region| region["server"].is_string()),
        "{regions:?}"
    );

    run(&["table", "create", &name, "--family", "f", "--prefix-length", "3"])
        .refused(3, &["TableExists", &name]);

    run(&["table", "drop", &name]).refused(1, &[&name, "is unchanged", "--yes"]);
    let dropped = run(&["table", "drop", &name, "--yes", "--output", "json"]);
    assert_eq!(dropped.objects(), [json!({"table": name, "dropped": true})]);
    run(&["table", "drop", &name, "--yes"]).refused(1, &["TableNotFound", &name]);
    for gone in [["table", "check", &name], ["table", "describe", &name]] {
        run(&gone).refused(1, &["no such table", &name]);
    }
    run(&["get", &name, "r"]).refused(1, &["no such table", &name]);
    run(&["txn", "apply", &name]).refused(1, &["no such table", &name]);
}

#[test]
fn split_keys_are_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("splits");
    let file = path.to_str().unwrap();
    let table = TestTable(unique_name("splits_file"));
    let create = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let options = ["--family", "f", "--prefix-length", "3", "--splits-file", file];
        run(&[&["table", "create", &table.0][..], &options].concat())
    };
    create("ppp\nxxxm\n").refused(
        1,
        &[&format!("{file}:2: split key xxxm cuts partition xxx in two")],
    );
    let created = create("ppp\n\\x00\\xFF\n").done();
    assert!(created.contains("3 regions"), "{created}");
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    let starts: Vec<_> = described["regions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|region| &region["start"])
        .collect();
    assert_eq!(starts, ["", r"\x00\xFF", "ppp"]);
}

#[test]
fn a_new_table_has_the_schema_of_another() {
    let options = ["--family", "f", "--prefix-length", "3", "--split", "ppp"];
    let table = TestTable::with("schema", &options);
    let described = |name: &str| {
        let answer = run(&["table", "describe", name, "--output", "json"]);
        answer.objects().remove(0)
    };
    let original = described(&table.0);
    for (option, regions) in [(None, 2), (Some("--drop-splits"), 1)] {
        let new = TestTable(unique_name("cloned"));
        let options: Vec<_> = option.into_iter().chain(["--output", "json"]).collect();
        let clone = || run(&[&["table", "clone-schema", &table.0, &new.0], &options[..]].concat());
        assert_eq!(clone().objects(), [json!({"table": new.0, "created": true})]);
        let found = described(&new.0);
        for key in ["rule", "attributes", "families"] {
            assert_eq!(found[key], original[key]);
        }
        assert_eq!(found["regions"].as_array().unwrap().len(), regions);
        clone().refused(3, &["TableExists", &new.0]);
    }
    run(&["table", "clone-schema", &unique_name("none"), &table.0]).refused(1, &["no such table"]);
}

#[test]
fn a_delimiter_and_a_table_without_the_record_family() {
    let options = [
        "--family",
        "f",
        "--delimiter",
        "/",
        "--split",
        "c5/",
        "--no-record-family",
    ];
    let table = TestTable::with("delimiter", &options);
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    assert_eq!(described["rule"], json!({"delimiter": "/"}));
    assert_eq!(described["families"].as_array().unwrap().len(), 1);
    let page = run(&["table", "describe", &table.0]).done();
    assert!(
        page.contains("the bytes before the first /") && page.contains("[c5/, ∞)"),
        "{page}"
    );
}

#[test]
fn a_replay_window_and_the_version_of_partitions() {
    let options = [
        "--family",
        "f",
        "--prefix-length",
        "3",
        "--replay-window",
        "2h",
        "--partition-version",
    ];
    let table = TestTable::with("versioned", &options);
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    let attributes = &described["attributes"];
    assert_eq!(attributes["hbase-txn.replay-window.seconds"], "7200");
    assert_eq!(attributes["hbase-txn.partition-version"], "true");
    let families: Vec<_> = described["families"]
        .as_array()
        .unwrap()
        .iter()
        .map(|family| &family["family"])
        .collect();
    assert_eq!(families, ["_txn", "_version", "f"]);
    assert_eq!(run(&["table", "check", &table.0, "--output", "json"]).done(), "");
    let name = unique_name("short");
    run(&[
        "table",
        "create",
        &name,
        "--family",
        "f",
        "--prefix-length",
        "3",
        "--replay-window",
        "0s",
    ])
    .refused(2, &["--replay-window 0s is out of range"]);
}

#[test]
fn a_missing_namespace_is_named() {
    let name = format!("absent_{}:t", std::process::id());
    run(&["table", "create", &name, "--family", "f", "--prefix-length", "3"])
        .refused(1, &["NamespaceNotFound", &name]);
}

/// Runs `table drop` on a terminal, and types this text.
fn dropped_on_a_terminal(name: &str, typed: &str) -> Answer {
    let mut child = with_default_signals("script")
        .args(["-qec"])
        .arg(format!("{} table drop {name}", env!("CARGO_BIN_EXE_hbase-txn")))
        .arg("/dev/null")
        .env("HBASE_TXN_CONNECT", uri())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let typed = format!("{typed}\n");
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    answer(child)
}

#[test]
fn dropping_on_a_terminal_asks_for_the_name() {
    let table = TestTable::new("asked");
    let refused = dropped_on_a_terminal(&table.0, "yes");
    assert_eq!(refused.code, 1, "{refused:?}");
    let question = format!("This deletes table {} and all its rows.", table.0);
    for part in [&question[..], "names differ", "cluster hbase+"] {
        assert!(refused.stdout.contains(part), "{refused:?}");
    }
    run(&["table", "describe", &table.0]).done();
    let dropped = dropped_on_a_terminal(&table.0, &table.0);
    assert_eq!(dropped.code, 0, "{dropped:?}");
    run(&["table", "describe", &table.0]).refused(1, &["no such table"]);
}
