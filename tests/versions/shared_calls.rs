//! Single operations that share calls, some of which fail.

use futures::future::join_all;

use super::*;

const ROWS: usize = 200;

#[tokio::test]
async fn failure_of_one_put_is_not_that_of_others_in_its_call() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let table = TestTable::create_on(cluster, "shared-calls", plain, &["0100"]).await;
        let rows = connection.table(table.name.clone()).unwrap();
        let row = |number: usize| format!("{number:04}");
        let puts = (0..ROWS).map(async |number| match number % 20 {
            0 => rows.put(Put::new(row(number)).cell("absent", "q", "v")).await,
            _ => rows.put(put(row(number), row(number))).await,
        });
        for (number, done) in join_all(puts).await.into_iter().enumerate() {
            let kind = done.map_err(|error| error.kind());
            let expected = match number % 20 {
                0 => Err(ClientErrorKind::FamilyNotFound),
                _ => Ok(()),
            };
            assert_eq!(kind, expected, "{number}");
        }
        let gets = (0..ROWS).map(|number| rows.get(Get::new(row(number))));
        for (number, found) in join_all(gets).await.into_iter().enumerate() {
            let found = found.unwrap();
            assert_eq!(found.is_some(), number % 20 != 0, "{number}");
            assert!(found.is_none_or(|found| key(&found) == row(number)));
        }
        connection.close().await;
    })
    .await;
}
