//! Transactions over rows that share a key prefix, on Apache HBase.
//!
//! HBase changes one row atomically. A table can keep rows that share a key prefix in one region,
//! and a region can change many rows atomically. So each prefix is a *partition* in which
//! transactions are possible. This library speaks HBase's own RPC, without a JVM or a gateway.
//!
//! | to | use |
//! |---|---|
//! | change rows that share a prefix together | [`PartitionedTable::transaction`] |
//! | change them only if a condition holds | [`Transaction::condition`] |
//! | make changes that depend on what is stored | [`PartitionedTable::update`] |
//! | apply a change once, however often it is sent | [`Transaction::id`] |
//! | change many rows, each partition separately | [`PartitionedTable::batch`] |
//! | read a partition at one point in time | [`PartitionedTable::snapshot`] |
//! | read and write single rows, scan | [`Table`](client::Table), [`ResultScanner`](client::ResultScanner) |
//! | create and change tables | [`admin::Admin`] |
//! | exclude other processes | [`lock`] |
//! | wait until a count is zero, or for other parties | [`latch`] |
//! | limit concurrency, read or write, elect a leader | [`coordination`] |
//! | exclude other tasks of this process | [`hbase_keyed_lock`] |
//! | replace how the client connects to servers | [`Connector`](client::Connector) |
//! | replace clocks and random numbers, in tests | [`Environment`](client::Environment) |
//! | test without an HBase, with faults and virtual time | the crate `hbase-fake` |
//!
//! The module [`client`] has the types of the client, such as tables, rows and mutations.
//!
//! # Guarantees
//!
//! - **Never a silent wrong answer.** A transaction that can't be atomic is not sent. A lost answer
//!   is [`Outcome::Unknown`], and no request that could be applied twice is sent twice.
//! - **Never a hang.** Every future ends within its deadline, one minute by default
//!   ([`Config`](client::Config)), and may be dropped at any await point. The [`Error`] names the stage that
//!   was reached.
//!
//! # Example
//!
//! ```
//! use hbase_txn::{
//!     PartitionedTable,
//!     client::{Condition, Connection, Delete, Increment, Put},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let hbase = hbase_fake::FakeHBase::builder().listen().await?;
//! # hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
//! # let uri = hbase.uri();
//! let connection = Connection::connect(&uri).await?; // for example hbase+zk://127.0.0.1:2181/hbase
//! let orders = PartitionedTable::open(&connection, "orders").await?;
//!
//! let outcome = orders
//!     .transaction("xxx")
//!     .put(Put::new("xxxabc").cell("f", "state", "new").cell("f", "total", 1250i64))
//!     .increment(Increment::new("xxxsum").column("f", "orders", 1))
//!     .delete(Delete::new("xxxzzz"))
//!     .condition(Condition::absent("xxxabc", "f", "state"))
//!     .id("request-4711")
//!     .commit()
//!     .await;
//!
//! let committed = outcome.into_result()?;
//! assert_eq!(committed.rows, 3);
//! # Ok(()) }
//! ```
//!
//! # Errors
//!
//! Transactions, locks and latches return [`Error`]; [`Connection`](client::Connection),
//! [`Table`](client::Table) and [`Admin`](admin::Admin) return [`ClientError`]. In a function that returns
//! [`Result`], `?` converts the second into the first. An error type of your own needs both conversions:
//!
//! ```
//! use hbase_txn::{ClientError, Error};
//!
//! enum OrderError {
//!     HBase(Error),
//!     SoldOut,
//! }
//!
//! impl From<Error> for OrderError {
//!     fn from(error: Error) -> Self {
//!         Self::HBase(error)
//!     }
//! }
//!
//! impl From<ClientError> for OrderError {
//!     fn from(error: ClientError) -> Self {
//!         Self::HBase(error.into())
//!     }
//! }
//! ```
//!
//! # Names and values
//!
//! Row keys, families and qualifiers are any text or bytes ([`IntoBytes`](client::IntoBytes)), table names
//! are text ([`IntoTableName`](client::IntoTableName)). Values are text, bytes, numbers, `bool`s or UUIDs, in
//! the encoding of HBase's `Bytes` class ([`IntoValue`](client::IntoValue)):
//! `Put::new("xxxabc").cell("f", "total", 1250i64)` writes one, and
//! [`row.get::<i64>("f", "total")?`](client::Row::get) reads it.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `zookeeper` (default) | connecting by ZooKeeper quorum, `hbase+zk://…` |
//! | `thrift` | the module `thrift`: locks and latches through a Thrift gateway, without a connection to HBase |
//! | `kerberos` | clusters that authenticate clients by Kerberos or delegation tokens |
//! | `tls` | TLS to the servers and to ZooKeeper |
//! | `compression` | compressed cells between client and servers |
//! | `uuid` | UUIDs as cell values |
//! | `metrics` | metrics of the client, transactions and locks, for the recorder of the crate `metrics` |
//! | `spans` | `tracing` spans of operations, commits and locks, and the trace context in requests |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod coordination;
mod error;
mod java_layout;
pub mod latch;
pub mod lock;
mod observe;
mod partition;
mod random;
mod table_descriptor;
#[cfg(feature = "thrift")]
#[cfg_attr(docsrs, doc(cfg(feature = "thrift")))]
pub mod thrift;
mod txn;

