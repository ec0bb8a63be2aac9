use hbase_admin::Admin;
use hbase_client::{Connection, FamilyDescriptor, TableDescriptor};
use hbase_fake::FakeHBase;

use crate::{
    partition::PartitionRule,
    table_descriptor::TableDescriptorExt as _,
    txn::{OpenOptions, Outcome, PartitionedTable, proof::*},
};

/// The longest row key.
const MAX_KEY: usize = i16::MAX as usize;

/// Creates and opens a table whose prefixes end with a slash.
async fn open(connection: &Connection, options: OpenOptions, versioned: bool) -> PartitionedTable {
    let rule = PartitionRule::delimiter("/").unwrap();
    let mut table = TableDescriptor::new("orders")
        .unwrap()
        .with_family(FamilyDescriptor::new("f"))
        .with_partition_rule(&rule)
        .with_multi_row_mutation_endpoint();
    table = if versioned {
        table.with_partition_version()
    } else {
        table.with_record_family()
    };
    Admin::new(connection).create_table(&table, &[]).await.unwrap();
    options.open(connection, "orders").await.unwrap()
}

/// Commits two rows of a partition whose first key has this length.
async fn commit(table: &PartitionedTable, first_key: usize, id: Option<&'static str>) -> Outcome {
    let first_key = [vec![b'a'; first_key - 1], b"/".to_vec()].concat();
    let row = |end: &str| [&first_key[..], end.as_bytes()].concat();
    let mut transaction = table.transaction_for_row(row("1"));
    for end in ["1", "2"] {
        transaction = transaction.put(Put::new(row(end)).cell("f", "q", "v"));
    }
    if let Some(id) = id {
        transaction = transaction.id(id);
    }
    transaction.commit().await
}

/// The number of bytes of the name of a reserved row for which the key has room.
fn first_key(room: usize) -> usize {
    MAX_KEY - b"\xff_txn\xff".len() - room
}

#[test]
fn prefix_without_room_for_the_rows_of_a_test_is_refused() {
    FakeHBase::run(async |hbase| {
        let options = OpenOptions::new().without_endpoint();
        let table = open(&hbase.connect().await?, options, false).await;
        for room in [0, 6] {
            let outcome = commit(&table, first_key(room), None).await;
            assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome}");
            assert!(outcome.to_string().contains("shorter prefixes"), "{outcome}");
        }
        assert!(commit(&table, first_key(7), None).await.is_committed());
        Ok(())
    });
}

#[test]
fn prefix_with_room_for_a_short_id_only_is_refused() {
    FakeHBase::run(async |hbase| {
        let table = open(&hbase.connect().await?, OpenOptions::new(), false).await;
        let outcome = commit(&table, first_key(4), Some("abc")).await;
        assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome}");
        assert!(commit(&table, first_key(5), Some("abc")).await.is_committed());
        assert!(commit(&table, first_key(0), None).await.is_committed());
        Ok(())
    });
}

#[test]
fn prefix_without_room_for_its_version_is_refused() {
    FakeHBase::run(async |hbase| {
        let table = open(&hbase.connect().await?, OpenOptions::new(), true).await;
        let outcome = commit(&table, first_key(6), None).await;
        assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome}");
        assert!(commit(&table, first_key(7), None).await.is_committed());
        Ok(())
    });
}
