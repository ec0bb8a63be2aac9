//! Filters of reads find the same on all releases.

use crate::{
    on_each,
    support::filters::{check_all, filled},
};

#[tokio::test]
async fn each_filter_finds_its_rows() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let table = filled(cluster, &connection).await;
        check_all(&table.of(&connection)).await;
    })
    .await;
}
