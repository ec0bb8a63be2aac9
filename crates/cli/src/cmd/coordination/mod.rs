//! `hbase-txn semaphore`, `elect` and `rwlock`.
//!
//! | file | contents |
//! |---|---|
//! | `semaphore` | manages semaphores and permits; runs a command under permits |
//! | `elect` | runs a command as the leader; shows and evicts the leader |
//! | `rwlock` | runs a command as a reader or the writer; shows and evicts them |
//! | `list` | lists the locks, elections, semaphores and read/write locks of a table |
//! | `evict` | forced releases |
//! | `holder` | the output of holders |

pub(crate) mod elect;
mod evict;
mod holder;
pub(super) mod list;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
