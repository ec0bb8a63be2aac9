//! Conditions, increments and appends with times, and many conditional changes and checks of existence.

use hbase_txn::{
    ErrorKind, PartitionedTable,
    client::{
        Append, Comparator, Comparison, Condition, FamilyDescriptor, Filter, Get, Increment, Mutation, Put,
        Row, Table, TableDescriptor, TableName, TimeRange,
    },
};

use super::{TestTable, by_three, on_each, plain, put};

fn versioned(name: TableName) -> TableDescriptor {
    plain(name).with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "9"))
}

fn range(from: u64, to: u64) -> TimeRange {
    TimeRange { from, to }
}

/// Returns whether a change of another column is made under the condition.
async fn holds(table: &Table, condition: Condition) -> bool {
    let mark = Put::new("r").cell("f", "mark", "v");
    let result = table.check_and_mutate(condition, [mark.into()]).await.unwrap();
    result.success
}

#[tokio::test]
async fn condition_reads_versions_in_its_time_range() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let name = TestTable::create_on(cluster, "time_range", versioned, &[]).await;
        let table = name.of(&connection);
        let mut put = Put::new("r");
        for (timestamp, value) in [(10, "a"), (20, "b"), (30, "c")] {
            put = put.cell_at("f", "q", timestamp, value);
        }
        table.put(put).await.unwrap();
        let equal = |value: &'static str| Condition::equal("r", "f", "q", value);
        let less = |value: &'static str| Condition::compare("r", "f", "q", Comparison::Less, value);
        let row = |value: &'static str| {
            let value = Filter::value(Comparison::Equal, Comparator::binary(value));
            Condition::matches("r", value)
        };
        for (condition, expected) in [
            (equal("c"), true),
            (equal("b"), false),
            (equal("b").time_range(range(0, 30)), true),
            (equal("c").time_range(range(0, 30)), false),
            (equal("a").time_range(range(10, 20)), true),
            (less("b").time_range(range(0, 20)), true),
            (less("b").time_range(range(0, 21)), false),
            (row("b").time_range(range(15, 30)), true),
            (row("b").time_range(range(15, 31)), false),
            (Condition::absent("r", "f", "q").time_range(range(31, 99)), true),
            (Condition::present("r", "f", "q").time_range(range(31, 99)), false),
            (Condition::present("r", "f", "q").time_range(range(30, 31)), true),
        ] {
            assert_eq!(holds(&table, condition.clone()).await, expected, "{condition:?}");
        }
        let backwards = equal("a").time_range(range(7, 3));
        table.check_and_mutate(backwards, []).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn increments_and_appends_read_and_write_at_times() {
    let timestamp = |row: &Row| row.cells()[0].timestamp;
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let name = TestTable::create_on(cluster, "times", versioned, &[]).await;
        let table = name.of(&connection);
        // An absent column gets the timestamp; a later cell gets a later one.
        let add = |amount| Increment::new("r").column("f", "n", amount);
        let row = table.increment(add(5).timestamp(100)).await.unwrap();
        assert_eq!(
            (row.get::<i64>("f", "n").unwrap(), timestamp(&row)),
            (Some(5), 100)
        );
        let row = table.increment(add(1).timestamp(200)).await.unwrap();
        assert!(row.get::<i64>("f", "n").unwrap() == Some(6) && timestamp(&row) > 1_000_000);
        // Of the two versions the first one is in the range.
        let row = table.increment(add(10).time_range(range(0, 101))).await.unwrap();
        assert_eq!(row.get::<i64>("f", "n").unwrap(), Some(15));
        // None is.
        let row = table.increment(add(7).time_range(range(0, 50))).await.unwrap();
        assert_eq!(row.get::<i64>("f", "n").unwrap(), Some(7));

        let append = |suffix: &'static str| Append::new("r").cell("f", "s", suffix);
        let row = table.append(append("a").timestamp(100)).await.unwrap();
        assert!(row.value("f", "s").unwrap() == "a" && timestamp(&row) == 100);
        let row = table.append(append("b")).await.unwrap();
        assert_eq!(row.value("f", "s").unwrap(), "ab");
        let row = table.append(append("c").time_range(range(0, 101))).await.unwrap();
        assert_eq!(row.value("f", "s").unwrap(), "ac");
        let row = table.append(append("d").time_range(range(0, 50))).await.unwrap();
        assert_eq!(row.value("f", "s").unwrap(), "d");
        table.append(append("e").timestamp(u64::MAX)).await.unwrap_err();
        table.increment(add(1).time_range(range(9, 9))).await.unwrap_err();

        // The same under a condition.
        let mutations: [Mutation; 2] = [
            Increment::new("c").column("f", "n", 3).timestamp(100).into(),
            Append::new("c").cell("f", "s", "x").timestamp(100).into(),
        ];
        let absent = Condition::absent("c", "f", "n");
        let result = table.check_and_mutate(absent, mutations).await.unwrap();
        assert!(result.success && result.row.cells().iter().all(|cell| cell.timestamp == 100));
    })
    .await;
}

