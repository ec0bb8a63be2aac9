//! Distributed locks: a cluster-wide mutex with a lease.
//!
//! Use a lock when several processes must not do the same thing at the same time: a nightly export,
//! a schema change, the writes of one customer. The lock is a row of an HBase table. It is held for
//! a lease, which the guard renews, so a holder that crashes delays the others by one lease at
//! most.
//!
//! ```
//! use std::time::Duration;
//! use hbase_txn::{Level, lock::LockManagerOptions};
//!
//! # hbase_fake::FakeHBase::run(async |hbase| {
//! # hbase.create_table("dlm_locks", &["D"], &[]);
//! # let connection = hbase.connect().await?;
//! let locks = LockManagerOptions::new("billing")
//!     .farm("fra")
//!     .open(&connection, "dlm_locks")
//!     .await?;
//! let guard = locks
//!     .lock(Level::Dc, "nightly-export")?
//!     .ttl(Duration::from_secs(10))
//!     .wait(Duration::from_secs(60))
//!     .auto_renew()
//!     .acquire()
//!     .await?;
//! tokio::select! {
//!     loss = guard.lost() => eprintln!("stop: {loss}"),
//!     () = async { /* the export, with guard.fencing() */ } => {}
//! }
//! assert!(guard.is_held());
//! assert!(guard.release().await?.is_released());
//! # Ok(()) });
//! ```
//!
//! | to | use |
//! |---|---|
//! | acquire one lock, wait for it, or try once | [`LockManager::lock`] |
//! | acquire several locks, all or none, without deadlock | [`LockSet`] |
//! | lock a partition, and fence its transactions | [`PartitionLocks`] |
//! | hold several things that end together | [`LockManager::session`] |
//! | resume a lock that another process acquired | [`LockRequest::resume`] |
//! | read locks, or revoke one | [`LockManager::show`], [`list`](LockManager::list), [`force_release`](LockManager::force_release) |
//! | follow the changes of a lock | [`LockManager::watch`] |
//!
//! # Guarantees
//!
//! - **Mutual exclusion by lease.** At most one holder at a time by the clock of the region server.
//!   A guard counts its lease as expired earlier than the server does, by a
//!   [margin](LockRequest::skew_margin).
//! - **Fencing.** A process may be stopped for longer than its lease and not notice. Each
//!   acquisition has a higher [fencing number](LockGuard::fencing) than all earlier ones; pass it
//!   to a store that refuses lower ones, or let HBase check the lock with
//!   [`Transaction::fenced_by`](crate::Transaction::fenced_by).
//! - **Order.** Tasks and processes that wait acquire the lock in the order in which they began to
//!   wait.
//! - **No lock is left behind.** A dropped future or guard releases what it holds in the
//!   background.
//! - **Compatibility.** The cells are those of a widely used Java library. Its clients and this
//!   library exclude each other.
//!
//! The guide, `docs/locks.md`, has the limits and the costs.

// Inside:
//
// | file | contents |
// |---|---|
// | `name` | `LockName`: farm, client, id, and the row derived from them |
// | `table` | `LockTableOptions`: tables for locks |
// | `manager` | `LockManager`: the locks of one client in one table |
// | `request` | `LockRequest`: waiting for a lock |
// | `several` | `LockSet`: several locks, all or none |
// | `session` | `Session`: holds that end together |
// | `hold` | a held lock: its guard, its lease, its renewals, and its release, native or through a gateway |
// | `queue` | the order of those that wait, in this process and in others |
// | `protocol` | the cells of a lock, and the changes that take, renew and release it |
// | `in_partition` | `PartitionLocks`: locks in the partition of the data |
// | `in_transaction` `pending` | locks as part of a transaction |
// | `state` | the state of a lock, for callers |
// | `list` | the held locks of a table |
// | `watch` | the changes of a lock, as a stream |
//
// Invariants: a call holds a lock if it took all its rows and then read its own token in them;
// every change of a hold has the condition that its owner cell is byte for byte as last read; no
// cell on a lock row expires before the cells under it; no lease is counted from later than its
// request was sent.

mod hold;
mod in_partition;
mod in_transaction;
mod list;
mod manager;
mod name;
mod pending;
mod protocol;
mod queue;
mod request;
mod session;
mod several;
mod state;
mod table;
mod watch;

#[cfg(feature = "thrift")]
pub(crate) use {
    hold::{
        CallSharing, HeldLocation, Hold,
        abandoned::Abandoned,
        background::{BackgroundTask, TrackedTask},
        clock::{Clock, Moment},
        lease::{DEFAULT_LEASE, check_margin, margin},
        term::Term,
    },
    protocol::{
        claim::{TRIES, changed_meanwhile, loss, next_renewal},
        layout::{ALONE, FAMILY, FENCING, LockRows, MARKER, OWNER},
        location::FENCING_TTL,
        owner::{HeldBy, Millis, Owner},
        release::LONG_REST,
        row_state::{Remains, RowLease, RowState},
    },
    queue::local::{FirstWaiter, LocalClaim, LocalLocks, default_holder},
    state::refusal,
};

pub use hold::guard::LockGuard;
pub use hold::lease::{MAX_LEASE, MAX_SKEW_MARGIN, MIN_LEASE};
pub use hold::session::SessionEnd;
pub use in_partition::PartitionLocks;
pub use manager::{LockManager, LockManagerOptions};
pub use name::LockName;
pub use pending::PendingLock;
pub use protocol::owner::LockToken;
pub(crate) use protocol::slots::{SlotRow, SlotsSeen};
pub(crate) use queue::{Demand, Waiter};
pub use request::LockRequest;
pub(crate) use request::while_open;
pub use session::Session;
pub use several::LockSet;
pub use state::{LockHolder, LockInfo, LockLoss, ReleaseOutcome};
pub use table::LockTableOptions;
pub use watch::{LockEvent, LockEventKind};
