//! `quota`, on a cluster that has quotas.

use serde_json::{Value, json};

use crate::harness::{TestTable, run, unique_name};

#[test]
#[ignore = "needs quotas"]
fn throttle_is_set_listed_and_removed() {
    let user = unique_name("user");
    let own = || {
        let all = run(&["quota", "list", "--output", "json"]).objects();
        all.into_iter()
            .filter(|found| found["user"] == user)
            .collect::<Vec<Value>>()
    };
    run(&[
        "quota",
        "set",
        "write-number",
        "100",
        "--per",
        "second",
        "--user",
        &user,
    ])
    .done();
    run(&[
        "quota",
        "set",
        "read-size",
        "1000000",
        "--per",
        "hour",
        "--for-cluster",
        "--user",
        &user,
    ])
    .done();
    let throttle = |kind: &str, limit: u64, per: &str, for_cluster: bool| json!({"user": user, "type": kind, "limit": limit, "per": per, "for_cluster": for_cluster});
    let writes = throttle("write-number", 100, "second", false);
    assert_eq!(
        own(),
        [writes.clone(), throttle("read-size", 1_000_000, "hour", true)]
    );
    let shown = run(&["quota", "list"]).done();
    assert!(shown.contains(&user) && shown.contains("write-number"), "{shown}");
    run(&["quota", "remove", "read-size", "--user", &user]).done();
    assert_eq!(own(), [writes]);
    run(&["quota", "remove", "--user", &user]).done();
    assert_eq!(own(), Vec::<Value>::new());
    run(&[
        "quota",
        "set",
        "write-number",
        "0",
        "--per",
        "day",
        "--user",
        &user,
    ])
    .refused(1, &["allows nothing"]);
}

#[test]
#[ignore = "needs quotas"]
fn limit_of_space_is_set_listed_and_removed() {
    let table = TestTable::new("space");
    let own = || {
        let all = run(&["quota", "list", "--output", "json"]).objects();
        all.into_iter()
            .filter(|found| found["table"] == table.0)
            .collect::<Vec<Value>>()
    };
    let set = |limit: &str, policy: &str| {
        run(&[
            "quota",
            "set-space",
            limit,
            "--policy",
            policy,
            "--table",
            &table.0,
            "--yes",
        ])
    };
    let alone = [
        "quota",
        "set-space",
        "1099511627776",
        "--policy",
        "disable",
        "--table",
        &table.0,
    ];
    run(&alone).refused(1, &["is unchanged", "add --yes"]);
    for policy in ["disable", "no-writes-compactions", "no-writes", "no-inserts"] {
        set("1099511627776", policy).done();
        let expected =
            json!({"table": table.0, "type": "space", "limit": 1_099_511_627_776_u64, "policy": policy});
        assert_eq!(own(), [expected]);
    }
    let shown = run(&["quota", "list"]).done();
    assert!(
        shown.contains(&table.0) && shown.contains("no-inserts"),
        "{shown}"
    );
    set("0", "no-inserts").refused(1, &["a space quota of no bytes"]);
    set("5", "nothing").refused(2, &["no-inserts"]);
    run(&["quota", "remove-space", "--table", &table.0]).done();
    assert_eq!(own(), Vec::<Value>::new());
}

#[test]
#[ignore = "needs quotas"]
fn switch_of_throttles_is_shown_and_set_as_it_is() {
    let shown = || run(&["throttle-switch", "--output", "json"]).objects().remove(0);
    let before = shown();
    assert_eq!(before["switch"], "throttle");
    let on = before["on"].as_bool().unwrap();
    run(&["throttle-switch", if on { "on" } else { "off" }]).done();
    assert_eq!(shown(), before);
}
