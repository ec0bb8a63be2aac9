//! The administration of an Apache HBase cluster, over HBase's own RPC: an extension of `hbase-client`.
//!
//! | type | purpose |
//! |---|---|
//! | [`Admin`] | tables, regions, namespaces, snapshots, permissions, labels, quotas, peers, servers |
//! | [`ClusterInfo`], [`ServerLoad`] | the status of the cluster and its servers |
//! | [`EntityLock`] | a lock on the name of a table, which the master holds |
//! | [`ChangeLog`], [`AdminChange`] | an audit log of all changes, which a connection carries |
//! | [`split_keys_between`] | region boundaries at equal distances, for a new table |
//!
//! Every future ends within its deadline, and may be dropped at any await point.
//!
//! # Example
//!
//! ```
//! use hbase_admin::Admin;
//! use hbase_client::{Connection, FamilyDescriptor, TableDescriptor};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let hbase = hbase_fake::FakeHBase::builder().listen().await?;
//! # let uri = hbase.uri();
//! let connection = Connection::connect(&uri).await?; // for example hbase+zk://127.0.0.1:2181/hbase
//! let admin = Admin::new(&connection);
//! let orders = TableDescriptor::new("orders")?.with_family(FamilyDescriptor::new("f"));
//! admin.create_table(&orders, &["m".into()]).await?;
//! assert_eq!(admin.regions("orders").await?.len(), 2);
//! # Ok(()) }
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | `admin` | [`Admin`]: its calls of the master; tables and their regions |
//! | `column_families` `store_file_trackers` `table_schema` | other changes of tables |
//! | `table_procedures` `procedures` `entity_locks` | what the master is doing, and locks that it holds |
//! | `regions` `assignments` `maintenance` | regions; flushes, compactions and split points |
//! | `namespaces` `snapshots` `replication_peers` | the groups, copies and replicas of tables |
//! | `permissions` `visibility_labels` `quotas` `space_quotas` | who may do what, and how much |
//! | `cluster_status` `chores` `servers` `decommission` `slow_calls` | servers, and what they do by themselves |
//! | `change` `logged` | the log of changes |
//! | `procedure` `polling` | waits for the master's procedures, and for other work of servers |

mod admin;
mod assignments;
mod change;
mod chores;
mod cluster_status;
mod column_families;
mod decommission;
mod entity_locks;
mod logged;
pub mod low_level;
mod maintenance;
mod namespace_descriptor;
mod namespaces;
mod permissions;
mod polling;
mod procedure;
mod procedures;
mod quotas;
mod regions;
mod replication_peers;
mod servers;
mod slow_calls;
mod snapshots;
mod space_quotas;
mod split_keys;
mod store_file_trackers;
mod table_procedures;
mod table_schema;
mod visibility_labels;

pub use self::{
    admin::Admin,
    cluster_status::{ClusterInfo, RegionInTransition, RegionLoad, ServerLoad},
    entity_locks::EntityLock,
    namespace_descriptor::NamespaceDescriptor,
    permissions::{PermissionScope, UserPermission},
    procedures::{LockedResource, Procedure, ProcedureLock, ProcedureState},
    quotas::{QuotaScope, QuotaTarget, Throttle, ThrottleInterval, ThrottleSettings, ThrottleType},
    replication_peers::{ReplicationPeer, ReplicationPeerConfig},
    servers::OnlineRegion,
    slow_calls::SlowCall,
    snapshots::{CloneSnapshotOptions, SnapshotDescription, SnapshotKind},
    space_quotas::{SpaceQuota, SpaceQuotaSettings, SpaceViolationPolicy},
    split_keys::split_keys_between,
};
pub use hbase_client::{AdminChange, ChangeLog};
