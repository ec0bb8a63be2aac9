//! What else processes coordinate with: permits, reading and writing, a leader.
//!
//! | file | what |
//! |---|---|
//! | `semaphore` | [`Semaphore`]: so many permits, and what defines them |
//! | `permits` | [`PermitRequest`]: how permits are waited for |
//! | `read_write` | [`ReadWriteLock`]: many readers or one writer |
//! | `election` | [`Election`], [`Leadership`]: one leader, in terms that rise |
//! | `contest` | what waiting for any of them has in common |
//!
//! Each is one row of a lock table, and what is held of it are slots of that row (`lock::SlotRow`): leases, tokens, renewals,
//! releases, fencing numbers and dropped futures are those of locks. What must stay true here: a hold is handed out only
//! by what was seen of the whole row behind its own write, in the same call.

mod contest;
mod election;
mod permits;
mod read_write;
mod semaphore;

pub use election::{Campaign, Election, Leader, Leadership};
pub use permits::PermitRequest;
pub use read_write::{ReadWriteInfo, ReadWriteLock, ReadWriteRequest};
pub use semaphore::{PermitHolder, Semaphore, SemaphoreInfo};
