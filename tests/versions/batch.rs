//! Lists of operations of any kind.

use hbase_txn::{Append, Consistency, Increment, RowOperation};

use super::*;

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
        let increments = || {
            let increment = |number: u32| Increment::new(format!("{:02}", number % 50)).column("f", "n", 1);
            (0..500).map(move |number| increment(number).into())
        };
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
