//! HBase through a Thrift gateway: for those who reach nothing else. Single rows only, and so locks and latches.
//!
//! | file | what |
//! |---|---|
//! | `connection` | [`ThriftConnection`]: connections to a gateway, and the threads that wait for it |
//! | `socket` | one connection: a deadline for each call, a bound for each answer |
//! | `answer` | Thrift's binary protocol, from a peer that may be anything |
//! | `failure` | what a call that failed means |
//! | `rows` | reads and changes of single rows |
//! | `lock_manager` `request` `guard` | [`ThriftLockManager`], [`ThriftLockRequest`], [`ThriftLockGuard`] |
//! | `hold` | the lock protocol, out of what a gateway can do |
//! | `latch_manager` `latch` | [`ThriftLatchManager`], [`ThriftLatch`] |
//! | `latch_place` | the latch protocol, out of what a gateway can do |
//!
//! What must stay true: a connection on which a call failed, or had no answer in time, is never used again; nothing that a
//! gateway answers is believed where a read can tell; a lock's cells are such that native clients, Java's and ours, exclude
//! a gateway's, and the other way round; a latch's are theirs, too, and count for all.

mod answer;
mod connection;
mod failure;
mod guard;
mod hold;
mod latch;
mod latch_manager;
mod latch_place;
mod lock_manager;
mod request;
mod rows;
mod socket;

pub use connection::{ThriftConnection, ThriftConnectionBuilder};
pub use guard::ThriftLockGuard;
pub use latch::ThriftLatch;
pub use latch_manager::{ThriftLatchManager, ThriftLatchManagerOptions};
pub use lock_manager::{ThriftLockManager, ThriftLockManagerOptions};
pub use request::ThriftLockRequest;

/// How messages follow each other on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// One behind the other.
    Buffered,
    /// Each with its length in front.
    Framed,
}
