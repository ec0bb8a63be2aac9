//! HBase as a client sees it: connections, tables, scans, endpoints, and the administration of
//! tables.
//!
//! | file | what |
//! |---|---|
//! | `connection` | [`Connection`]: a client of one cluster; everything else is made from it |
//! | `table` | [`Table`]: get, put, delete, scan, calls of endpoints |
//! | `check_and_mutate` | changes of a row that are made only if something is so there |
//! | `get_many` | many gets at once, with one call for each server |
//! | `counters` | increments and appends |
//! | `scanner` | [`ResultScanner`]: rows in order, over all regions; rows of one region as they were at one moment |
//! | `region_call` | calls of the region that has a row, where a guard lets them pass |
//! | `endpoint` | calls of coprocessor endpoints, by row |
//! | `multi` | several actions of one region in one call |
//! | `proof` | that a server honours their conditions, once for each start of a server |
//! | `admin` | [`Admin`]: tables, regions |
//! | `cluster_status` | what a cluster says of itself: servers, loads, switches, rights |
//! | `maintenance` | flushes and major compactions, which region servers do |
//! | `procedure` | waiting for what a master does |
//! | `pauses` | the pauses of what asks again and again |

mod admin;
mod check_and_mutate;
mod cluster_status;
mod connection;
mod counters;
mod endpoint;
mod get_many;
mod maintenance;
mod multi;
mod pauses;
mod procedure;
mod proof;
mod region_call;
mod scanner;
mod table;

pub use crate::cluster::CallKind;
pub use admin::{Admin, TableRegion};
pub use cluster_status::{ClusterInfo, Permission, RegionInTransition, RegionLoad, ServerLoad};
pub use connection::{Connection, ConnectionBuilder};
pub use endpoint::EndpointCall;
pub use get_many::GetAnswer;
pub use multi::{ActionAnswer, MultiCall, RegionAction};
pub use pauses::Pauses;
pub use region_call::{AnyRegion, RegionGuard, ServingRegion, Verdict};
pub use scanner::AtOnce;
pub use scanner::ResultScanner;
pub use table::Table;
