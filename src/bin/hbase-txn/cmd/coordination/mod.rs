//! `hbase-txn semaphore`, `elect` and `rwlock`: what is held like a lock, by some of all processes.
//!
//! | file | what |
//! |---|---|
//! | `semaphore` | permits: make, acquire, release, show them, run a command under some |
//! | `elect` | runs a command as the leader; who leads |
//! | `rwlock` | runs a command as a reader or the writer; who does |
//! | `holder` | who holds something, as it is told |

pub(crate) mod elect;
mod holder;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
