//! One change of each object: a semaphore is created, a barrier deleted, a lock released by force.
//! What the call reports is what happened.

use std::time::Duration;

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    ErrorKind, Level, Result,
    admin::Admin,
    client::{Config, Connection},
    coordination::Semaphore,
    latch::{LatchManager, LatchManagerOptions, LatchState, LatchTableOptions},
    lock::{LockManager, LockTableOptions, LockToken},
};
use tokio::{
    task::LocalSet,
    time::{sleep, timeout},
};

use crate::bench::{connect_with, lock_options};

/// Longer than any run.
const LEASE: Duration = Duration::from_secs(3_600);
const LIFE: Duration = Duration::from_secs(24 * 3_600);
const LEVEL: Level = Level::Xdc;
const OBJECTS: usize = 16;

/// A change that has the same effect if it is made twice.
#[derive(Clone, Copy, Debug)]
enum Change {
    CreateSemaphore,
    ResizeSemaphore,
    DeleteSemaphore,
    /// Revokes permits that are held.
    ForceReleasePermit,
    CreateBarrier,
    ArriveAtBarrier,
    DeleteBarrier,
    InitLatch,
    ArriveAtLatch,
    DeleteLatch,
    ReleaseLock,
    ForceReleaseLock,
}

const CHANGES: [Change; 12] = [
    Change::CreateSemaphore,
    Change::ResizeSemaphore,
    Change::DeleteSemaphore,
    Change::ForceReleasePermit,
    Change::CreateBarrier,
    Change::ArriveAtBarrier,
    Change::DeleteBarrier,
    Change::InitLatch,
    Change::ArriveAtLatch,
    Change::DeleteLatch,
    Change::ReleaseLock,
    Change::ForceReleaseLock,
];

struct Site {
    locks: LockManager,
    latches: LatchManager,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = LockTableOptions::new("locks").unwrap().regions(2);
    table.create(&Admin::new(&plain)).await.unwrap();
    let table = LatchTableOptions::new("latches").unwrap().regions(2);
    table.create(&Admin::new(&plain)).await.unwrap();
    let clean = Site::open(&plain).await;
    let deadline = Duration::from_millis(rng.u64(300..4_000));
    let set = |config: Config| config.with_operation_timeout(deadline);
    let connection = connect_with(&world, &mut rng, set).await;
    let tasks = LocalSet::new();
    let mut changes = Vec::new();
    for number in 0..OBJECTS {
        let change = rng.choice(CHANGES).unwrap();
        let id = format!("{number:02}");
        let token = clean.prepare(change, &id).await;
        let site = Site::open(&connection).await;
        let rng = world.rng(1 + number as u64);
        let made = tasks.spawn_local(make(site, change, id.clone(), token, rng));
        changes.push((change, id, made));
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    for (change, id, made) in changes {
        let made = made.await.unwrap();
        let is_made = clean.is_made(change, &id).await;
        match made {
            Some(Ok(())) => assert!(is_made, "{change:?} of {id} is acknowledged, and not made"),
            Some(Err(error)) if !error.is_outcome_unknown() => {
                assert!(!is_made, "{change:?} of {id} is made, but failed: {error}");
            }
            _ => {}
        }
    }
}

/// Makes the change at some time. Returns `None` if the call was dropped.
async fn make(
    site: Site,
    change: Change,
    id: String,
    token: Option<LockToken>,
    mut rng: Rng,
) -> Option<Result<()>> {
    sleep(Duration::from_millis(rng.u64(..3_000))).await;
    let patience = match rng.u8(..8) {
        0 => Duration::from_micros(rng.u64(..50_000)),
        _ => Duration::from_secs(180),
    };
    let made = timeout(patience, site.make(change, &id, token)).await.ok();
    assert!(
        made.is_some() || patience < Duration::from_secs(1),
        "{change:?} does not end"
    );
    made
}

impl Site {
    async fn open(connection: &Connection) -> Self {
        Self {
            locks: lock_options().open(connection, "locks").await.unwrap(),
            latches: LatchManagerOptions::new("simulation", "fra")
                .open(connection, "latches")
                .await
                .unwrap(),
        }
    }

