#[path = "../../examples/audited_counter.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::sync::Arc;

use hbase_txn::{
    Recorded, TransactionId,
    client::{Delete, Scan},
};

use self::example::{Change, apply, checked, run};
use crate::{Pattern, side_by_side, support::rows, watched};

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_are_counted_and_audited_once() {
    let pattern = Pattern::new("audited_counter", run).await;
    let clients = Arc::new(pattern.clients().await);
    // Tasks 0 and 8, 1 and 9 … send the same changes, at about the same time.
    let work = side_by_side(16, |task| {
        let clients = Arc::clone(&clients);
        async move {
            let (client, sender) = (&clients[task % 3], task % 8);
            let mut sum = 0;
            for number in 0..20 {
                let change = Change {
                    id: format!("{sender}-{number}"),
                    amount: number - 5 * sender as i64,
                    by: format!("sender {sender}"),
                };
                if apply(client, "load", "stock", &change).await.unwrap() {
                    sum += change.amount;
                }
            }
            sum
        }
    });
    let sums = watched(work, async || {
        checked(&clients[3], "load", "stock").await.unwrap();
    })
    .await;
    let expected: i64 = (0..8)
        .flat_map(|sender| (0..20).map(move |number| number - 5 * sender))
        .sum();
    assert_eq!(
        checked(&clients[3], "load", "stock").await.unwrap(),
        (expected, 160)
    );
    assert_eq!(
        sums.iter().sum::<i64>(),
        expected,
        "one of the two was told that it did it"
    );
}

#[tokio::test]
async fn a_change_whose_record_is_forgotten_is_known_by_its_audit_row() {
    let pattern = Pattern::new("audited_again", run).await;
    let clients = pattern.clients().await;
    let change = Change {
        id: "one".to_owned(),
        amount: 7,
        by: "ann".to_owned(),
    };
    assert!(apply(&clients[0], "old", "stock", &change).await.unwrap());
    // The record expires with time; the test deletes it.
    let table = clients[0].table();
    let records = rows(table, Scan::prefix("old/").family("_txn")).await;
    let record = records
        .iter()
        .find(|row| row.key().ends_with(b"stock/one"))
        .unwrap();
    let forget = Delete::new(record.key().clone()).timestamp(record.cells()[0].timestamp);
    let plain = table.connection().table(table.name().clone()).unwrap();
    plain.delete(forget).await.unwrap();
    let id = TransactionId::new("stock/one").unwrap();
    assert_eq!(clients[0].outcome("old", &id).await.unwrap(), Recorded::Nothing);
    assert!(!apply(&clients[1], "old", "stock", &change).await.unwrap());
    assert_eq!(checked(&clients[1], "old", "stock").await.unwrap(), (7, 1));
}
