//! Lists of operations of any kind.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use hbase_txn::client::{Append, Consistency, Increment, RowOperation};
use support::connect_by;

use super::*;
use proxy::{Action, Proxy};

fn get(row: &str) -> RowOperation {
    Get::new(row.to_owned()).into()
}

#[tokio::test]
async fn operations_of_a_batch_have_results_of_their_own() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let shared = TestTable::create_on(cluster, "batch", plain, &["c", "e"]).await;
        let table = shared.of(&connection);
        for row in ["a", "d", "gone"] {
            table.put(put(row, row)).await.unwrap();
        }
        let results = table
            .batch([
                get("a"),
                put("b", "new").into(),
                Increment::new("c").column("f", "count", 7).into(),
                Append::new("d").cell("f", "q", "+").into(),
                Put::new("e").cell("absent", "q", "v").into(),
                get("absent"),
                Delete::new("gone").into(),
                Get::new("a").family("absent").into(),
                Get::new("a").consistency(Consistency::Timeline).into(),
                Increment::new("d").column("f", "q", 1).into(),
                put("", "v").into(),
            ])
            .await;
        let mut rows = Vec::new();
        for (place, result) in results.into_iter().enumerate() {
            rows.push(match place {
                4 | 7..=10 => Err(result.unwrap_err().kind()),
                _ => Ok(result.unwrap()),
            });
        }
        let row = |place: usize| rows[place].as_ref().unwrap().as_ref().unwrap();
        assert_eq!(row(0).get::<String>("f", "q").unwrap().as_deref(), Some("a"));
        assert_eq!(row(2).get::<i64>("f", "count").unwrap(), Some(7));
        assert_eq!(row(3).get::<String>("f", "q").unwrap().as_deref(), Some("d+"));
        for place in [1, 5, 6] {
            assert_eq!(rows[place], Ok(None), "{place}");
        }
        let failed = |place: usize| *rows[place].as_ref().unwrap_err();
        for (place, kind) in [
            (4, ClientErrorKind::FamilyNotFound),
            (7, ClientErrorKind::FamilyNotFound),
            (8, ClientErrorKind::InvalidInput),
            (9, ClientErrorKind::Server),
            (10, ClientErrorKind::InvalidInput),
        ] {
            assert_eq!(failed(place), kind, "{place}");
        }
        assert_eq!(keys(&table, Scan::new()).await, ["a", "b", "c", "d"]);
    })
    .await;
}

#[tokio::test]
async fn increments_of_a_batch_all_count_while_a_region_splits() {
    on_each(async |cluster| {
        let (connection, elsewhere) = (cluster.connect().await, cluster.connect().await);
        let shared = TestTable::create_on(cluster, "batch-split", plain, &[]).await;
        let table = shared.of(&connection);
        let increments = || (0..500).map(|number| increment(format!("{:02}", number % 50)));
        for result in table.batch(increments()).await {
            result.unwrap();
        }
        shared.split_at(&elsewhere, "25").await;
        for result in table.batch(increments()).await {
            result.unwrap();
        }
        let rows = (0..50).map(|number| get(&format!("{number:02}")));
        for (number, row) in table.batch(rows).await.into_iter().enumerate() {
            let row = row.unwrap().unwrap();
            assert_eq!(row.get::<i64>("f", "n").unwrap(), Some(20), "{number}");
        }
    })
    .await;
}

fn increment(row: impl Into<String>) -> RowOperation {
    Increment::new(row.into()).column("f", "n", 1).into()
}

