//! Partitions: transactions, batches, updates, and their settlement.

use std::{sync::Arc, time::Duration};

use hbase_txn::{
    Error, Outcome, Recorded, Settled, Transaction, TransactionId, UpdateOptions, UpdateView, Updated,
    client::{Condition, Increment, Put},
};

use super::{
    super::{
        DEADLINE,
        report::{Call, Prepared, Reported},
        seat::Seat,
    },
    rows::number,
};
use crate::cluster::{FAMILY, QUALIFIER};

const LEASE: Duration = Duration::from_secs(60);

/// Increments a number in one row, and writes another.
fn fill(transaction: Transaction, seat: &Seat) -> Transaction {
    transaction
        .increment(Increment::new(seat.row("n")).column(FAMILY, QUALIFIER, 1))
        .put(Put::new(seat.row("a")).cell(FAMILY, QUALIFIER, "v"))
}

/// Returns how often the transaction was applied. Fails if it was applied partially.
async fn count(seat: Seat) -> u64 {
    let snapshot = seat.clean.data.snapshot(seat.prefix.clone()).await.unwrap();
    let value = snapshot.value(seat.row("n"), FAMILY, QUALIFIER);
    let count = value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap()));
    let has_row = snapshot.row(seat.row("a")).is_some();
    assert_eq!(has_row, count > 0, "half a transaction in {}", seat.prefix);
    count
}

/// A call that commits the returned transaction.
fn commit<F>(name: &'static str, make: impl Fn(Seat) -> F + Send + Sync + 'static) -> Call
where
    F: Future<Output = Transaction> + Send + 'static,
{
    let make = Arc::new(make);
    Call::new(name, move |seat: Seat| {
        let make = Arc::clone(&make);
        async move {
            let transaction = fill(make(seat.clone()).await, &seat);
            let commit = async move { Reported::of_commit(transaction.commit().await) };
            Prepared::write(commit, move || count(seat.clone()))
        }
    })
}

async fn begin(seat: &Seat) -> Transaction {
    seat.data().await.transaction(seat.prefix.clone())
}

fn absent(seat: &Seat) -> Condition {
    Condition::absent(seat.row("a"), FAMILY, QUALIFIER)
}

fn id(seat: &Seat) -> TransactionId {
    TransactionId::new(format!("request-{}", seat.prefix)).unwrap()
}

fn update(name: &'static str, options: impl Fn(&Seat) -> UpdateOptions + Send + Sync + 'static) -> Call {
    let options = Arc::new(options);
    Call::new(name, move |seat: Seat| {
        let options = options(&seat);
        async move {
            let (table, case) = (seat.data().await, seat.clone());
            let call = async move {
                let updated = table.update_with(case.prefix.clone(), options, |view: &mut UpdateView<'_>| {
                    let number = view.value(case.row("n"), FAMILY, QUALIFIER)?;
                    assert!(number.is_none(), "it is applied already");
                    view.put(Put::new(case.row("n")).cell(FAMILY, QUALIFIER, 1_u64.to_be_bytes().to_vec()))?;
                    view.put(Put::new(case.row("a")).cell(FAMILY, QUALIFIER, "v"))?;
                    Ok::<_, Error>(())
                });
                match updated.await {
                    Ok(Updated::Done { .. }) => Reported::Done(None),
                    Ok(other) => Reported::Wrong(format!("{other:?}")),
                    Err(error) => Reported::Failed(error),
                }
            };
            Prepared::write(call, move || count(seat.clone()))
        }
    })
}

