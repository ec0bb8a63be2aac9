//! Transactions over rows that share a key prefix, on Apache HBase.
//!
//! HBase promises atomicity for one row. Rows that share a key prefix can be kept in one region, and a region can
//! apply many rows at once: so a prefix is a *partition* in which real transactions are possible. This library speaks
//! HBase's own RPC, without a JVM or a gateway:
//!
//! - [`Connection`], [`Table`], [`ResultScanner`], [`Admin`]: a native asynchronous client;
//! - [`PartitionedTable`], [`Transaction`], [`Batch`]: rows grouped by partition, each group applied as a whole or not
//!   at all, under [`Condition`]s, with an [`Outcome`] that is never a guess and can be settled when an answer was lost;
//! - [`Snapshot`], [`PartitionedTable::update`]: a partition as it is at one moment, and changes that depend on it;
//! - [`LockManager`], [`LockGuard`], [`PartitionLocks`]: distributed locks with leases and fencing numbers, beside a Java
//!   library's or inside a transaction; [`keyed_lock`]: locks by key in one process;
//! - [`LatchManager`], [`Latch`], [`PartitionLatches`]: counts that others wait for to be counted down, beside a Java
//!   library's or inside a transaction;
//! - [`Semaphore`], [`ReadWriteLock`], [`Election`]: permits, many readers or one writer, one leader, of all processes and
//!   with the leases and fencing numbers of locks;
//! - [`Connector`]: how servers are dialled, for tunnels and for tests.
//!
//! # Which to use
//!
//! Rows that must change together share a prefix: [`PartitionedTable::at`]. Only if something is so:
//! [`Transaction::condition`]. Depending on what is there: [`PartitionedTable::update`]. Once, however often it is sent:
//! [`Transaction::id`]. Many rows, each partition for itself: [`PartitionedTable::batch`]. A partition is read by
//! [`PartitionedTable::snapshot`], never by several gets. Single rows, and all other reads: [`Table`].
//!
//! # Promises
//!
//! - **Never a silent wrong answer.** What can't be atomic is refused before it is sent; an outcome that is not known
//!   is called [`Outcome::Unknown`], and nothing is sent twice that could be applied twice.
//! - **Never a hang.** Every future of this library ends within its deadline (one minute, unless [`Config`] says
//!   otherwise) or is dropped without harm to any other; the [`Error`] says how far it got.
//!
//! # Example
//!
//! ```no_run
//! use hbase_txn::{Connection, Delete, PartitionedTable, Put};
//!
//! # async fn example() -> hbase_txn::Result<()> {
//! let connection = Connection::connect("hbase+zk://127.0.0.1:2181/hbase").await?;
//! let orders = PartitionedTable::open(&connection, "orders".parse()?).await?;
//!
//! let mut transaction = orders.at("xxx")?;
//! transaction.put(Put::new("xxxabc").cell("f", "q", "1"))?;
//! transaction.put(Put::new("xxx123").cell("f", "q", "2"))?;
//! transaction.delete(Delete::new("xxxzzz"))?;
//! let committed = transaction.commit().await.into_result()?;
//! assert_eq!(committed.rows, 3);
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `zookeeper` (default) | clusters named by their ZooKeeper quorum, `hbase+zk://…` |
//! | `local` | [`local`](https://docs.rs/hbase-txn): a real HBase on this machine, for tests |
//! | `thrift` | `ThriftConnection`, `ThriftLockManager`, `ThriftLatchManager`: locks and latches through a Thrift gateway, for those who can't reach HBase itself |
//! | `provision` | [`provision`](https://docs.rs/hbase-txn): tables planned from files, audited, repaired |
//! | `cli` | the command `hbase-txn` |

#![cfg_attr(not(test), deny(missing_docs))]

mod client;
mod cluster;
mod config;
mod coordination;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod keyed_lock;
mod latch;
#[cfg(feature = "local")]
pub mod local;
mod lock;
mod model;
#[cfg(feature = "provision")]
pub mod provision;
mod rpc;
#[cfg(feature = "thrift")]
mod thrift;
mod txn;
mod wire;

#[cfg(feature = "thrift")]
pub use crate::thrift::{
    ThriftConnection, ThriftConnectionBuilder, ThriftLatch, ThriftLatchManager, ThriftLatchManagerOptions,
    ThriftLockGuard, ThriftLockManager, ThriftLockManagerOptions, ThriftLockRequest,
};
pub use client::{
    Admin, ClusterInfo, Connection, ConnectionBuilder, EndpointCall, RegionInTransition, RegionLoad,
    RegionSwitch, ResultScanner, Right, ServerLoad, Table, TableRegion,
};
pub use config::{ClusterAddress, Config, HostPort};
pub use coordination::{
    Campaign, Election, Leader, Leadership, PermitHolder, PermitRequest, ReadWriteInfo, ReadWriteLock,
    ReadWriteRequest, Semaphore, SemaphoreInfo,
};
pub use error::{Effect, Error, ErrorKind, RemoteException, Result};
pub use latch::{
    Arrival, Barrier, BarrierInfo, BarrierOutcome, Counted, LONGEST_LATCH, Latch, LatchInfo, LatchManager,
    LatchManagerOptions, LatchName, LatchState, LatchTableOptions, MOST_PARTIES, PartitionLatches,
    SHORTEST_LATCH, WaitOutcome,
};
pub use lock::{
    LONGEST_LEASE, LockGuard, LockHolder, LockInfo, LockLoss, LockManager, LockManagerOptions, LockName,
    LockRequest, LockSet, LockTableOptions, LockToken, PartitionLocks, PendingLock, ReleaseOutcome,
    SHORTEST_LEASE,
};
pub use model::{
    Append, BytesBinary, Cell, CellKind, Comparator, Comparison, Condition, Delete, Durability,
    FamilyDescriptor, Filter, Get, Increment, Level, Mutation, Partition, PartitionRule, Put, RegionInfo,
    Row, Scan, ServerName, TableDescriptor, TableName, TableState, TimeRange, parse_bytes_binary,
};
pub use rpc::{Connector, DialTarget, Io, ServiceKind, TcpConnector};
pub use txn::{
    Batch, Committed, ExplainedGroup, Explanation, FailedCondition, GroupOutcome, OpenOptions, Outcome,
    PartitionedTable, Recorded, Rejection, Settled, Snapshot, SnapshotOptions, Transaction, TransactionId,
    Unsettled, UpdateOptions, UpdateView, Updated,
};

/// The examples of these pages are compiled like all others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../docs/migrating.md")]
struct Migrating;

#[cfg(all(doctest, feature = "provision"))]
#[doc = include_str!("../docs/provisioning.md")]
struct Provisioning;

#[cfg(all(doctest, feature = "provision"))]
#[doc = include_str!("../docs/skew.md")]
struct HowSpread;