#[tokio::test]
async fn increments_and_appends_of_a_region_share_a_call() {
    on_each(async |cluster| {
        let proxy = Proxy::new();
        let connection = connect_by(proxy.clone(), cluster.config()).await;
        let shared = TestTable::create_on(cluster, "batch-calls", plain, &[]).await;
        let table = shared.of(&connection);
        table.put(put("warm", "v")).await.unwrap();
        let calls = || (proxy.requests("Mutate"), proxy.requests("Multi"));
        let (mutates, multis) = calls();
        // Not in the order of their rows.
        let changes = (0..100).rev().map(|number| match number % 4 {
            0 => Append::new(format!("{number:03}"))
                .cell("f", "list", number.to_string())
                .attribute("_rr_", vec![0])
                .into(),
            1 => Increment::new(format!("{number:03}"))
                .column("f", "n", number)
                .attribute("_rr_", vec![0])
                .into(),
            _ => Increment::new(format!("{number:03}"))
                .column("f", "n", number)
                .column("f", "m", 1)
                .into(),
        });
        let results = table.batch(changes).await;
        assert_eq!(calls(), (mutates, multis + 1));
        assert_eq!(results.len(), 100);
        for (number, row) in (0..100_i64).rev().zip(results) {
            let row = row.unwrap().unwrap();
            assert_eq!(key(&row), format!("{number:03}"));
            if number % 4 < 2 {
                assert_eq!(row.cells(), [], "{number}");
            } else {
                let columns = row.cells().iter().map(|cell| cell.qualifier.as_ref());
                assert!(columns.eq([b"m", b"n"]), "{number}");
                assert_eq!(row.get("f", "n").unwrap(), Some(number));
            }
        }
        let rows = (0..100).map(|number| Get::new(format!("{number:03}")));
        for (number, row) in (0..100_i64).zip(table.get_many(rows).await.unwrap()) {
            let row = row.unwrap();
            match number % 4 {
                0 => assert_eq!(row.get("f", "list").unwrap(), Some(number.to_string())),
                _ => assert_eq!(row.get("f", "n").unwrap(), Some(number)),
            }
        }
        connection.close().await;
    })
    .await;
}

#[tokio::test]
async fn failed_changes_of_a_batch_fail_alone() {
    on_each(async |cluster| {
        let proxy = Proxy::new();
        let connection = connect_by(proxy.clone(), cluster.config()).await;
        let shared = TestTable::create_on(cluster, "batch-failures", plain, &["050"]).await;
        let table = shared.of(&connection);
        for row in ["007", "070"] {
            table.put(Put::new(row).cell("f", "n", "text")).await.unwrap();
        }
        let before = proxy.requests("Multi");
        let changes = (0..100).map(|number| match number {
            20 => Increment::new("020").column("absent", "n", 1).into(),
            21 => Append::new("021").cell("absent", "n", "v").into(),
            22 => Increment::new("022").into(),
            23 => Increment::new("023")
                .column("f", "n", 1)
                .attribute("_rr_", vec![0])
                .into(),
            _ => increment(format!("{number:03}")),
        });
        for (number, result) in table.batch(changes).await.into_iter().enumerate() {
            let kind = match number {
                7 | 70 => ClientErrorKind::Server,
                20 | 21 => ClientErrorKind::FamilyNotFound,
                22 => ClientErrorKind::InvalidInput,
                _ => {
                    let row = result.unwrap().unwrap();
                    let counted = (number != 23).then_some(1);
                    assert_eq!(row.get::<i64>("f", "n").unwrap(), counted, "{number}");
                    continue;
                }
            };
            let error = result.unwrap_err();
            assert_eq!(error.kind(), kind, "{number}: {error}");
            assert!(!error.is_outcome_unknown() && !error.is_retryable(), "{error}");
            says(&error, &["batch", &format!("row {number:03}")]);
        }
        // All changes, and once more each change of the two actions that failed.
        assert_eq!(proxy.requests("Multi"), before + 2);
        assert_eq!(proxy.requests("Mutate"), 2);
        let rows = (0..100).map(|number| Get::new(format!("{number:03}")));
        for (number, row) in table.get_many(rows).await.unwrap().into_iter().enumerate() {
            let counted = row.as_ref().and_then(|row| row.value("f", "n"));
            match number {
                7 | 70 => assert_eq!(counted.unwrap(), "text"),
                20..=22 => assert_eq!(counted, None),
                _ => assert_eq!(counted.unwrap(), &1_i64.to_be_bytes()[..], "{number}"),
            }
        }
        connection.close().await;
    })
    .await;
}

