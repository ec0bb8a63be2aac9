//! `grant`, `revoke`, `user-permission` and `label`, on a cluster that checks permissions.

use serde_json::{Value, json};

use crate::harness::{TestTable, answer, command, run, unique_name, uri};

fn objects(arguments: &[&str]) -> Vec<Value> {
    run(&[arguments, &["--output", "json"]].concat()).objects()
}

#[test]
fn permissions_are_granted_listed_and_revoked() {
    let table = TestTable::new("permissions");
    let user = unique_name("user");
    let on_table = ["--table", table.0.as_str()];
    let refused = answer(
        command(["get", &table.0, "r"])
            .env("HBASE_TXN_CONNECT", uri())
            .env("HADOOP_USER_NAME", &user)
            .spawn()
            .unwrap(),
    );
    refused.refused(
        1,
        &[
            "AccessDenied",
            &user,
            &table.0,
            "run hbase-txn grant USER RWXC --table",
        ],
    );

    let expected = |permissions: &str| json!({"user": user, "table": table.0, "permissions": permissions});
    let granted = objects(&[&["grant", &user, "XR"], &on_table[..]].concat());
    assert_eq!(granted, [expected("RX")]);
    let merged = objects(&[&["grant", &user, "W", "--merge"], &on_table[..]].concat());
    assert_eq!(merged, [expected("RWX")]);
    let replaced = objects(&[&["grant", &user, "RW"], &on_table[..]].concat());
    assert_eq!(replaced, [expected("RW")]);
    let on_family = objects(&[&["grant", &user, "A", "--family", "f"], &on_table[..]].concat());
    let of_family = json!({"user": user, "table": table.0, "family": "f", "permissions": "A"});
    assert!(on_family.contains(&of_family), "{on_family:?}");
    let all = objects(&[&["user-permission", "--user", &user], &on_table[..]].concat());
    assert!(
        all.contains(&expected("RW")) && all.contains(&of_family),
        "{all:?}"
    );
    let shown = run(&[&["user-permission"], &on_table[..]].concat()).done();
    assert!(shown.contains(&user) && shown.contains("RW"), "{shown}");

    let left = objects(&[&["revoke", &user, "W"], &on_table[..]].concat());
    assert!(left.contains(&expected("R")), "{left:?}");
    run(&["revoke", &user, "--table", &table.0, "--family", "f"]).done();
    assert_eq!(
        objects(&[&["revoke", &user], &on_table[..]].concat()),
        Vec::<Value>::new()
    );

    let global = objects(&["grant", &user, "R", "--global"]);
    assert_eq!(global, [json!({"user": user, "permissions": "R"})]);
    run(&["revoke", &user, "--global"]).refused(1, &["is unchanged", "add --yes"]);
    run(&["revoke", &user, "--global", "--yes"]).done();
    let namespace = objects(&["grant", &user, "R", "--namespace", "default"]);
    assert_eq!(
        namespace,
        [json!({"user": user, "namespace": "default", "permissions": "R"})]
    );
    run(&["revoke", &user, "--namespace", "default"]).done();
}

#[test]
fn labels_are_added_and_given_to_users() {
    let user = unique_name("user");
    let label = unique_name("label");
    for _ in 0..2 {
        run(&["label", "add", &label]).done();
    }
    assert!(objects(&["label", "list"]).contains(&json!({"label": label})));
    assert_eq!(objects(&["label", "auths", &user]), Vec::<Value>::new());
    let expected = json!({"user": user, "label": label});
    assert_eq!(
        objects(&["label", "set-auths", &user, &label]),
        std::slice::from_ref(&expected)
    );
    assert_eq!(objects(&["label", "auths", &user]), [expected]);
    assert!(run(&["label", "auths", &user]).done().contains(&label));
    let cleared = objects(&["label", "clear-auths", &user, &label]);
    assert_eq!(cleared, Vec::<Value>::new());
    run(&["label", "set-auths", &user, "absent-label"]).refused(1, &["absent-label", &user]);
}
