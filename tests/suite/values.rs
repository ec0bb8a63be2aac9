//! Typed values and names: HBase increments and compares the written values, and reads return them.

use bytes::Bytes;
use hbase_provision::{Repair, Skew, audit_table};
use hbase_txn::{
    ClientErrorKind, Error, Outcome, PartitionedTable,
    admin::Admin,
    client::{
        Append, Comparator, Comparison, Condition, Delete, Filter, Get, Increment, Put, Scan, TableDescriptor,
    },
    latch::LatchManagerOptions,
    lock::{LockManagerOptions, LockTableOptions},
};

use crate::support::{
    connect,
    table::{TestTable, recorded},
};

#[tokio::test]
async fn typed_cells_are_written_counted_and_read() {
    let connection = connect().await;
    let table = TestTable::create("values", recorded, &[]).await;
    let name = table.name.to_string();
    let orders = PartitionedTable::open(&connection, &name).await.unwrap();
    let id = uuid::Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8);

    let transaction = orders.transaction("xxx").put(
        Put::new("xxxabc")
            .cell("f", "i16", -2i16)
            .cell("f", "i32", 7i32)
            .cell("f", "i64", 40i64)
            .cell("f", "f32", 1.5f32)
            .cell("f", "f64", -0.1f64)
            .cell("f", "bool", true)
            .cell("f", "str", "grüß")
            .cell("f", "uuid", id),
    );
    transaction.commit().await.into_result().unwrap();

    let counted = orders
        .table()
        .increment(Increment::new("xxxabc").column("f", "i64", 1));
    let counted = counted.await.unwrap();
    assert_eq!(counted.get::<i64>("f", "i64").unwrap(), Some(41));
    let updated = orders.update("xxx", |view| {
        let count: i64 = view.get("xxxabc", "f", "i64")?.unwrap_or(0);
        let absent: Option<i64> = view.get("xxxabc", "f", "absent")?;
        view.increment(Increment::new("xxxabc").column("f", "i64", 1))?;
        view.append(Append::new("xxxabc").cell("f", "str", String::from("e")))?;
        Ok::<_, Error>((count, absent))
    });
    assert_eq!(updated.await.unwrap().into_value(), Some((41, None)));

    let got = orders.table().get(Get::new("xxxabc")).await.unwrap().unwrap();
    let mut scanner = orders.table().scan(Scan::prefix("xxx")).unwrap();
    let scanned = scanner.next().await.unwrap().unwrap();
    for row in [&got, &scanned] {
        assert_eq!(row.get("f", "i16").unwrap(), Some(-2i16));
        assert_eq!(row.get("f", "i32").unwrap(), Some(7i32));
        assert_eq!(row.get("f", "i64").unwrap(), Some(42i64));
        assert_eq!(row.get("f", "f32").unwrap(), Some(1.5f32));
        assert_eq!(row.get("f", "f64").unwrap(), Some(-0.1f64));
        assert_eq!(row.get("f", "bool").unwrap(), Some(true));
        assert_eq!(row.get("f", "str").unwrap(), Some("grüße"));
        assert_eq!(row.get("f", "uuid").unwrap(), Some(id));
        assert_eq!(row.get::<i64>("f", "absent").unwrap(), None);
    }
    let snapshot = orders.snapshot("xxx").await.unwrap();
    assert_eq!(snapshot.get("xxxabc", "f", "i64").unwrap(), Some(42i64));
    assert_eq!(snapshot.get::<i64>("xxxzzz", "f", "i64").unwrap(), None);

    // Four bytes are not a counter to the server, and not an `i64` to the reader.
    let refused = orders
        .table()
        .increment(Increment::new("xxxabc").column("f", "i32", 1));
    assert_eq!(refused.await.unwrap_err().kind(), ClientErrorKind::Server);
    let error = got.get::<i64>("f", "i32").unwrap_err();
    assert_eq!(
        error.to_string(),
        "row xxxabc: cannot read cell f:i32 of 4 bytes: expected 8 for i64"
    );
}

