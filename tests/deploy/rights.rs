//! A user without permissions, on a cluster that checks them: refused with the reason, reported by
//! the audit, and without partial changes.

use std::fs;

use hbase_provision::{audit_cluster, audit_table};
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Connection, Permission, TableName},
};

use tempfile::TempDir;

use crate::{cluster::Cluster, guides::read};

/// `AccessController` and its checks, and a superuser.
const SETTINGS: [&str; 5] = [
    "hbase.security.authorization=true",
    "hbase.coprocessor.master.classes=org.apache.hadoop.hbase.security.access.AccessController",
    "hbase.coprocessor.region.classes=org.apache.hadoop.hbase.security.access.AccessController",
    "hbase.security.exec.permission.checks=true",
    "hbase.superuser=chief",
];

async fn as_user(cluster: &Cluster, user: &str) -> Connection {
    let config = cluster.config().with_user(user);
    Connection::builder(config).connect().await.unwrap()
}

#[tokio::test]
async fn a_user_without_rights_is_refused_and_told_what_is_missing() {
    let cluster = Cluster::boot("rights", &SETTINGS);
    let chief = as_user(&cluster, "chief").await;
    let eve = as_user(&cluster, "eve").await;
    let table: TableName = "orders".parse().unwrap();
    let made = cluster.run_as(
        "chief",
        "hbase-txn table create orders --family f --prefix-length 3 --split m; hbase-txn table check orders; hbase-txn doctor",
    );
    assert!(made.status.success(), "{made:?}");
    assert!(audit_table(&chief, &table).await.unwrap().is_empty());
    let rights = [Permission::Read, Permission::Write, Permission::Exec];
    assert_eq!(
        Admin::new(&chief).has_permissions(&table, &rights).await.unwrap(),
        [true; 3]
    );
    assert_eq!(
        Admin::new(&eve).has_permissions(&table, &rights).await.unwrap(),
        [false; 3]
    );

    let found = audit_table(&eve, &table).await.unwrap();
    let names: Vec<_> = found.iter().map(|finding| finding.finding).collect();
    assert_eq!(names, ["rights-missing"]);
    assert!(
        found[0].what.contains("user eve") && found[0].fix.contains("grant eve RWXC --table orders"),
        "{}",
        found[0]
    );
    let audit = audit_cluster(&eve, std::slice::from_ref(&table)).await.unwrap();
    assert_eq!(audit.findings, found);
    assert!(
        audit_cluster(&eve, &[]).await.unwrap().tables.is_empty(),
        "a user sees what he may see"
    );

    let before = Admin::new(&chief).descriptor(&table).await.unwrap();
    let folder = TempDir::new().unwrap();
    let example = read("schemas/tables/by_prefix_length.toml");
    let line = 1 + example
        .lines()
        .position(|line| line.starts_with("table = "))
        .unwrap();
    fs::write(folder.path().join("orders.toml"), example).unwrap();
    for command in ["plan", "apply"] {
        let refused = cluster.run_as(
            "eve",
            &format!(
                "cd '{}'; hbase-txn provision {command} orders.toml",
                folder.path().display()
            ),
        );
        let told = String::from_utf8_lossy(&refused.stderr);
        let place = format!("hbase-txn: orders.toml:{line}:9: ");
        assert!(
            told.starts_with(&place) && told.contains("AccessDeniedException"),
            "{told}"
        );
    }
    for command in [
        "hbase-txn table alter orders --splits off",
        "hbase-txn table repair orders --yes",
        "hbase-txn table skew orders",
        "hbase-txn table disable orders",
        "hbase-txn table drop orders --yes",
        "hbase-txn split-switch off",
        "hbase-txn provision plan schemas/tables/by_prefix_length.toml schemas/tables/multi_tenant.toml",
        "hbase-txn provision apply schemas/tables/by_prefix_length.toml schemas/tables/multi_tenant.toml",
    ] {
        let refused = cluster.run_as("eve", command);
        let told = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{command}: {refused:?}");
        assert!(
            told.contains("AccessDeniedException") && told.contains("eve"),
            "{command}: {told}"
        );
    }
    let error = eve
        .table(table.clone())
        .unwrap()
        .get(hbase_txn::client::Get::new("a"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::AccessDenied);
    assert!(error.hint().is_some_and(|hint| hint.contains("grant")), "{error}");
    assert_eq!(Admin::new(&chief).descriptor(&table).await.unwrap(), before);
    assert_eq!(Admin::new(&chief).tables().await.unwrap(), [table]);
    assert!(Admin::new(&chief).is_split_enabled().await.unwrap());
}