    /// Prepares the object that is changed. Returns the token of its holder.
    async fn prepare(&self, change: Change, id: &str) -> Option<LockToken> {
        use Change::{
            ArriveAtBarrier, ArriveAtLatch, CreateBarrier, CreateSemaphore, DeleteBarrier, DeleteLatch,
            DeleteSemaphore, ForceReleaseLock, ForceReleasePermit, InitLatch, ReleaseLock, ResizeSemaphore,
        };
        match change {
            CreateSemaphore | CreateBarrier | InitLatch => None,
            ResizeSemaphore | DeleteSemaphore | ForceReleasePermit => {
                let semaphore = Semaphore::create(&self.locks, LEVEL, id, 3).await.unwrap();
                match change {
                    ForceReleasePermit => {
                        let permit = semaphore.acquire_many(2).ttl(LEASE).acquire().await;
                        Some(permit.unwrap().detach())
                    }
                    _ => None,
                }
            }
            ArriveAtBarrier | DeleteBarrier => {
                let barrier = self.latches.barrier(id).unwrap();
                barrier.create(2, LIFE).await.unwrap();
                None
            }
            ArriveAtLatch | DeleteLatch => {
                let latch = self.latches.latch(Level::Dc, id).unwrap();
                latch.init(3, LIFE).await.unwrap();
                None
            }
            ReleaseLock | ForceReleaseLock => {
                let lock = self.locks.lock(LEVEL, id).unwrap().ttl(LEASE);
                Some(lock.acquire().await.unwrap().detach())
            }
        }
    }

    async fn make(&self, change: Change, id: &str, token: Option<LockToken>) -> Result<()> {
        match change {
            Change::CreateSemaphore => Semaphore::create(&self.locks, LEVEL, id, 3).await.map(drop),
            Change::ResizeSemaphore => self.semaphore(id).await?.resize(5).await,
            Change::DeleteSemaphore => self.semaphore(id).await?.delete().await.map(drop),
            Change::ForceReleasePermit => {
                let semaphore = self.semaphore(id).await?;
                semaphore.force_release(token.unwrap()).await.map(drop)
            }
            Change::CreateBarrier => self.latches.barrier(id)?.create(2, LIFE).await,
            Change::ArriveAtBarrier => self.latches.barrier(id)?.arrive("p").await.map(drop),
            Change::DeleteBarrier => self.latches.barrier(id)?.delete().await.map(drop),
            Change::InitLatch => self.latches.latch(Level::Dc, id)?.init(3, LIFE).await,
            Change::ArriveAtLatch => {
                let latch = self.latches.latch(Level::Dc, id)?;
                latch.arrive("p").await.map(drop)
            }
            Change::DeleteLatch => {
                let latch = self.latches.latch(Level::Dc, id)?;
                latch.delete().await.map(drop)
            }
            Change::ReleaseLock => {
                let released = self.locks.release(LEVEL, id, token.unwrap()).await?;
                assert!(released.is_released(), "{released:?}");
                Ok(())
            }
            Change::ForceReleaseLock => self.locks.force_release(LEVEL, id).await.map(drop),
        }
    }

    async fn semaphore(&self, id: &str) -> Result<Semaphore> {
        Semaphore::open(&self.locks, LEVEL, id).await
    }

    async fn is_made(&self, change: Change, id: &str) -> bool {
        match change {
            Change::CreateSemaphore => self.permits(id).await == Some(3),
            Change::ResizeSemaphore => self.permits(id).await == Some(5),
            Change::DeleteSemaphore => self.permits(id).await.is_none(),
            Change::ForceReleasePermit => {
                let info = self.semaphore(id).await.unwrap().show().await.unwrap();
                info.holders.is_empty()
            }
            Change::CreateBarrier => self.arrived_at_barrier(id).await.is_some(),
            Change::ArriveAtBarrier => self.arrived_at_barrier(id).await == Some(1),
            Change::DeleteBarrier => self.arrived_at_barrier(id).await.is_none(),
            Change::InitLatch | Change::ArriveAtLatch | Change::DeleteLatch => {
                let latch = self.latches.latch(Level::Dc, id).unwrap();
                let info = latch.show().await.unwrap();
                match change {
                    Change::InitLatch => info.count == Some(3),
                    Change::ArriveAtLatch => info.count == Some(2),
                    _ => info.state == LatchState::Absent,
                }
            }
            Change::ReleaseLock | Change::ForceReleaseLock => {
                let info = self.locks.show(LEVEL, id).await.unwrap();
                info.holder.is_none()
            }
        }
    }

    async fn permits(&self, id: &str) -> Option<u32> {
        match self.semaphore(id).await {
            Ok(semaphore) => Some(semaphore.permits()),
            Err(error) if error.kind() == ErrorKind::SemaphoreAbsent => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn arrived_at_barrier(&self, id: &str) -> Option<u32> {
        let shown = self.latches.barrier(id).unwrap().show().await.unwrap();
        shown.map(|info| info.arrived)
    }
}