#[tokio::test]
async fn changes_of_one_row_in_a_batch_all_count() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let shared = TestTable::create_on(cluster, "batch-row", plain, &[]).await;
        let table = shared.of(&connection);
        let changes = (0..300).flat_map(|number| {
            let append = Append::new("list").cell("f", "q", format!("{number},"));
            [increment("counter"), append.into(), increment("other")]
        });
        let results = table.batch(changes).await;
        let mut counted = Vec::new();
        for (number, result) in results.into_iter().enumerate() {
            let row = result.unwrap().unwrap();
            if number % 3 == 0 {
                counted.push(row.get::<i64>("f", "n").unwrap().unwrap());
            }
        }
        counted.sort_unstable();
        assert!(counted.into_iter().eq(1..=300));
        let row = table.get(Get::new("list")).await.unwrap().unwrap();
        let list: String = row.get("f", "q").unwrap().unwrap();
        let numbers: BTreeSet<u32> = list
            .trim_end_matches(',')
            .split(',')
            .map(|number| number.parse().unwrap())
            .collect();
        assert_eq!((list.matches(',').count(), numbers.len()), (300, 300));
        let row = table.get(Get::new("other")).await.unwrap().unwrap();
        assert_eq!(row.get::<i64>("f", "n").unwrap(), Some(300));
    })
    .await;
}

#[tokio::test]
async fn increments_with_times_in_a_batch_are_as_single_ones() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let shared = TestTable::create_on(cluster, "batch-times", plain, &[]).await;
        let table = shared.of(&connection);
        let early = TimeRange { from: 0, to: 100 };
        for row in ["a", "b"] {
            for (timestamp, value) in [(50, 7_i64), (1_000, 40)] {
                let put = Put::new(row).cell_at("f", "n", timestamp, value);
                table.put(put).await.unwrap();
            }
        }
        let changes = [
            Increment::new("a").column("f", "n", 1).time_range(early).into(),
            Increment::new("b").column("f", "n", 1).timestamp(2_000).into(),
            Increment::new("c").column("f", "n", 1).timestamp(3_000).into(),
        ];
        let single = table
            .increment(Increment::new("d").column("f", "n", 1).timestamp(3_000))
            .await
            .unwrap();
        let results = table.batch(changes).await;
        let rows: Vec<_> = results.into_iter().map(|row| row.unwrap().unwrap()).collect();
        let found = rows.iter().map(|row| row.get::<i64>("f", "n").unwrap());
        assert!(found.eq([Some(8), Some(41), Some(1)]), "{rows:?}");
        let timestamp = |row: &hbase_txn::client::Row| row.cell("f", "n").unwrap().timestamp;
        assert_eq!(timestamp(&rows[2]), timestamp(&single));
    })
    .await;
}

#[tokio::test]
async fn increments_of_batches_count_once_where_answers_are_lost() {
    const BATCHES: usize = 40;
    on_each(async |cluster| {
        let proxy = Proxy::new();
        let config = cluster
            .config()
            .with_read_timeout(Duration::from_millis(500))
            .with_write_timeout(Duration::from_millis(500));
        let connection = connect_by(proxy.clone(), config).await;
        let shared = TestTable::create_on(cluster, "batch-cut", plain, &["25"]).await;
        let table = shared.of(&connection);
        // HBase 3.0.0-alpha-4 answers a repeated change with all cells of its row. The client ignores
        // the values of a call that it sent again, but does not know of a copy that overtook its call.
        let others = (0..50).map(|row| Put::new(format!("{row:02}")).cell("f", "a", "v"));
        assert!(table.mutate_many(others).await.iter().all(Result::is_ok));
        let mut calls = 0;
        let has_copy = Arc::new(AtomicBool::new(false));
        let copied = Arc::clone(&has_copy);
        proxy.rule(move |request| {
            if request.method != "Multi" {
                return Action::Pass;
            }
            calls += 1;
            let action = match calls % 32 {
                1 => Action::CutAfterRequest,
                5 => Action::CutBeforeAnswer,
                9 => Action::CutInAnswer,
                13 => Action::Duplicate,
                17 => Action::DropAnswer,
                21 => Action::Again(Duration::from_millis(100)),
                25 => Action::CutInRequest,
                _ => Action::Pass,
            };
            if matches!(action, Action::Duplicate | Action::Again(_)) {
                copied.store(true, Ordering::Relaxed);
            }
            action
        });
        let mut without_values = 0;
        for batch in 1..=BATCHES {
            has_copy.store(false, Ordering::Relaxed);
            // Each fifth increment is of a row that another one has too, which makes a list longer.
            let changes = (0..50).map(|number| match number % 5 {
                0 => Append::new(format!("{number:02}")).cell("f", "list", "x").into(),
                4 => increment(format!("{:02}", number - 1)),
                _ => increment(format!("{number:02}")),
            });
            for (number, result) in table.batch(changes).await.into_iter().enumerate() {
                let row = result.unwrap().unwrap();
                match row.cells() {
                    // It was sent again.
                    [] => without_values += 1,
                    [cell] => assert!(number % 5 > 0 || cell.value.len() >= batch, "{number}"),
                    [_, _] if has_copy.load(Ordering::Relaxed) => {}
                    _ => panic!("{number}: {row:?}"),
                }
            }
        }
        assert!(without_values > 0);
        proxy.pass_all();
        let rows = table
            .get_many((0..50).map(|row| Get::new(format!("{row:02}"))))
            .await;
        for (number, row) in rows.unwrap().into_iter().enumerate() {
            let expected = match number % 5 {
                0 => {
                    let list = row.as_ref().and_then(|row| row.value("f", "list"));
                    assert_eq!(list.map(|list| list.len()), Some(BATCHES), "{number}");
                    continue;
                }
                4 => None,
                3 => Some(2 * BATCHES as i64),
                _ => Some(BATCHES as i64),
            };
            let counted = row.and_then(|row| row.get::<i64>("f", "n").unwrap());
            assert_eq!(counted, expected, "{number}");
        }
        connection.close().await;
    })
    .await;
}

