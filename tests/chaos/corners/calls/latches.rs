//! Latches and barriers.

use std::{sync::Arc, time::Duration};

use hbase_txn::{
    Level,
    latch::{Barrier, BarrierOutcome, Latch, LatchState, WaitOutcome},
};

use super::super::{
    report::{Call, Prepared, Reported},
    seat::Seat,
};

const LIFE: Duration = Duration::from_secs(300);
const COUNT: u64 = 5;
const WAIT: Duration = Duration::from_secs(2);

fn clean(seat: &Seat) -> Latch {
    seat.clean.latches.latch(Level::Dc, &seat.prefix).unwrap()
}

/// Returns the count of a latch, or `None` if there is no latch.
async fn left(latch: Latch) -> Option<u64> {
    latch.show().await.unwrap().count
}

/// A change of a latch, with the count that it leaves.
fn change<F>(
    name: &'static str,
    change: impl Fn(Latch) -> F + Send + Sync + 'static,
    applied: fn(Option<u64>) -> u64,
) -> Call
where
    F: Future<Output = Reported> + Send + 'static,
{
    let change = Arc::new(change);
    Call::new(name, move |seat: Seat| {
        let change = Arc::clone(&change);
        async move {
            clean(&seat).init(COUNT, LIFE).await.unwrap();
            let latch = seat.latches().await.latch(Level::Dc, &seat.prefix).unwrap();
            let applied = move || {
                let left = left(clean(&seat));
                async move { applied(left.await) }
            };
            Prepared::write(change(latch), applied)
        }
    })
}

fn counted_down(left: Option<u64>) -> u64 {
    COUNT - left.unwrap()
}

async fn barrier(seat: &Seat, parties: u32) -> Barrier {
    let clean = seat.clean.latches.barrier(&seat.prefix).unwrap();
    clean.create(parties, LIFE).await.unwrap();
    seat.latches().await.barrier(&seat.prefix).unwrap()
}

async fn is_there(seat: Seat) -> u64 {
    let barrier = seat.clean.latches.barrier(&seat.prefix).unwrap();
    u64::from(barrier.show().await.unwrap().is_some())
}

pub(super) fn all() -> Vec<Call> {
    vec![
        Call::new("latch: init", |seat| async move {
            let latch = seat.latches().await.latch(Level::Dc, &seat.prefix).unwrap();
            Prepared::write(
                async move { Reported::of(latch.init(COUNT, LIFE).await) },
                move || {
                    let left = left(clean(&seat));
                    async move { left.await.map_or(0, |left| left / COUNT) }
                },
            )
        }),
        change(
            "latch: count_down",
            |latch| async move { Reported::of(latch.count_down(1).await) },
            counted_down,
        ),
        change(
            "latch: count_up",
            |latch| async move { Reported::of(latch.count_up(1).await) },
            |left| left.unwrap() - COUNT,
        ),
        change(
            "latch: arrive",
            |latch| async move { Reported::of(latch.arrive("p").await) },
            counted_down,
        ),
        change(
            "latch: delete",
            |latch| async move { Reported::of(latch.delete().await) },
            |left| u64::from(left.is_none()),
        ),
        Call::new("latch: wait", |seat| async move {
            clean(&seat).init(1, LIFE).await.unwrap();
            let latch = seat.latches().await.latch(Level::Dc, &seat.prefix).unwrap();
            let clean = clean(&seat);
            let call = async move {
                let (waited, counted) = tokio::join!(latch.wait(WAIT), clean.count_down(1));
                counted.unwrap();
                match waited {
                    // The poll that would have seen it was not answered in time.
                    Ok(WaitOutcome::TimedOut) if seat.has_lost_answers() || seat.moves() => {
                        Reported::Done(None)
                    }
                    waited => Reported::expect(waited, &WaitOutcome::Reached),
                }
            };
            Prepared::read(call).waiting(WAIT).may_be_refused()
        }),
        Call::new("latch: show", |seat| async move {
            let latch = seat.latches().await.latch(Level::Dc, &seat.prefix).unwrap();
            Prepared::read(async move {
                Reported::expect(latch.show().await.map(|info| info.state), &LatchState::Absent)
            })
        }),
        Call::new("partition latch: count_down", |seat| async move {
            let clean = seat
                .clean
                .partition_latches
                .latch(seat.prefix.clone(), "l")
                .unwrap();
            clean.init(COUNT, LIFE).await.unwrap();
            let latches = seat.partition_latches().await;
            let latch = latches.latch(seat.prefix.clone(), "l").unwrap();
            let applied = move || {
                let left = left(clean.clone());
                async move { counted_down(left.await) }
            };
            Prepared::write(async move { Reported::of(latch.count_down(1).await) }, applied)
        }),
        Call::new("partition latch: count_down in a commit", |seat| async move {
            let clean = seat
                .clean
                .partition_latches
                .latch(seat.prefix.clone(), "l")
                .unwrap();
            clean.init(COUNT, LIFE).await.unwrap();
            let latches = seat.partition_latches().await;
            let latch = latches.latch(seat.prefix.clone(), "l").unwrap();
            let transaction = latches
                .table()
                .transaction(seat.prefix.clone())
                .count_down(&latch, 1)
                .recorded();
            let applied = move || {
                let left = left(clean.clone());
                async move { counted_down(left.await) }
            };
            Prepared::write(
                async move { Reported::of_commit(transaction.commit().await) },
                applied,
            )
        }),
        Call::new("barrier: create", |seat| async move {
            let barrier = seat.latches().await.barrier(&seat.prefix).unwrap();
            Prepared::write(
                async move { Reported::of(barrier.create(2, LIFE).await) },
                move || is_there(seat.clone()),
            )
        }),
        Call::new("barrier: arrive", |seat| async move {
            let barrier = barrier(&seat, 3).await;
            let clean = seat.clean.latches.barrier(&seat.prefix).unwrap();
            let arrived = move || {
                let clean = clean.clone();
                async move { u64::from(clean.show().await.unwrap().unwrap().arrived) }
            };
            Prepared::write(async move { Reported::of(barrier.arrive("p").await) }, arrived)
        }),
        Call::new("barrier: wait", |seat| async move {
            let barrier = barrier(&seat, 1).await;
            let arrival = barrier.arrive("p").await.unwrap();
            Prepared::read(async move {
                Reported::expect(barrier.wait(&arrival, WAIT).await, &BarrierOutcome::Opened)
            })
            .waiting(WAIT)
        }),
        Call::new("barrier: delete", |seat| async move {
            let barrier = barrier(&seat, 2).await;
            let gone = move || {
                let there = is_there(seat.clone());
                async move { 1 - there.await }
            };
            Prepared::write(async move { Reported::of(barrier.delete().await) }, gone)
        }),
    ]
}
