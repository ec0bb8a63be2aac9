//! Cells in the place of a partition's version that are not one.

use hbase_txn::{
    ClientErrorKind, OpenOptions, Outcome, TableDescriptorExt,
    client::{Delete, Put, Scan, TableDescriptor, TableName},
};

use crate::{
    on_each,
    support::{
        put, rows, says,
        table::{TestTable, by_three, by_three_without_endpoint},
        value,
    },
};

fn versioned(name: TableName) -> TableDescriptor {
    by_three(name).with_partition_version()
}

fn versioned_without_endpoint(name: TableName) -> TableDescriptor {
    by_three_without_endpoint(name).with_partition_version()
}

/// An increment of a value that has not eight bytes: the server refuses it, and all other changes
/// of the call.
#[tokio::test]
async fn a_version_that_is_no_number_refuses_the_whole_transaction() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let with_endpoint = (versioned as fn(_) -> _, OpenOptions::new());
        let by_multi = (
            versioned_without_endpoint as fn(_) -> _,
            OpenOptions::new().without_endpoint(),
        );
        for (describe, options) in [with_endpoint, by_multi] {
            let owned = TestTable::create_on(cluster, "noversion", describe, &[]).await;
            let table = owned.open_with(&connection, options).await;
            let commit = async || {
                let transaction = table
                    .transaction("xxx")
                    .put(put("xxx1", "v"))
                    .put(put("xxx2", "v"));
                transaction.commit().await
            };
            assert!(commit().await.is_committed());
            let versions = Scan::new().family(TableDescriptor::VERSION_FAMILY);
            let version = rows(table.table(), versions).await.remove(0);
            for key in ["xxx1", "xxx2"] {
                table.table().delete(Delete::new(key)).await.unwrap();
            }
            let spoilt = Put::new(version.key().clone()).cell(TableDescriptor::VERSION_FAMILY, "v", "three");
            // The library's own table refuses reserved rows.
            let plain = connection.table(table.name().clone()).unwrap();
            plain.put(spoilt).await.unwrap();

            let outcome = commit().await;
            assert!(matches!(outcome, Outcome::Aborted(_)), "{outcome}");
            let error = outcome.error().unwrap();
            assert_eq!(error.kind(), ClientErrorKind::Server, "{error}");
            says(error, &["xxx"]);
            for row in ["xxx1", "xxx2"] {
                assert_eq!(value(table.table(), row).await, None);
            }
        }
    })
    .await;
}
