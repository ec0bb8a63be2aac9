//! Locks, in a lock table and in partitions.

use std::time::Duration;

use hbase_txn::{
    Level,
    lock::{LockHolder, LockManager, LockRequest, ReleaseOutcome},
};

use super::{
    super::{
        report::{Call, Prepared, Reported},
        seat::Seat,
    },
    holds::{LEASE, hold},
};

fn request(locks: &LockManager, seat: &Seat) -> LockRequest {
    locks.lock(Level::Dc, &seat.prefix).unwrap().ttl(LEASE)
}

async fn holder(seat: Seat) -> Vec<LockHolder> {
    let info = seat.clean.locks.show(Level::Dc, &seat.prefix).await.unwrap();
    assert!(!info.rows_disagree || info.holder.is_some(), "{info:?}");
    info.holder.into_iter().collect()
}

async fn holder_in_partition(seat: Seat) -> Vec<LockHolder> {
    let info = seat.clean.partition_locks.show(seat.prefix.clone(), "l").await;
    info.unwrap().holder.into_iter().collect()
}

/// Returns 1 if the lock is free.
pub(super) async fn is_free(holders: impl Future<Output = Vec<LockHolder>>) -> u64 {
    u64::from(holders.await.is_empty())
}

pub(super) async fn released(release: impl Future<Output = hbase_txn::Result<ReleaseOutcome>>) -> Reported {
    Reported::expect(release.await, &ReleaseOutcome::Released)
}

pub(super) fn all() -> Vec<Call> {
    const LATER: Duration = Duration::from_secs(1);
    vec![
        Call::new("lock: acquire", |seat| async move {
            let request = request(&seat.locks().await, &seat);
            hold(request.acquire(), move || holder(seat.clone()))
        }),
        Call::new("lock: acquire what is free soon", |seat| async move {
            let locks = seat.locks().await;
            let other = request(&seat.clean.locks, &seat).acquire().await.unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(LATER).await;
                assert!(other.release().await.unwrap().is_released());
            });
            let request = request(&locks, &seat).wait(LATER);
            let hold = hold(request.acquire(), move || holder(seat.clone()));
            hold.waiting(LATER).may_be_refused()
        }),
        Call::new("lock: try_acquire", |seat| async move {
            let request = request(&seat.locks().await, &seat);
            let call = async move { Ok(request.try_acquire().await?.expect("nobody else wants it")) };
            hold(call, move || holder(seat.clone()))
        }),
        Call::new("lock: renew", |seat| async move {
            let guard = request(&seat.locks().await, &seat).acquire().await.unwrap();
            Prepared::read(async move {
                let renewed = guard.renew().await;
                if !guard.is_held() {
                    return Reported::Wrong(format!("lost: {}, by {renewed:?}", guard.lost().await));
                }
                // A repeated renewal has the same effect.
                Reported::of(renewed).or_not()
            })
        }),
        Call::new("lock: renew by token", |seat| async move {
            let locks = seat.locks().await;
            let token = request(&locks, &seat).acquire().await.unwrap().detach();
            Prepared::read(async move {
                let renewed = locks.renew(Level::Dc, &seat.prefix, token, 2 * LEASE).await;
                Reported::expect(renewed, &Ok(())).or_not()
            })
        }),
        Call::new("lock: release", |seat| async move {
            let guard = request(&seat.locks().await, &seat).acquire().await.unwrap();
            let free = move || is_free(holder(seat.clone()));
            Prepared::write(released(guard.release()), free).at_last(1)
        }),
        Call::new("lock: drop", |seat| async move {
            let guard = request(&seat.locks().await, &seat).acquire().await.unwrap();
            let dropped = async move {
                drop(guard);
                // The lock is released in the background, also through the corner.
                tokio::time::sleep(LATER).await;
                Reported::Left
            };
            let free = move || is_free(holder(seat.clone()));
            Prepared::write(dropped, free).at_last(1).may_be_refused()
        }),
        Call::new("lock: release by token", |seat| async move {
            let locks = seat.locks().await;
            let token = request(&locks, &seat).acquire().await.unwrap().detach();
            let case = seat.clone();
            let call = async move { released(locks.release(Level::Dc, &case.prefix, token)).await };
            Prepared::write(call, move || is_free(holder(seat.clone())))
        }),
        Call::new("lock: force_release", |seat| async move {
            let locks = seat.locks().await;
            let _ = request(&locks, &seat).acquire().await.unwrap().detach();
            let case = seat.clone();
            let call = async move { Reported::of(locks.force_release(Level::Dc, &case.prefix).await) };
            Prepared::write(call, move || is_free(holder(seat.clone())))
        }),
        Call::new("lock: show", |seat| async move {
            let locks = seat.locks().await;
            Prepared::read(async move {
                let shown = locks.show(Level::Dc, &seat.prefix).await;
                Reported::expect(shown.map(|info| info.holder), &None)
            })
        }),
        Call::new("partition lock: acquire", |seat| async move {
            let locks = seat.partition_locks().await;
            let request = locks.lock(seat.prefix.clone(), "l").unwrap().ttl(LEASE);
            hold(request.acquire(), move || holder_in_partition(seat.clone()))
        }),
        Call::new("partition lock: release", |seat| async move {
            let locks = seat.partition_locks().await;
            let request = locks.lock(seat.prefix.clone(), "l").unwrap().ttl(LEASE);
            let guard = request.acquire().await.unwrap();
            let free = move || is_free(holder_in_partition(seat.clone()));
            Prepared::write(released(guard.release()), free).at_last(1)
        }),
        Call::new("partition lock: force_release", |seat| async move {
            let locks = seat.partition_locks().await;
            let request = locks.lock(seat.prefix.clone(), "l").unwrap().ttl(LEASE);
            let _ = request.acquire().await.unwrap().detach();
            let case = seat.clone();
            let call = async move { Reported::of(locks.force_release(case.prefix, "l").await) };
            Prepared::write(call, move || is_free(holder_in_partition(seat.clone())))
        }),
    ]
}
