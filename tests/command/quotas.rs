//! `quota`, on a cluster that has quotas.

use serde_json::{Value, json};

use crate::harness::{run, unique_name};

#[test]
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
