//! Exceptions that a coprocessor throws after the write is applied. The cluster allows its jar by
//! `hbase.coprocessor.region.whitelist.paths`.

use hbase_txn::{
    Outcome,
    client::{Get, Put, TableDescriptor, TableName},
};

use crate::support::{
    connect,
    java::coprocessor_jar,
    table::{TestTable, by_three},
};

#[tokio::test]
#[ignore = "needs a coprocessor in Java"]
async fn write_that_a_hook_fails_afterwards_has_an_unknown_outcome() {
    let connection = connect().await;
    let jar = coprocessor_jar().await;
    let observed = |name: TableName| -> TableDescriptor {
        let observer = format!("file://{}|hbasetxn.AfterWrite|1001|", jar.display());
        by_three(name).with_attribute("coprocessor$9", observer)
    };
    let table = TestTable::create("after_write", observed, &[]).await;
    let partitioned = table.open(&connection).await;
    let plain = table.of(&connection);
    for (row, class) in [
        ("xxxown", "hbasetxn.AfterWrite$Own"),
        ("xxxplain", "org.apache.hadoop.hbase.DoNotRetryIOException"),
        ("xxxunserved", "org.apache.hadoop.hbase.NotServingRegionException"),
    ] {
        let put = |value: &'static str| Put::new(row).cell("f", "q", value);
        let error = plain.put(put("put")).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        assert_eq!(error.remote().unwrap().class, class);

        let transaction = partitioned.transaction("xxx").put(put("transaction"));
        match transaction.commit().await {
            Outcome::Unknown(unsettled) => assert_eq!(unsettled.error().remote().unwrap().class, class),
            other => panic!("{row}: {other}"),
        }
        let found = plain.get(Get::new(row)).await.unwrap().unwrap();
        assert_eq!(found.value("f", "q").unwrap(), &"transaction");
    }
}