/// The administration of a cluster: tables, regions, servers, permissions, quotas, replication. From the
/// crate `hbase-admin`.
pub mod admin {
    pub use hbase_admin::{
        Admin, AdminChange, ChangeLog, CloneSnapshotOptions, ClusterInfo, EntityLock, LockedResource,
        NamespaceDescriptor, OnlineRegion, PermissionScope, Procedure, ProcedureLock, ProcedureState,
        QuotaScope, QuotaTarget, RegionInTransition, RegionLoad, ReplicationPeer, ReplicationPeerConfig,
        ServerLoad, SlowCall, SnapshotDescription, SnapshotKind, SpaceQuota, SpaceQuotaSettings,
        SpaceViolationPolicy, Throttle, ThrottleInterval, ThrottleSettings, ThrottleType, UserPermission,
        split_keys_between,
    };
}

/// The client of HBase: connections, tables, scans, rows and their cells, mutations, conditions, filters,
/// and the configuration. From the crate `hbase-client`.
pub mod client {
    pub use hbase_client::{
        Append, BytesBinary, Cell, CellKind, CheckAndMutateResult, ClusterAddress, Comparator, Comparison,
        Compression, Condition, Config, Connection, ConnectionBuilder, ConnectionUri, Connector, Consistency,
        Delete, DependentColumnFilter, DialTarget, Durability, Effect, EndpointCall, Environment,
        FailedWrite, Failure, FailureKind, FamilyDescriptor, Filter, FromValue, Get, HostPort, Increment,
        IngestEvent, IntoBytes, IntoTableName, IntoValue, Io, IsolationLevel, MappedAddress, MetaReplicaMode,
        Mutation, ParallelScanner, Permission, Printable, Put, QueryMetrics, ReadComparator, ReadFilter,
        ReadType, Regex, RegexEngine, RegexFlag, RegionAnswer, RegionInfo, RegionScanMetrics,
        RemoteException, ResultScanner, Row, RowOperation, Scan, ScanMetrics, ServerName, ServiceKind,
        SingleColumnValueFilter, SystemEnvironment, Table, TableDescriptor, TableName, TableRegion,
        TableState, TcpConnector, TimeRange, Writer, WriterOptions, parse_bytes_binary,
    };
    #[cfg(feature = "kerberos")]
    #[cfg_attr(docsrs, doc(cfg(feature = "kerberos")))]
    pub use hbase_client::{
        AuthenticatedUser, DelegationToken, KdcClock, Kerberos, Protection, TicketSource, TokenFile,
        TokenFileFormat,
    };
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub use hbase_client::{TlsOptions, TlsVersion};
}

pub use error::{ClientError, ClientErrorKind, Error, ErrorKind, Result};
pub use java_layout::{DEFAULT_REGIONS, JAVA_REGIONS, Level};
pub use partition::{Partition, PartitionRule};
pub use table_descriptor::{TableDescriptorExt, usable_descriptor};
pub use txn::{
    Batch, Committed, CrossPartitions, CrossTransaction, ExplainedGroup, Explanation, FailedCondition,
    GroupOutcome, OpenOptions, Operation, Outcome, PartitionedTable, Recorded, Rejection, Settled, Snapshot,
    SnapshotOptions, Transaction, TransactionId, Unsettled, UpdateOptions, UpdateView, Updated,
    honours_conditions,
};
