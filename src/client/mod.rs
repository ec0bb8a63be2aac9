//! HBase as a client sees it: connections, tables, scans, endpoints, and the administration of tables.
//!
//! | file | what |
//! |---|---|
//! | `connection` | [`Connection`]: a client of one cluster; everything else is made from it |
//! | `table` | [`Table`]: get, put, delete, scan, calls of endpoints |
//! | `scanner` | [`ResultScanner`]: rows in order, over all regions |
//! | `endpoint` | calls of coprocessor endpoints, by row |
//! | `admin` | [`Admin`]: tables, regions, the cluster |
//! | `procedure` | waiting for what a master does |

mod admin;
mod connection;
mod endpoint;
mod procedure;
mod scanner;
mod table;

pub use admin::{Admin, ClusterInfo, TableRegion};
pub use connection::{Connection, ConnectionBuilder};
pub use endpoint::EndpointCall;
pub(crate) use endpoint::{RegionGuard, ServingRegion, Verdict};
pub use scanner::ResultScanner;
pub use table::Table;
