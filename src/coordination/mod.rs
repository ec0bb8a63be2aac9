//! Semaphores, read/write locks and leader election.
//!
//! - A [`Semaphore`] limits how many holders there are at a time, across all processes.
//! - A [`ReadWriteLock`] admits many readers or one writer.
//! - An [`Election`] chooses one leader, with a term that rises.
//!
//! ```no_run
//! # async fn example(locks: hbase_txn::lock::LockManager) -> hbase_txn::Result<()> {
//! # async fn schedule_jobs(_term: u64) {}
//! use std::time::Duration;
//! use hbase_txn::{Level, coordination::{Election, Semaphore}};
//!
//! // At most four exports at a time.
//! let exports = Semaphore::create(&locks, Level::Dc, "exports", 4).await?;
//! let permit = exports.permit().wait(Duration::from_secs(60)).auto_renew().acquire().await?;
//! // … export …
//! permit.release().await?;
//!
//! // One scheduler among all processes.
//! let election = Election::new(&locks, Level::Dc, "scheduler")?;
//! election
//!     .campaign()
//!     .lead_while(async |leadership| schedule_jobs(leadership.term()).await)
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! All three live in a lock table, beside its locks, and are opened with a
//! [`LockManager`](crate::lock::LockManager). What is held is a
//! [`LockGuard`](crate::lock::LockGuard), with the guarantees of [locks](crate::lock#guarantees):
//! leases, fencing numbers, renewal in the background, no hold left behind by a dropped future. An
//! operator can revoke a hold by its token (`force_release`). Java clients have none of these.
//!
//! The guide, `docs/coordination.md`, has what each
//! guarantees, and the costs.

// Inside:
//
// | file | what |
// |---|---|
// | `semaphore` | `Semaphore`: the number of permits, and its changes |
// | `permits` | `PermitRequest`: waiting for permits |
// | `read_write` | `ReadWriteLock`: many readers or one writer |
// | `election` | `Election`, `Campaign`, `Leadership` |
// | `contest` | what waiting for any of them has in common |
//
// Each is one row of a lock table; its holds are slots of that row (`lock::SlotRow`). Invariant: a
// hold is handed out only if the whole row, read in the same call behind its own write, allows it.

mod contest;
mod election;
mod permits;
mod read_write;
mod semaphore;

pub use election::{Campaign, Election, Leader, Leadership};
pub use permits::PermitRequest;
pub use read_write::{ReadWriteInfo, ReadWriteLock, ReadWriteRequest};
pub use semaphore::{PermitHolder, Semaphore, SemaphoreInfo};