pub(super) fn all() -> Vec<Call> {
    vec![
        commit("commit", |seat| async move { begin(&seat).await }),
        commit("commit with a condition", |seat| async move {
            begin(&seat).await.condition(absent(&seat))
        }),
        commit(
            "recorded commit",
            |seat| async move { begin(&seat).await.recorded() },
        ),
        commit("recorded commit with a condition", |seat| async move {
            begin(&seat).await.condition(absent(&seat)).recorded()
        }),
        commit("commit with guarded timestamps", |seat| async move {
            begin(&seat).await.guard_timestamps().id(id(&seat))
        }),
        commit("fenced commit", |seat| async move {
            let locks = seat.partition_locks().await;
            let lock = locks.lock(seat.prefix.clone(), "l").unwrap().ttl(LEASE);
            let guard = lock.acquire().await.unwrap();
            let transaction = locks.table().transaction(seat.prefix.clone()).fenced_by(&guard);
            let _ = guard.detach();
            transaction
        }),
        Call::new("batch", |seat| async move {
            let (table, case) = (seat.data().await, seat.clone());
            let clean = seat.clean.data.table().clone();
            let call = async move {
                let increment = |row: String| Increment::new(row).column(FAMILY, QUALIFIER, 1);
                let batch = table
                    .batch()
                    .increment(increment(case.row("n")))
                    // A partition with a single row.
                    .increment(increment(case.prefix[1..].to_owned()));
                let mut groups = batch.commit().await.into_iter();
                Reported::of_commit(groups.next().unwrap().outcome)
            };
            Prepared::write(call, move || number(clean.clone(), seat.row("n")))
        }),
        Call::new("commit that acquires a lock", |seat| async move {
            let locks = seat.partition_locks().await;
            let case = seat.clone();
            let call = async move {
                let lock = locks.lock(case.prefix.clone(), "l").unwrap().ttl(LEASE);
                let mut transaction = locks.table().transaction(case.prefix.clone());
                let pending = transaction.acquire_lock(lock).unwrap();
                match transaction.commit().await {
                    Outcome::Committed(_) => match pending.claim().await {
                        Ok(guard) => Reported::Done(Some(Box::new(guard))),
                        // The claim was not answered; the lock is released.
                        Err(error) => Reported::Failed(error),
                    },
                    other => {
                        drop(pending);
                        Reported::of_commit(other)
                    }
                }
            };
            let held = move || {
                let seat = seat.clone();
                async move {
                    let info = seat.clean.partition_locks.show(seat.prefix.clone(), "l").await;
                    u64::from(info.unwrap().holder.is_some())
                }
            };
            // The claim has a deadline of its own.
            Prepared::write(call, held).waiting(DEADLINE).at_last(0)
        }),
        update("update", |_| UpdateOptions::new()),
        update("update without a record", |_| {
            UpdateOptions::new().without_record()
        }),
        update("update with an id", |seat| UpdateOptions::new().id(id(seat))),
        Call::new("settle a commit", |seat| async move {
            let transaction = fill(begin(&seat).await.id(id(&seat)), &seat);
            assert!(transaction.commit().await.is_committed());
            let (table, case) = (seat.data().await, seat.clone());
            let call = async move {
                let settled = table.settle(case.prefix.clone(), &id(&case)).await;
                Reported::expect(settled, &Settled::Committed)
            };
            // An error is that of the commit.
            Prepared::write(call, move || count(seat.clone())).at_last(1)
        }),
        Call::new("settle what was never sent", |seat| async move {
            let (table, case) = (seat.data().await, seat.clone());
            let call = async move {
                let settled = table.settle(case.prefix.clone(), &id(&case)).await;
                Reported::expect(settled, &Settled::NotApplied)
            };
            let aborted = move || {
                let seat = seat.clone();
                async move {
                    let recorded = seat.clean.data.outcome(seat.prefix.clone(), &id(&seat)).await;
                    u64::from(recorded.unwrap() == Recorded::Aborted)
                }
            };
            Prepared::write(call, aborted)
        }),
        Call::new("outcome", |seat| async move {
            let table = seat.data().await;
            Prepared::read(async move {
                let recorded = table.outcome(seat.prefix.clone(), &id(&seat)).await;
                Reported::expect(recorded, &Recorded::Nothing)
            })
        }),
        Call::new("snapshot", |seat| async move {
            let table = seat.data().await;
            Prepared::read(async move {
                let snapshot = table.snapshot(seat.prefix.clone()).await;
                Reported::expect(snapshot.map(|snapshot| snapshot.len()), &0)
            })
        }),
    ]
}
