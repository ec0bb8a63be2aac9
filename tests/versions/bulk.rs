//! Many puts and deletes at once, some of which fail.

use super::*;

const ROWS: usize = 500;

#[tokio::test]
async fn each_of_many_mutations_has_its_own_outcome() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let shared = TestTable::create_on(cluster, "bulk", plain, &["0100"]).await;
        let table = connection.table(shared.name.clone()).unwrap();
        let row = |number: usize| format!("{number:04}");
        let puts = (0..ROWS).map(|number| put(row(number), "old"));
        for result in table.mutate_many(puts).await {
            result.unwrap();
        }
        let mutations = (0..ROWS).map(|number| -> Mutation {
            match number % 50 {
                0 => Put::new(row(number)).cell("absent", "q", "v").into(),
                1 => Delete::new(row(number)).into(),
                2 => Delete::new(row(number)).family("f").into(),
                3 => Delete::new(row(number)).column("f", "q").into(),
                _ => put(row(number), "new").into(),
            }
        });
        for (number, result) in table.mutate_many(mutations).await.into_iter().enumerate() {
            let kind = result.map_err(|error| error.kind());
            let expected = match number % 50 {
                0 => Err(ClientErrorKind::FamilyNotFound),
                _ => Ok(()),
            };
            assert_eq!(kind, expected, "{number}");
        }
        let gets = (0..ROWS).map(|number| Get::new(row(number)));
        for (number, found) in table.get_many(gets).await.unwrap().into_iter().enumerate() {
            let value = found.as_ref().and_then(|found| found.value("f", "q"));
            match number % 50 {
                0 => assert_eq!(value.unwrap(), "old"),
                1..4 => assert_eq!(value, None, "{number}"),
                _ => assert_eq!(value.unwrap(), "new", "{number}"),
            }
        }
        connection.close().await;
    })
    .await;
}
