#[path = "../../examples/transfer.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use std::{collections::BTreeMap, sync::Arc};

use hbase_txn::{ErrorKind, PartitionedTable, TransactionId};

use self::example::{Transfer, balances, open, run, transfer};
use crate::{Pattern, side_by_side, watched};

const NAMES: [&str; 5] = ["anna", "bert", "cora", "dirk", "edna"];
const EACH: u64 = 1_000;

/// Repeats the request until it is answered; an attempt that gives up has changed nothing.
async fn pay(
    bank: &PartitionedTable,
    request: &TransactionId,
    between: (&'static str, &'static str),
    cents: u64,
) -> Transfer {
    loop {
        match transfer(bank, "load", request, between, cents).await {
            Ok(ended) => return ended,
            Err(error) => {
                let error = error.downcast::<hbase_txn::Error>().unwrap();
                let kinds = [ErrorKind::Conflict, ErrorKind::Aborted];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_balance_is_below_zero_and_every_snapshot_has_the_same_sum() {
    let pattern = Pattern::new("transfer", run).await;
    let clients = Arc::new(pattern.clients().await);
    for name in NAMES {
        open(&clients[0], "load", name, EACH).await.unwrap();
    }
    let work = side_by_side(12, |task| {
        let clients = Arc::clone(&clients);
        async move {
            let (mut paid, mut refused) = (Vec::new(), 0);
            for _ in 0..20 {
                let any = || NAMES[fastrand::usize(..NAMES.len())];
                let (between, cents) = ((any(), any()), fastrand::u64(1..900));
                let request = TransactionId::unique();
                // The same request twice, concurrently and by two clients.
                let both = futures::join!(
                    pay(&clients[task % 3], &request, between, cents),
                    pay(&clients[(task + 1) % 3], &request, between, cents)
                );
                match both {
                    (Transfer::Done, Transfer::Done) if between.0 == between.1 => {}
                    (Transfer::NotEnough, Transfer::NotEnough) => refused += 1,
                    (Transfer::Done, other) | (other, Transfer::Done) => {
                        assert_ne!(other, Transfer::Done, "paid twice");
                        paid.push((between, cents));
                    }
                    other => panic!("{other:?}"),
                }
            }
            (paid, refused)
        }
    });
    let ended = watched(work, async || {
        let accounts = balances(&clients[3], "load").await.unwrap();
        let sum: u64 = accounts.iter().map(|account| account.1).sum();
        assert_eq!(sum, EACH * NAMES.len() as u64, "{accounts:?}");
    })
    .await;

    let mut expected: BTreeMap<String, u64> = NAMES.map(|name| (format!("load/account/{name}"), EACH)).into();
    let mut move_by = |name: &str, cents: u64| {
        let balance = expected.get_mut(&format!("load/account/{name}")).unwrap();
        *balance = balance.wrapping_add(cents);
    };
    for ((from, to), cents) in ended.iter().flat_map(|task| &task.0) {
        move_by(from, cents.wrapping_neg());
        move_by(to, *cents);
    }
    let found = balances(&clients[0], "load").await.unwrap();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    let refused: usize = ended.iter().map(|task| task.1).sum();
    assert!(refused > 0, "nothing was refused");
}

#[tokio::test]
async fn a_request_that_was_refused_is_paid_once_there_is_enough() {
    let pattern = Pattern::new("transfer_later", run).await;
    let clients = pattern.clients().await;
    let bank = &clients[0];
    for (name, cents) in [("poor", 10), ("rich", 1_000)] {
        open(bank, "small", name, cents).await.unwrap();
    }
    let request = TransactionId::new("rent").unwrap();
    let rent = async || {
        transfer(bank, "small", &request, ("poor", "rich"), 60)
            .await
            .unwrap()
    };
    let gift = TransactionId::new("gift").unwrap();
    assert_eq!(rent().await, Transfer::NotEnough);
    let nobody = transfer(bank, "small", &gift, ("rich", "nobody"), 50).await;
    assert_eq!(nobody.unwrap(), Transfer::NoAccount);
    let given = transfer(bank, "small", &gift, ("rich", "poor"), 50).await;
    assert_eq!(given.unwrap(), Transfer::Done);
    assert_eq!(rent().await, Transfer::Done);
    assert_eq!(rent().await, Transfer::DoneBefore);
    let balances: Vec<_> = balances(bank, "small").await.unwrap();
    let cents: Vec<_> = balances.iter().map(|account| account.1).collect();
    assert_eq!(cents, [0, 1_010]);
}
