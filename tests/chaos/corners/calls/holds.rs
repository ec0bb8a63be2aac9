//! Read/write locks, semaphores and elections.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use hbase_txn::{
    Level,
    coordination::{Election, ReadWriteLock, Semaphore},
    lock::{LockGuard, LockHolder},
};

use super::{
    super::{
        report::{Call, Prepared, Reported},
        seat::Seat,
    },
    locks::{is_free, released},
};

/// Longer than any wait here: a hold that is free again was released.
pub(super) const LEASE: Duration = Duration::from_secs(60);

/// A call that acquires a hold. The holder must be the owner of the returned guard; without a guard
/// there must be no holder at last.
pub(super) fn hold<F>(
    acquire: impl Future<Output = hbase_txn::Result<LockGuard>> + Send + 'static,
    holders: impl Fn() -> F + Send + Sync + 'static,
) -> Prepared
where
    F: Future<Output = Vec<LockHolder>> + Send + 'static,
{
    let token = Arc::new(OnceLock::new());
    let won = Arc::clone(&token);
    let call = async move {
        match acquire.await {
            Ok(guard) => {
                won.set(guard.token()).unwrap();
                Reported::Done(Some(Box::new(guard)))
            }
            Err(error) => Reported::Failed(error),
        }
    };
    let count = move || {
        let (token, holders) = (Arc::clone(&token), holders());
        async move {
            let holders = holders.await;
            let is_of_guard =
                |holder: &&LockHolder| token.get().is_none_or(|token| holder.token == Some(*token));
            holders.iter().filter(is_of_guard).count() as u64
        }
    };
    Prepared::write(call, count).at_last(0)
}

async fn readers_and_writers(seat: Seat) -> Vec<LockHolder> {
    let lock = ReadWriteLock::new(&seat.clean.locks, Level::Dc, &seat.prefix).unwrap();
    let info = lock.show().await.unwrap();
    info.readers.into_iter().chain(info.writer).collect()
}

async fn semaphore(seat: &Seat) -> Semaphore {
    let clean = &seat.clean.locks;
    Semaphore::create(clean, Level::Dc, &seat.prefix, 2)
        .await
        .unwrap();
    let locks = seat.locks().await;
    Semaphore::open(&locks, Level::Dc, &seat.prefix).await.unwrap()
}

async fn permit_holders(seat: Seat) -> Vec<LockHolder> {
    let opened = Semaphore::open(&seat.clean.locks, Level::Dc, &seat.prefix).await;
    let info = opened.unwrap().show().await.unwrap();
    info.holders.into_iter().map(|holder| holder.holder).collect()
}

async fn leaders(seat: Seat) -> Vec<LockHolder> {
    let election = Election::new(&seat.clean.locks, Level::Dc, &seat.prefix).unwrap();
    let leader = election.leader().await.unwrap();
    leader.into_iter().map(|leader| leader.holder).collect()
}

/// Returns the number of permits; 0 without a semaphore.
async fn permits(seat: Seat) -> u32 {
    let opened = Semaphore::open(&seat.clean.locks, Level::Dc, &seat.prefix).await;
    match opened {
        Ok(semaphore) => semaphore.permits(),
        Err(error) if error.kind() == hbase_txn::ErrorKind::SemaphoreAbsent => 0,
        Err(error) => panic!("{error}"),
    }
}

async fn are(expected: u32, permits: impl Future<Output = u32>) -> u64 {
    u64::from(permits.await == expected)
}

