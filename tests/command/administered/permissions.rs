//! `grant`, `revoke`, `user-permission` and `label`, on a cluster that checks permissions.

use std::{
    fs,
    time::{Duration, Instant},
};

use hbase_txn::client::{FamilyDescriptor, Permission, Put};
use serde_json::{Value, json};

use crate::harness::{TestTable, answer, command, run, unique_name, uri, with_admin};

fn objects(arguments: &[&str]) -> Vec<Value> {
    run(&[arguments, &["--output", "json"]].concat()).objects()
}

#[test]
#[ignore = "needs servers that check permissions"]
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
#[ignore = "needs visibility labels"]
fn cells_with_a_label_or_an_acl_are_exported_on_request() {
    let table = TestTable::odd(
        "export_labels",
        |table| {
            let table = table.with_attribute("hbase.security.access.early_out", "false");
            table.with_family(FamilyDescriptor::new("f"))
        },
        &[],
    );
    let t = table.0.as_str();
    let (user, label) = (unique_name("user"), unique_name("label"));
    run(&["label", "add", &label]).done();
    run(&["grant", &user, "R", "--table", t]).done();
    let put = |row: &'static str| Put::new(row).cell_at("f", "q", 5, "v");
    let puts = [
        put("a"),
        put("label").cell_visibility(&label),
        put("list").acl([(&*user, &[Permission::Read][..])]),
    ];
    with_admin(async |admin| {
        let written = admin.connection().table(table.name()).unwrap();
        for put in puts {
            written.put(put).await.unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    let path = file.to_str().unwrap();
    let tsv = ["--columns", "HBASE_ROW_KEY,f:q"];
    for (options, row) in [
        (&[][..], "label"),
        (&tsv, "label"),
        (&["--start-row", "list"], "list"),
    ] {
        let refused = run(&[&["export", t, path], options].concat());
        let why = format!("cannot export row {row}: its cell f:q has a visibility label or an ACL");
        refused.refused(1, &[&why, "--without-access-rules"]);
        assert!(!file.exists());
    }
    run(&["export", t, path, "--stop-row", "label"]).done();
    let exported = run(&["export", t, path, "--without-access-rules", "--output", "json"]);
    exported.refused(0, &["2 cells exported without their visibility label or ACL"]);
    let summary = json!({"table": t, "rows": 3, "file": path, "without_access_rules": 2});
    assert_eq!(exported.objects(), [summary]);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 3);

    // A user whom the labels exclude exports what is left, and can't know it.
    let as_user = answer(
        command(["export", t, "--stop-row", "list"])
            .env("HBASE_TXN_CONNECT", uri())
            .env("HADOOP_USER_NAME", &user)
            .spawn()
            .unwrap(),
    );
    assert_eq!(as_user.done().lines().count(), 1);
    // One whom they include gets the same refusal as an administrator.
    run(&["label", "set-auths", &user, &label]).done();
    let as_user = || {
        let export = command(["export", t, "--stop-row", "list"])
            .env("HBASE_TXN_CONNECT", uri())
            .env("HADOOP_USER_NAME", &user)
            .spawn();
        answer(export.unwrap())
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while as_user().code == 0 {
        assert!(Instant::now() < deadline, "the label is not known");
    }
    as_user().refused(1, &["cannot export row label"]);
}

#[test]
#[ignore = "needs visibility labels"]
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
