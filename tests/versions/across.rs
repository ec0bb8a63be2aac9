//! Transactions across partitions rely on the refusal of an increment of what is no counter, and on
//! conditions of several rows.

use std::time::Duration;

use crate::{
    on_each,
    support::bank::{Bank, SUM},
};

#[tokio::test(flavor = "multi_thread")]
async fn sum_of_a_bank_is_kept_while_clients_stop() {
    on_each(async |cluster| {
        let bank = Bank::create(cluster, "across").await;
        let open = bank.open(&cluster.connect().await).await;
        for _ in 0..5 {
            let after = Duration::from_micros(fastrand::u64(..20_000));
            bank.stop_a_client(cluster, after).await;
            assert_eq!(open.sum().await.unwrap(), SUM);
            open.transfer().await.unwrap();
        }
        open.visit().await.unwrap();
        assert_eq!((open.held().await, open.sum().await.unwrap()), (0, SUM));
    })
    .await;
}
