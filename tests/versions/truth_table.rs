//! The result of each condition for each state of a cell, on every release.
//!
//! The endpoint's own comparisons have surprises: with an empty comparand all operators are the
//! same, with an absent cell all are false, and filters also see old versions. The library's
//! conditions have none of these.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hbase_txn::{
    PartitionedTable,
    client::{
        Comparator, Comparison, Condition, Delete, FamilyDescriptor, Filter, Get, Put, Table,
        TableDescriptor, TableName,
    },
};

use crate::{
    on_each,
    support::{
        eventually,
        table::{TestTable, by_three},
    },
};

/// The comparand of every comparison.
const GIVEN: &str = "m";

/// The state of `f:q` that a condition should see.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Absent,
    Smaller,
    Equal,
    Larger,
}
use Seen::{Absent, Equal, Larger, Smaller};

/// Rows by state, with the state that a condition should see.
const STATES: &[(&str, Seen)] = &[
    ("xxx_no_row", Absent),
    ("xxx_another_column", Absent),
    ("xxx_another_family", Absent),
    ("xxx_empty", Absent),
    ("xxx_deleted", Absent),
    ("xxx_expired", Absent),
    ("xxx_smallest", Smaller),
    ("xxx_smaller", Smaller),
    ("xxx_equal", Equal),
    ("xxx_longer", Larger),
    ("xxx_larger", Larger),
    ("xxx_of_the_future", Equal),
    ("xxx_empty_of_the_future", Absent),
    ("xxx_empty_over_equal", Absent),
    ("xxx_larger_over_equal", Larger),
    ("xxx_equal_over_smaller", Equal),
    ("xxx_deleted_over_equal", Equal),
    ("xxx_expired_over_equal", Equal),
];

const TTL: Duration = Duration::from_millis(100);

/// Keeps old versions, which no condition may see.
fn versioned(name: TableName) -> TableDescriptor {
    by_three(name)
        .with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "3"))
        .with_family(FamilyDescriptor::new("g"))
}

async fn write_states(table: &Table) {
    let future = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(3_600);
    let future = u64::try_from(future.as_millis()).unwrap();
    let cell = |row: &'static str, value: &'static str| Put::new(row).cell("f", "q", value);
    let puts = [
        Put::new("xxx_another_column")
            .cell("f", "p", GIVEN)
            .cell("f", "qq", GIVEN),
        Put::new("xxx_another_family").cell("g", "q", GIVEN),
        cell("xxx_empty", ""),
        cell("xxx_deleted", GIVEN),
        cell("xxx_expired", GIVEN).ttl(TTL),
        cell("xxx_smallest", "\0"),
        cell("xxx_smaller", "a"),
        cell("xxx_equal", GIVEN),
        cell("xxx_longer", "ma"),
        cell("xxx_larger", "z"),
        cell("xxx_of_the_future", GIVEN).timestamp(future),
        cell("xxx_empty_of_the_future", GIVEN),
        cell("xxx_empty_of_the_future", "").timestamp(future),
        cell("xxx_empty_over_equal", GIVEN).timestamp(1),
        cell("xxx_empty_over_equal", "").timestamp(2),
        cell("xxx_larger_over_equal", GIVEN).timestamp(1),
        cell("xxx_larger_over_equal", "z").timestamp(2),
        cell("xxx_equal_over_smaller", "a").timestamp(1),
        cell("xxx_equal_over_smaller", GIVEN).timestamp(2),
        cell("xxx_deleted_over_equal", GIVEN).timestamp(1),
        cell("xxx_deleted_over_equal", "z").timestamp(2),
        cell("xxx_expired_over_equal", GIVEN).timestamp(1),
        cell("xxx_expired_over_equal", "z").ttl(TTL),
    ];
    for put in puts {
        table.put(put).await.unwrap();
    }
    let deleted = Delete::new("xxx_deleted").column("f", "q");
    table.delete(deleted).await.unwrap();
    let newest = Delete::new("xxx_deleted_over_equal").version("f", "q", 2);
    table.delete(newest).await.unwrap();
    eventually("the cells have expired", async || {
        let alone = table.get(Get::new("xxx_expired")).await.unwrap();
        let over = table.get(Get::new("xxx_expired_over_equal")).await.unwrap()?;
        (alone.is_none() && over.value("f", "q").unwrap() == GIVEN).then_some(())
    })
    .await;
}

/// Conditions on `f:q` of a row, each with whether it holds if the cell is absent, smaller, equal,
/// larger.
fn conditions(row: &'static str) -> Vec<(Condition, [bool; 4])> {
    let given = || Comparator::binary(GIVEN);
    let compared = |comparison| Condition::compare(row, "f", "q", comparison, GIVEN);
    let column = |comparison, comparator| {
        Condition::matches(row, Filter::column_value("f", "q", comparison, comparator))
    };
    let in_parts = Filter::all([
        Filter::family(Comparison::Equal, Comparator::binary("f")),
        Filter::qualifier(Comparison::Equal, Comparator::binary("q")),
        Filter::any([
            Filter::value(Comparison::Equal, given()),
            Filter::value(Comparison::Less, given()),
        ]),
    ]);
    vec![
        (Condition::absent(row, "f", "q"), [true, false, false, false]),
        (Condition::present(row, "f", "q"), [false, true, true, true]),
        (compared(Comparison::Equal), [false, false, true, false]),
        (compared(Comparison::NotEqual), [true, true, false, true]),
        (compared(Comparison::Less), [false, true, false, false]),
        (compared(Comparison::LessOrEqual), [false, true, true, false]),
        (compared(Comparison::Greater), [false, false, false, true]),
        (compared(Comparison::GreaterOrEqual), [false, false, true, true]),
        (column(Comparison::Equal, given()), [false, false, true, false]),
        (column(Comparison::NotEqual, given()), [false, true, false, true]),
        (column(Comparison::Less, given()), [false, true, false, false]),
        (
            column(Comparison::GreaterOrEqual, given()),
            [false, false, true, true],
        ),
        // No cell here has eight bytes, and the call does not fail.
        (column(Comparison::Less, Comparator::long(7)), [false; 4]),
        (
            column(Comparison::NotEqual, Comparator::long(7)),
            [false, true, true, true],
        ),
        (Condition::matches(row, in_parts), [false, true, true, false]),
    ]
}

async fn holds(table: &PartitionedTable, condition: Condition) -> bool {
    let transaction = table.transaction("xxx").condition(condition);
    let outcome = transaction.commit().await;
    match outcome.name() {
        "committed" => true,
        "rejected" => false,
        _ => panic!("{outcome}"),
    }
}

#[tokio::test]
async fn a_condition_means_the_same_whatever_the_cell_is() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let owned = TestTable::create_on(cluster, "truth", versioned, &[]).await;
        let table = owned.open(&connection).await;
        write_states(table.table()).await;
        for (row, seen) in STATES {
            for (condition, expected) in conditions(row) {
                let text = format!("{condition:?}");
                let expected = expected[*seen as usize];
                assert_eq!(holds(&table, condition).await, expected, "{text}, {seen:?}");
            }
        }
    })
    .await;
}
