//! Namespaces, and the switches of the whole cluster.

use hbase_txn::{
    ClientErrorKind,
    admin::{Admin, NamespaceDescriptor},
    client::TableName,
};

use crate::support::{
    connect, says,
    table::{TestTable, plain},
};

#[tokio::test]
#[ignore = "needs changes of namespaces"]
async fn namespace_is_created_listed_changed_and_deleted() {
    let admin = Admin::new(&connect().await);
    let name = format!("suite_{:x}", fastrand::u64(..));
    assert!(!admin.namespace_exists(&name).await.unwrap());
    let error = admin.namespace(&name).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::NamespaceNotFound);
    says(&error, &[&name]);

    let namespace = NamespaceDescriptor::new(&name).with_configuration("owner", "billing");
    admin.create_namespace(namespace.clone()).await.unwrap();
    // Nothing is done for one that exists.
    admin.create_namespace(name.as_str()).await.unwrap();
    assert_eq!(admin.namespace(&name).await.unwrap(), namespace);
    let all = admin.namespaces().await.unwrap();
    assert!(
        all.contains(&namespace) && all.iter().any(|found| found.name == "default"),
        "{all:?}"
    );

    let changed = NamespaceDescriptor::new(&name).with_configuration("owner", "sales");
    admin.modify_namespace(&changed).await.unwrap();
    assert_eq!(admin.namespace(&name).await.unwrap(), changed);

    let table: TableName = format!("{name}:orders").parse().unwrap();
    admin.create_table(&plain(table.clone()), &[]).await.unwrap();
    assert_eq!(
        admin.tables_of_namespace(&name).await.unwrap(),
        std::slice::from_ref(&table)
    );
    let error = admin.delete_namespace(&name).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::NamespaceNotEmpty);
    says(&error, &[&name, "tables"]);

    admin.delete_table(table).await.unwrap();
    admin.delete_namespace(&name).await.unwrap();
    assert!(!admin.namespace_exists(&name).await.unwrap());
}

#[tokio::test]
#[ignore = "needs changes of namespaces"]
async fn missing_namespaces_are_named() {
    let admin = Admin::new(&connect().await);
    for error in [
        admin.delete_namespace("suite_none").await.unwrap_err(),
        admin.tables_of_namespace("suite_none").await.unwrap_err(),
        admin.modify_namespace(&"suite_none".into()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ClientErrorKind::NamespaceNotFound, "{error}");
        says(&error, &["suite_none"]);
    }
    let own = admin.delete_namespace("hbase").await.unwrap_err();
    assert_ne!(own.kind(), ClientErrorKind::NamespaceNotEmpty);
}

#[tokio::test]
#[ignore = "needs a master that truncates tables"]
async fn truncated_table_is_empty_and_keeps_its_regions_on_request() {
    let connection = connect().await;
    let owned = TestTable::create("truncated", plain, &["m"]).await;
    let table = owned.of(&connection);
    let admin = Admin::new(&connection);
    for (preserve, regions) in [(true, 2), (false, 1)] {
        for row in ["a", "z"] {
            table.put(crate::support::put(row, "v")).await.unwrap();
        }
        admin.truncate_table(&owned.name, preserve).await.unwrap();
        assert!(
            crate::support::keys(&table, hbase_txn::client::Scan::new())
                .await
                .is_empty()
        );
        assert_eq!(admin.regions(&owned.name).await.unwrap().len(), regions);
    }
    let error = admin.truncate_table("suite_none", true).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound);
}

#[tokio::test]
#[ignore = "needs the balancer and the normalizer"]
async fn switches_say_how_they_were() {
    let admin = Admin::new(&connect().await);
    let before = admin.is_balancer_enabled().await.unwrap();
    assert_eq!(admin.balancer_switch(false).await.unwrap(), before);
    assert!(!admin.is_balancer_enabled().await.unwrap());
    assert!(!admin.balance().await.unwrap(), "it is off");
    assert!(!admin.balancer_switch(before).await.unwrap());

    let before = admin.is_normalizer_enabled().await.unwrap();
    assert_eq!(admin.normalizer_switch(false).await.unwrap(), before);
    assert!(!admin.is_normalizer_enabled().await.unwrap());
    assert!(!admin.normalize().await.unwrap(), "it is off");
    assert!(!admin.normalizer_switch(before).await.unwrap());
}