#[tokio::test]
async fn transactions_refuse_times_that_they_cannot_honour() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let name = TestTable::create_on(cluster, "refused_times", by_three, &[]).await;
        let table = PartitionedTable::open(&connection, name.name.clone())
            .await
            .unwrap();
        let add = || Increment::new("xxx1").column("f", "n", 1);
        let append = || Append::new("xxx1").cell("f", "s", "a");
        for refused in [
            Mutation::from(add().timestamp(100)),
            add().time_range(range(0, 9)).into(),
            append().timestamp(100).into(),
            append().time_range(range(0, 9)).into(),
        ] {
            let error = table.transaction("xxx").try_add(refused).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Client(hbase_txn::ClientErrorKind::InvalidInput),
                "{error}"
            );
        }
        let condition = Condition::absent("xxx1", "f", "q").time_range(range(0, 9));
        let outcome = table
            .transaction("xxx")
            .put(put("xxx1", "v"))
            .condition(condition)
            .commit()
            .await;
        assert_eq!(outcome.name(), "invalid");
    })
    .await;
}

#[tokio::test]
async fn many_conditional_changes_and_checks_of_existence() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let name = TestTable::create_on(cluster, "check_many", versioned, &["m"]).await;
        let table = name.of(&connection);
        let rows: Vec<String> = ('a'..='z').map(String::from).collect();
        let changes = |rows: &[String]| {
            let change = |row: &String| {
                let count = Increment::new(row.clone()).column("f", "n", 1);
                (Condition::absent(row.clone(), "f", "n"), vec![count.into()])
            };
            rows.iter().map(change).collect::<Vec<_>>()
        };
        for result in table.check_and_mutate_many(changes(&rows[..13])).await {
            let result = result.unwrap();
            assert!(result.success && result.row.get::<i64>("f", "n").unwrap() == Some(1));
        }
        let results = table.check_and_mutate_many(changes(&rows)).await;
        let made: Vec<_> = results
            .into_iter()
            .map(|result| result.unwrap().success)
            .collect();
        assert_eq!(made, [[false; 13], [true; 13]].concat());

        table.put(put("a", "v")).await.unwrap();
        let gets = [
            Get::new("a"),
            Get::new("0"),
            Get::new("z").column("f", "n"),
            Get::new("z").column("f", "q"),
            Get::new("a")
                .column("f", "q")
                .filter(Filter::value(Comparison::Equal, Comparator::binary("other"))),
            Get::new("a").row_offset_per_column_family(1),
            Get::new("a").row_offset_per_column_family(2),
        ];
        let exist = table.exists_many(gets).await.unwrap();
        assert_eq!(exist, [true, false, true, false, false, true, false]);
    })
    .await;
}
