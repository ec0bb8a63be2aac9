//! Semaphores, read/write locks, leader election and group membership.
//!
//! - A [`Semaphore`] limits the number of concurrent holders, across all processes.
//! - A [`ReadWriteLock`] admits many readers or one writer.
//! - An [`Election`] chooses one leader, with a term that rises.
//! - A [`Group`] lists the live processes of a service, with data of each.
//!
//! ```
//! use std::time::Duration;
//! use hbase_txn::{Level, coordination::{Election, Semaphore}};
//!
//! # use hbase_txn::lock::LockManagerOptions;
//! # hbase_fake::FakeHBase::run(async |hbase| {
//! # hbase.create_table("dlm_locks", &["D"], &[]);
//! # let options = LockManagerOptions::new("billing").farm("fra");
//! # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
//! # async fn schedule_jobs(term: i64) { assert!(term > 0) }
//! // At most four exports at a time.
//! let exports = Semaphore::create(&locks, Level::Dc, "exports", 4).await?;
//! let permit = exports.permit().wait(Duration::from_secs(60)).auto_renew().acquire().await?;
//! // … export …
//! assert!(permit.release().await?.is_released());
//!
//! // One scheduler among all processes.
//! let election = Election::new(&locks, Level::Dc, "scheduler")?;
//! election
//!     .campaign()
//!     .lead_while(async |leadership| schedule_jobs(leadership.term()).await)
//!     .await?;
//! # Ok(()) });
//! ```
//!
//! All are rows of a lock table, next to its locks, and are opened with a
//! [`LockManager`](crate::lock::LockManager). A hold is a [`LockGuard`](crate::lock::LockGuard),
//! with the guarantees of [locks](crate::lock#guarantees): leases, fencing numbers, renewal in the
//! background, and no hold left behind by a dropped future. An operator can revoke a hold by its
//! token (`force_release`). Java clients do not have these primitives.
//!
//! The guide, `docs/coordination.md`, has the guarantees and the costs of each.

// Inside:
//
// | file | contents |
// |---|---|
// | `semaphore` | `Semaphore`: the number of permits, and its changes |
// | `permits` | `PermitRequest`: waiting for permits |
// | `read_write` | `ReadWriteLock`: many readers or one writer |
// | `election` | `Election`, `Campaign`, `Leadership` |
// | `group` | `Group`: the live processes of a service |
// | `list` | all of them in a table |
// | `contest` | waiting for any of them |
// | `changes` | following any of them |
//
// Each is one row of a lock table; its holds are slots of that row (`lock::SlotRow`). Invariant: a
// hold is returned only if the whole row, read after its own write in the same call, allows it.

mod changes;
mod contest;
mod election;
mod group;
mod list;
mod permits;
mod read_write;
mod semaphore;

pub use election::{Campaign, Election, Leader, Leadership};
pub use group::{Group, GroupInfo, Member};
pub use list::{CoordinationInfo, CoordinationState, list};
pub use permits::PermitRequest;
pub use read_write::{ReadWriteInfo, ReadWriteLock, ReadWriteRequest};
pub use semaphore::{PermitHolder, Semaphore, SemaphoreInfo};
