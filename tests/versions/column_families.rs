//! Column families that are added, modified and deleted one by one.

use futures::future::join_all;
use hbase_txn::{admin::Admin, client::FamilyDescriptor};

use super::*;

#[tokio::test]
async fn families_change_one_by_one() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "families", plain, &["m"]).await;
        let name = &shared.name;
        let families = async || {
            let descriptor = admin.descriptor(name).await.unwrap();
            let names = descriptor.families.iter();
            let names = names.map(|family| String::from_utf8(family.name.to_vec()).unwrap());
            names.collect::<Vec<_>>()
        };
        let versions = async |family: &str| {
            let descriptor = admin.descriptor(name).await.unwrap();
            let mut found = descriptor.families.into_iter();
            let found = found.find(|found| found.name == family.as_bytes()).unwrap();
            found.attributes["VERSIONS".as_bytes()].clone()
        };
        let archive =
            |versions: &'static str| FamilyDescriptor::new("archive").with_attribute("VERSIONS", versions);

        admin.add_column_family(name, &archive("3")).await.unwrap();
        assert_eq!(families().await, ["archive", "f"]);
        let table = shared.of(&connection);
        table.put(Put::new("a").cell("archive", "q", "v")).await.unwrap();
        let error = admin.add_column_family(name, &archive("5")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::FamilyExists, "{error}");
        says(&error, &["archive", &name.to_string(), "modify"]);
        assert_eq!(versions("archive").await, "3");

        admin.modify_column_family(name, &archive("7")).await.unwrap();
        assert_eq!(versions("archive").await, "7");
        let absent = FamilyDescriptor::new("absent");
        let error = admin.modify_column_family(name, &absent).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
        says(&error, &["absent", &name.to_string()]);
        let broken = archive("9").with_attribute("TTL", "0");
        let error = admin.modify_column_family(name, &broken).await.unwrap_err();
        assert!(!error.is_outcome_unknown(), "{error}");
        assert_eq!(versions("archive").await, "7");

        // Changes of several clients at once all count.
        let added: Vec<FamilyDescriptor> = (0..4).map(|n| FamilyDescriptor::new(format!("n{n}"))).collect();
        for done in join_all(added.iter().map(|family| admin.add_column_family(name, family))).await {
            done.unwrap();
        }
        assert_eq!(families().await, ["archive", "f", "n0", "n1", "n2", "n3"]);
        for family in added {
            admin.delete_column_family(name, family.name).await.unwrap();
        }
        admin.delete_column_family(name, "archive").await.unwrap();
        assert_eq!(families().await, ["f"]);
        assert!(table.get(Get::new("a")).await.unwrap().is_none());
        let error = admin.delete_column_family(name, "archive").await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
        let error = admin.delete_column_family(name, "f").await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        assert_eq!(families().await, ["f"]);

        let nowhere = unique_name("nowhere");
        for result in [
            admin.add_column_family(&nowhere, &absent).await,
            admin.modify_column_family(&nowhere, &absent).await,
            admin.delete_column_family(&nowhere, "f").await,
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
        }
    })
    .await;
}
