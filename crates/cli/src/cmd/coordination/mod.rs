//! `hbase-txn semaphore`, `elect`, `rwlock` and `group`.
//!
//! | file | contents |
//! |---|---|
//! | `semaphore` | manages semaphores and permits; runs a command under permits |
//! | `elect` | runs a command as the leader; shows and evicts the leader |
//! | `rwlock` | runs a command as a reader or the writer; shows and evicts them |
//! | `group` | runs a command as a member; shows and evicts the members |
//! | `list` | lists the locks, elections, semaphores, read/write locks and groups of a table |
//! | `evict` | forced releases |
//! | `holder` | the output of holders |

pub(crate) mod elect;
mod evict;
pub(crate) mod group;
mod holder;
pub(super) mod list;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
