//! `namespace`, `snapshot`, and the changes of `table` that need a real master.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{TestTable, run, unique_name};

fn rows(table: &str) -> u64 {
    let counted = run(&["table", "count", table, "--output", "json"]).objects();
    assert_eq!(counted[0]["table"], table);
    counted[0]["rows"].as_u64().unwrap()
}

fn three_rows(table: &str) {
    for row in ["aaa1", "bbb1", "mmm1"] {
        run(&["put", table, row, "f:q=1"]).done();
    }
}

#[test]
#[ignore = "needs changes of namespaces"]
fn namespace_is_created_listed_and_deleted() {
    let name = unique_name("namespace");
    let created = run(&[
        "namespace",
        "create",
        &name,
        "--set",
        "owner=billing",
        "--output",
        "json",
    ]);
    let expected = json!({"namespace": name, "settings": {"owner": "billing"}});
    assert_eq!(created.objects(), std::slice::from_ref(&expected));
    let all = run(&["namespace", "list", "--output", "json"]).objects();
    assert!(all.contains(&expected), "{all:?}");
    assert_eq!(run(&["table", "list", "--namespace", &name]).done(), "");
    run(&["namespace", "delete", &name]).done();
    run(&["namespace", "delete", &name]).refused(1, &[&name, "run hbase-txn namespace create"]);
    run(&["namespace", "create", &name, "--set", "owner"]).refused(2, &["KEY=VALUE"]);
}

#[test]
#[ignore = "needs snapshots"]
fn snapshot_is_taken_restored_cloned_and_deleted() {
    let table = TestTable::new("snapshot");
    let name = unique_name("snapshot");
    three_rows(&table.0);
    run(&["snapshot", "take", &table.0, &name, "--ttl", "1h"]).done();
    run(&["snapshot", "take", &table.0, &name]).refused(3, &[&name, "use another name"]);
    let of_others = run(&["snapshot", "list", "--table", "none", "--output", "json"]);
    assert_eq!(of_others.done(), "");
    let all = run(&["snapshot", "list", "--table", &table.0, "--output", "json"]).objects();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["ttl_s"], 3_600);
    let found = all.iter().find(|found| found["snapshot"] == name).unwrap();
    assert_eq!(
        (&found["table"], &found["kind"]),
        (&json!(table.0), &json!("flush"))
    );

    run(&["table", "truncate", &table.0]).refused(1, &[&table.0, "is unchanged", "--yes"]);
    assert_eq!(rows(&table.0), 3);
    let truncated = run(&["table", "truncate", &table.0, "--yes", "--output", "json"]);
    assert_eq!(
        truncated.objects(),
        [json!({"table": table.0, "truncated": true})]
    );
    assert_eq!(rows(&table.0), 0);

    run(&["snapshot", "restore", &name]).refused(1, &[&name, "is unchanged", "--yes"]);
    run(&["table", "disable", &table.0]).done();
    run(&["snapshot", "restore", &name, "--yes"]).done();
    let described = run(&["table", "describe", &table.0, "--output", "json"]).objects();
    assert_eq!(
        described[0]["state"], "disabled",
        "a disabled table stays so: {described:?}"
    );
    run(&["table", "enable", &table.0]).done();
    assert_eq!(rows(&table.0), 3);
    run(&["snapshot", "restore", &name, "--with-permissions", "--yes"]).done();
    assert_eq!(rows(&table.0), 3);

    let copy = unique_name("copy");
    let tracked = ["--with-permissions", "--store-file-tracker", "FILE"];
    run(&[&["snapshot", "clone", &name, &copy], &tracked[..]].concat()).done();
    assert_eq!(rows(&copy), 3);
    run(&["snapshot", "clone", &name, &copy]).refused(3, &["the table exists", &copy]);
    run(&["table", "drop", &copy, "--yes"]).done();
    run(&["snapshot", "delete", &name]).refused(1, &["is unchanged", "add --yes"]);
    run(&["snapshot", "delete", &name, "--yes"]).done();
    for gone in [
        &["snapshot", "delete", &name, "--yes"][..],
        &["snapshot", "restore", &name, "--yes"],
    ] {
        run(gone).refused(1, &[&name, "run hbase-txn snapshot list"]);
    }
}

#[test]
#[ignore = "needs flushes and compactions of one family"]
fn regions_are_split_merged_and_not_moved_to_nowhere() {
    let table = TestTable::new("regions");
    three_rows(&table.0);
    let starts = |arguments: &[&str]| -> Vec<String> {
        let answer = run(&[arguments, &["--output", "json"]].concat())
            .objects()
            .remove(0);
        let regions = answer["regions"].as_array().unwrap();
        let starts = regions
            .iter()
            .map(|region| region["start"].as_str().unwrap().to_owned());
        starts.collect()
    };
    assert_eq!(starts(&["table", "split", &table.0, "bbb"]), ["", "bbb"]);
    run(&["table", "split", &table.0, "bbb"]).refused(1, &[&table.0]);
    run(&["table", "merge", &table.0, "bbb1", "mmm1"]).refused(1, &[&table.0, "in one region"]);
    // Both halves of a split share files until they are compacted, and the master has seen it.
    run(&["table", "compact", &table.0]).done();
    for action in ["flush", "compact"] {
        run(&["table", action, &table.0, "--family", "f"]).done();
        run(&["table", action, &table.0, "--family", "none"]).refused(1, &[&table.0, "none"]);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let merged = run(&["table", "merge", &table.0, "aaa1", "mmm1"]);
        if merged.code == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{merged:?}");
    }
    let described = run(&["table", "describe", &table.0, "--output", "json"])
        .objects()
        .remove(0);
    assert_eq!(described["regions"].as_array().unwrap().len(), 1);
    run(&["table", "move", &table.0, "aaa1", "nowhere:1"])
        .refused(1, &["nowhere:1", "no live region server"]);
    run(&["table", "truncate-region", &table.0, "aaa1"]).refused(1, &[&table.0, "is unchanged", "--yes"]);
    assert_eq!(rows(&table.0), 3);
    run(&["table", "truncate-region", &table.0, "aaa1", "--yes"]).done();
    assert_eq!(rows(&table.0), 0);
}