#[tokio::test]
async fn server_compares_typed_values_as_bytes() {
    let connection = connect().await;
    let table = TestTable::create("valueorder", recorded, &[]).await;
    let accounts = table.open(&connection).await;
    let stored = Put::new("xxxabc")
        .cell("f", "debt", -5i64)
        .cell("f", "paid", true);
    accounts.table().put(stored).await.unwrap();
    // Equality compares bytes, and another client may write true as `0x01`.
    let other = Put::new("xxxabc").cell("f", "java", [1u8]);
    accounts.table().put(other).await.unwrap();

    let compare = |comparison, value: i64| Condition::compare("xxxabc", "f", "debt", comparison, value);
    let as_number = |comparison, value| {
        let filter = Filter::column_value("f", "debt", comparison, Comparator::long(value));
        Condition::matches("xxxabc", filter)
    };
    let cases = [
        (Condition::equal("xxxabc", "f", "debt", -5i64), true),
        (Condition::equal("xxxabc", "f", "debt", 5i64), false),
        (Condition::equal("xxxabc", "f", "debt", -5i32), false),
        (Condition::equal("xxxabc", "f", "paid", true), true),
        (Condition::equal("xxxabc", "f", "java", true), false),
        (Condition::not_equal("xxxabc", "f", "paid", false), true),
        (compare(Comparison::Less, -4), true),
        // Because of the sign bit, negative numbers sort after all others as bytes.
        (compare(Comparison::Less, 0), false),
        (compare(Comparison::Greater, 0), true),
        (as_number(Comparison::Less, 0), true),
        (as_number(Comparison::Greater, 0), false),
    ];
    for (condition, expected) in cases {
        let what = format!("{condition:?}");
        let transaction = accounts
            .transaction("xxx")
            .condition(condition)
            .put(Put::new("xxxlog").cell("f", "seen", true));
        let outcome = transaction.commit().await;
        let held = match outcome {
            Outcome::Committed(_) => true,
            Outcome::Rejected(_) => false,
            other => panic!("{what}: {other}"),
        };
        assert_eq!(held, expected, "{what}");
    }
    let row = accounts.table().get(Get::new("xxxabc")).await.unwrap().unwrap();
    assert_eq!(row.get("f", "java").unwrap(), Some(true));
}

#[tokio::test]
async fn tables_rows_and_names_are_of_any_kind() {
    let connection = connect().await;
    let table = TestTable::create("names", recorded, &[]).await;
    let (name, text) = (&table.name, table.name.to_string());
    let admin = Admin::new(&connection);
    assert!(admin.exists(name).await.unwrap());
    assert!(admin.exists(name.clone()).await.unwrap());
    assert!(admin.exists(&text).await.unwrap());
    assert!(admin.exists(text.clone()).await.unwrap());
    assert!(admin.exists(&text[..]).await.unwrap());
    assert!(!admin.exists("nowhere_to_be_found").await.unwrap());

    let rows = connection.table(&text).unwrap();
    let (row, qualifier) = (String::from("xxxabc"), Bytes::from("q"));
    rows.put(Put::new(&row).cell(b"f", &qualifier, vec![b'v']))
        .await
        .unwrap();
    let get = Get::new(row.as_bytes()).column([b'f'], qualifier.clone());
    let found = rows.get(get).await.unwrap().unwrap();
    assert_eq!(found.get(b"f", &qualifier).unwrap(), Some("v"));
    rows.delete(Delete::new(row.clone()).column("f", qualifier))
        .await
        .unwrap();
    assert_eq!(rows.get(Get::new(row)).await.unwrap(), None);
}

#[tokio::test]
async fn invalid_table_name_is_the_error_of_the_call() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let bad = "no table";
    let errors: [Error; 13] = [
        connection.table(bad).unwrap_err().into(),
        PartitionedTable::open(&connection, bad).await.unwrap_err(),
        LockManagerOptions::new("suite")
            .open(&connection, bad)
            .await
            .unwrap_err(),
        LatchManagerOptions::new("suite", "farm")
            .open(&connection, bad)
            .await
            .unwrap_err(),
        LockTableOptions::new(bad).unwrap_err(),
        TableDescriptor::new(bad).unwrap_err().into(),
        Repair::new(&connection, bad).unwrap_err(),
        Skew::new(&connection, bad).unwrap_err(),
        audit_table(&connection, bad).await.unwrap_err(),
        admin.exists(bad).await.unwrap_err().into(),
        admin.descriptor(bad).await.unwrap_err().into(),
        admin.flush_table(bad).await.unwrap_err().into(),
        admin.delete_table(bad).await.unwrap_err().into(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        assert!(
            error
                .to_string()
                .contains("\"default:no table\" can't be a table's name"),
            "{error}"
        );
    }
}