#[tokio::test]
async fn wide_batches_go_in_several_calls() {
    on_each(async |cluster| {
        let proxy = Proxy::new();
        let connection = connect_by(proxy.clone(), cluster.config()).await;
        let shared = TestTable::create_on(cluster, "batch-wide", plain, &["1000", "2000"]).await;
        let table = shared.of(&connection);
        let results = table
            .batch((0..3_000).map(|number| increment(format!("{number:04}"))))
            .await;
        for (number, result) in results.into_iter().enumerate() {
            let row = result.unwrap().unwrap();
            assert_eq!(key(&row), format!("{number:04}"));
            assert_eq!(row.get::<i64>("f", "n").unwrap(), Some(1));
        }
        assert_eq!(proxy.requests("Multi"), 3);
        // An answer has at most 16 of these values.
        let large = "x".repeat(1 << 20);
        for size in [1, 2] {
            let before = proxy.requests("Multi");
            let appends = (0..40).map(|number| {
                Append::new(format!("{number:04}"))
                    .cell("f", "large", large.clone())
                    .into()
            });
            for result in table.batch(appends).await {
                let row = result.unwrap().unwrap();
                assert_eq!(row.value("f", "large").unwrap().len(), size << 20);
            }
            assert_eq!(proxy.requests("Multi"), before + 40);
        }
        let before = proxy.requests("Multi");
        let appends =
            (0..40).map(|number| Append::new(format!("{number:04}")).cell("f", "large", "y").into());
        let results = table.batch(appends).await;
        // A busy machine takes so long for an answer of 32 MiB that its call is repeated, which returns no
        // values.
        let calls = proxy.requests("Multi") - before;
        assert!((3..=9).contains(&calls), "{calls} calls");
        for result in results {
            let row = result.unwrap().unwrap();
            let is_repeated = calls > 3 && row.cells().is_empty();
            assert!(is_repeated || row.value("f", "large").unwrap().len() == (2 << 20) + 1);
        }
        // A value that would become too large is refused, and others of the call are not.
        let most = vec![0; 9 << 20];
        let append = |row: &str, value| Append::new(row.to_owned()).cell("f", "large", value).into();
        let appends = [
            append("0000", most.clone()),
            append("9999", most.clone()),
            append("9998", b"z".to_vec()),
        ];
        let results: Vec<_> = table.batch(appends).await;
        let error = results[0].as_ref().unwrap_err();
        assert!(!error.is_outcome_unknown(), "{error}");
        assert!(results[1..].iter().all(Result::is_ok));
        connection.close().await;
    })
    .await;
}
