//! Locks and latches through an HBase Thrift gateway.
//!
//! For processes that cannot reach region servers: behind a firewall, or in a network that exposes
//! only the gateway (`hbase thrift`, the first API). A gateway changes single rows, and has no
//! conditions over several cells; locks and latches work through it, transactions do not.
//!
//! ```no_run
//! # async fn example() -> hbase_txn::Result<()> {
//! use std::time::Duration;
//! use hbase_txn::{Level, thrift::{ThriftConnection, ThriftLockManagerOptions}};
//!
//! let gateway = ThriftConnection::connect("gateway.example:9090").await?;
//! let locks = ThriftLockManagerOptions::new("billing")
//!     .farm("fra")
//!     .open(&gateway, "dlm_locks")
//!     .await?;
//! let guard = locks
//!     .lock(Level::Dc, "nightly-export")?
//!     .wait(Duration::from_secs(60))
//!     .auto_renew()
//!     .acquire()
//!     .await?;
//! // … the work …
//! assert!(guard.release().await?.is_released());
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! - Native clients, Java clients and clients of a gateway exclude each other, and count down the
//!   same latches.
//! - Every call has a deadline, and every answer a size limit. After a call without a valid answer
//!   in time, its connection is not used again.
//! - A [`ThriftLockGuard`] cannot fence a transaction: see
//!   [`LockGuard`](crate::lock::LockGuard) for that.

// Inside:
//
// | file | contents |
// |---|---|
// | `connection` | `ThriftConnection`: connections to a gateway, and the threads that wait for it |
// | `permits` | how many of them may be open |
// | `socket` | one connection: a deadline for each call, a limit for each answer |
// | `answer` | Thrift's binary protocol, from a peer that is not trusted |
// | `failure` | the meaning of a failed call |
// | `rows` | reads and changes of single rows |
// | `lock_manager` `request` `guard` | `ThriftLockManager`, `ThriftLockRequest`, `ThriftLockGuard` |
// | `lock_location` | the lock protocol with the calls of a gateway |
// | `latch_manager` `latch` | `ThriftLatchManager`, `ThriftLatch` |
// | `latch_location` | the latch protocol with the calls of a gateway |
//
// Invariants: after a call without a valid answer in time, its connection is never used again; the
// outcome is decided by a read wherever possible, not by the gateway's answer.

mod answer;
mod connection;
mod failure;
mod guard;
mod latch;
mod latch_location;
mod latch_manager;
mod lock_location;
mod lock_manager;
mod permits;
mod request;
mod rows;
mod socket;

pub use connection::{ThriftConnection, ThriftConnectionBuilder};
pub use guard::ThriftLockGuard;
pub use latch::ThriftLatch;
pub use latch_manager::{ThriftLatchManager, ThriftLatchManagerOptions};
pub use lock_manager::{ThriftLockManager, ThriftLockManagerOptions};
pub use request::ThriftLockRequest;

/// The framing of messages on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Messages follow each other directly.
    Buffered,
    /// Each message is preceded by its length.
    Framed,
}
