//! A native asynchronous client for Apache HBase, over HBase's own RPC: no JVM, no gateway.
//!
//! | type | purpose |
//! |---|---|
//! | [`Connection`] | a client of one cluster; everything else is created from it |
//! | [`Table`] | gets, puts, deletes, increments, appends, conditional changes, calls of endpoints |
//! | [`ResultScanner`] | rows in order, over all regions |
//! | [`Config`], [`ConnectionUri`], [`ClusterAddress`] | the address of the cluster, and all timeouts |
//! | [`Connector`] | the transport to servers, for tunnels and for tests |
//! | [`Environment`] | clocks and random numbers, for tests |
//! | [`Error`], [`ErrorKind`] | the failures of calls, with instructions for the user |
//!
//! The administration of tables, regions and servers is the crate `hbase-admin`.
//!
//! Every future ends within its deadline (one minute, unless [`Config`] says otherwise), and may be
//! dropped at any await point.
//!
//! # Example
//!
//! ```
//! use hbase_client::{Connection, Get, Put};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let hbase = hbase_fake::FakeHBase::builder().listen().await?;
//! # hbase.create_table("orders", &["f"], &[]);
//! # let uri = hbase.uri();
//! let connection = Connection::connect(&uri).await?; // for example hbase+zk://127.0.0.1:2181/hbase
//! let orders = connection.table("orders")?;
//! orders.put(Put::new("xxxabc").cell("f", "state", "new")).await?;
//! let row = orders.get(Get::new("xxxabc")).await?;
//! assert!(row.is_some());
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `zookeeper` (default) | clusters named by their ZooKeeper quorum, `hbase+zk://…` |
//! | `tls` | TLS to the servers and to ZooKeeper, with trust and key stores in PEM, JKS and PKCS12 |
//! | `compression` | compressed cells between client and servers: zlib, gzip, Snappy, LZ4, Zstandard |
//! | `kerberos` | clusters, and ZooKeeper quorums, that authenticate clients by Kerberos (`Config::with_kerberos`) or delegation tokens (`Config::with_delegation_tokens`) |
//! | `uuid` | UUIDs as the values of cells |
//! | `metrics` | metrics, for the recorder of the crate `metrics` |
//! | `spans` | a `tracing` span for each operation, and the trace context in requests |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod cluster;
mod config;
mod environment;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod low_level;
mod model;
mod observe;
mod rpc;
mod wire;

pub use client::{
    AdminChange, AuthenticatedUser, ChangeLog, CheckAndMutateResult, Connection, ConnectionBuilder,
    EndpointCall, FailedWrite, IngestEvent, ParallelScanner, RegionAnswer, RegionScanMetrics, ResultScanner,
    RowOperation, ScanMetrics, Table, Writer, WriterOptions,
};
pub use config::{
    ClusterAddress, Config, ConnectionUri, HostPort, MappedAddress, MetaReplicaMode, TokenFile,
};
pub use environment::{Environment, SystemEnvironment};
pub use error::{
    Effect, Error, ErrorKind, Failure, FailureKind, Printable, RemoteException, Result, WrapsClient,
};
#[doc(inline)]
pub use hbase_security::{
    DelegationToken, KdcClock, Kerberos, Protection, TicketSource, TlsOptions, TlsVersion, TokenFileFormat,
};
pub use model::{
    Append, BytesBinary, Cell, CellKind, Comparator, Comparison, Condition, Consistency, Delete,
    DependentColumnFilter, Durability, FamilyDescriptor, Filter, FromValue, Get, Increment, IntoBytes,
    IntoTableName, IntoValue, IsolationLevel, Mutation, Permission, Put, QueryMetrics, ReadComparator,
    ReadFilter, ReadType, Regex, RegexEngine, RegexFlag, RegionInfo, Row, Scan, ServerName,
    SingleColumnValueFilter, TableDescriptor, TableName, TableRegion, TableState, TimeRange,
    parse_bytes_binary,
};
pub use rpc::{Connector, DialTarget, Io, ServiceKind, TcpConnector};
pub use wire::compression::Compression;