pub(super) fn all() -> Vec<Call> {
    vec![
        Call::new("read/write lock: read", |seat| async move {
            let lock = ReadWriteLock::new(&seat.locks().await, Level::Dc, &seat.prefix).unwrap();
            let acquire = lock.read().ttl(LEASE).acquire();
            hold(acquire, move || readers_and_writers(seat.clone()))
        }),
        Call::new("read/write lock: write", |seat| async move {
            let lock = ReadWriteLock::new(&seat.locks().await, Level::Dc, &seat.prefix).unwrap();
            let acquire = lock.write().ttl(LEASE).acquire();
            hold(acquire, move || readers_and_writers(seat.clone()))
        }),
        Call::new("read/write lock: release", |seat| async move {
            let lock = ReadWriteLock::new(&seat.locks().await, Level::Dc, &seat.prefix).unwrap();
            let guard = lock.write().ttl(LEASE).acquire().await.unwrap();
            let free = move || is_free(readers_and_writers(seat.clone()));
            Prepared::write(released(guard.release()), free).at_last(1)
        }),
        Call::new("semaphore: create", |seat| async move {
            let (locks, case) = (seat.locks().await, seat.clone());
            let create = async move { Semaphore::create(&locks, Level::Dc, &case.prefix, 2).await };
            Prepared::write(async move { Reported::of(create.await) }, move || {
                are(2, permits(seat.clone()))
            })
        }),
        Call::new("semaphore: permit", |seat| async move {
            let acquire = semaphore(&seat).await.permit().ttl(LEASE).acquire();
            hold(acquire, move || permit_holders(seat.clone()))
        }),
        Call::new("semaphore: release", |seat| async move {
            let guard = semaphore(&seat)
                .await
                .permit()
                .ttl(LEASE)
                .acquire()
                .await
                .unwrap();
            let free = move || is_free(permit_holders(seat.clone()));
            Prepared::write(released(guard.release()), free).at_last(1)
        }),
        Call::new("semaphore: renew by token", |seat| async move {
            let semaphore = semaphore(&seat).await;
            let token = semaphore.permit().ttl(LEASE).acquire().await.unwrap().detach();
            Prepared::read(async move {
                Reported::expect(semaphore.renew(token, 2 * LEASE).await, &Ok(())).or_not()
            })
        }),
        Call::new("semaphore: release by token", |seat| async move {
            let semaphore = semaphore(&seat).await;
            let token = semaphore.permit().ttl(LEASE).acquire().await.unwrap().detach();
            let call = async move { released(semaphore.release(token)).await };
            Prepared::write(call, move || is_free(permit_holders(seat.clone())))
        }),
        Call::new("semaphore: resize", |seat| async move {
            let semaphore = semaphore(&seat).await;
            Prepared::write(
                async move { Reported::of(semaphore.resize(3).await) },
                move || are(3, permits(seat.clone())),
            )
        }),
        Call::new("semaphore: delete", |seat| async move {
            let semaphore = semaphore(&seat).await;
            Prepared::write(async move { Reported::of(semaphore.delete().await) }, move || {
                are(0, permits(seat.clone()))
            })
        }),
        Call::new("semaphore: show", |seat| async move {
            let semaphore = semaphore(&seat).await;
            Prepared::read(
                async move { Reported::expect(semaphore.show().await.map(|info| info.available), &2) },
            )
        }),
        Call::new("election: lead", |seat| async move {
            let election = Election::new(&seat.locks().await, Level::Dc, &seat.prefix).unwrap();
            let lead = election.campaign().ttl(LEASE).wait(Duration::ZERO).lead();
            let guard = async move { Ok(lead.await?.into_guard()) };
            hold(guard, move || leaders(seat.clone()))
        }),
        Call::new("election: resign", |seat| async move {
            let election = Election::new(&seat.locks().await, Level::Dc, &seat.prefix).unwrap();
            let leadership = election.campaign().ttl(LEASE).lead().await.unwrap();
            Prepared::write(released(leadership.resign()), move || {
                is_free(leaders(seat.clone()))
            })
            .at_last(1)
        }),
        Call::new("election: leader", |seat| async move {
            let election = Election::new(&seat.locks().await, Level::Dc, &seat.prefix).unwrap();
            Prepared::read(async move { Reported::expect(election.leader().await, &None) })
        }),
    ]
}