#[test]
#[ignore = "needs the balancer and the normalizer"]
fn switches_of_the_master_are_shown() {
    // Of `throttle`, a cluster without quotas has none (`command::administered::quotas`).
    for switch in ["balancer", "normalizer", "snapshot-cleanup"] {
        let shown = run(&[&format!("{switch}-switch"), "--output", "json"])
            .objects()
            .remove(0);
        assert_eq!(shown["switch"], switch);
        assert!(shown["on"].is_boolean());
    }
}

#[test]
#[ignore = "needs replication peers"]
fn replication_peer_is_added_switched_and_removed() {
    let id = unique_name("peer");
    let found = || {
        let all = run(&["replication-peer", "list", "--output", "json"]).objects();
        all.into_iter().find(|found| found["peer"] == id)
    };
    let class = "org.apache.hadoop.hbase.replication.VerifyWALEntriesReplicationEndpoint";
    run(&[
        "replication-peer",
        "add",
        &id,
        "127.0.0.1:1:/none",
        "--endpoint",
        class,
        "--namespace",
        "default",
        "--disabled",
    ])
    .done();
    let added = found().unwrap();
    assert_eq!((&added["enabled"], &added["all"]), (&json!(false), &json!(false)));
    assert_eq!(added["namespaces"], json!(["default"]));
    run(&["replication-peer", "enable", &id]).done();
    assert_eq!(found().unwrap()["enabled"], true);
    run(&["replication-peer", "disable", &id]).done();
    let shown = run(&["replication-peer", "list"]).done();
    assert!(shown.contains(&id) && shown.contains("disabled"), "{shown}");

    // Not while it is enabled: if the server has just begun a log file, a source that ships to a peer
    // whose configuration changes finds no queue for that file, and the server aborts.
    let update = |options: &[&str]| run(&[&["replication-peer", "update", &id], options].concat());
    update(&["--bandwidth", "1000000", "--set", "key=value"]).done();
    let updated = found().unwrap();
    assert_eq!(updated["bandwidth"], 1_000_000);
    assert_eq!(updated["settings"], json!({"key": "value"}));
    assert_eq!(
        updated["namespaces"],
        json!(["default"]),
        "what is not named stays"
    );
    update(&["--table", "orders", "--table", "ns:other", "--bandwidth", "0"]).done();
    let updated = found().unwrap();
    assert_eq!(updated["tables"], json!(["orders", "ns:other"]));
    assert_eq!(
        (&updated["all"], &updated["namespaces"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(updated.get("bandwidth"), None);
    update(&["--all", "--exclude-table", "orders", "--exclude-namespace", "ns"]).done();
    let updated = found().unwrap();
    assert_eq!((&updated["all"], &updated["tables"]), (&json!(true), &json!([])));
    assert_eq!(updated["excluded_tables"], json!(["orders"]));
    assert_eq!(updated["excluded_namespaces"], json!(["ns"]));
    assert_eq!(updated["settings"], json!({"key": "value"}));

    run(&["replication-peer", "remove", &id]).refused(1, &["is unchanged", "add --yes"]);
    run(&["replication-peer", "remove", &id, "--yes"]).done();
    assert!(found().is_none());
    run(&["replication-peer", "remove", &id, "--yes"]).refused(1, &[&id, "check its id"]);
    update(&["--all"]).refused(1, &[&id, "check its id"]);
}

#[test]
#[ignore = "needs decommissions of region servers"]
fn region_servers_are_listed() {
    let listed = run(&["region-server", "list", "--output", "json"]).objects();
    assert!(!listed.is_empty() && listed.iter().all(|server| server["decommissioned"] == false));
    let server = listed[0]["server"].as_str().unwrap();
    run(&["region-server", "update-configuration"]).done();
    for action in ["update-configuration", "roll-wal", "flush"] {
        run(&["region-server", action, server]).done();
    }
    let regions = run(&["region-server", "regions", server, "--output", "json"]).objects();
    assert!(
        regions.iter().any(|region| region["table"] == "hbase:meta"),
        "{regions:?}"
    );
    for action in [
        "decommission",
        "update-configuration",
        "roll-wal",
        "regions",
        "flush",
        "compact",
    ] {
        run(&["region-server", action, "nowhere:1"]).refused(1, &["nowhere:1", "no live region server"]);
    }
}
