//! HBase from a client's view: connections, tables, scans, endpoints.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | [`Connection`]: a client of one cluster; everything else is created from it |
//! | `table` | [`Table`]: a handle of a table, and the options of its calls |
//! | `get` | reads of single rows |
//! | `put` | puts and deletes of single rows |
//! | `row_mutations` | several mutations of a row at once, also under a condition |
//! | `dispatch` | operations on many rows, and of many tasks, in few calls to each server: lists, [`Writer`], and single operations that share calls |
//! | `batch` | operations of any kind at once |
//! | `counters` | increments and appends |
//! | `scanner` | [`ResultScanner`]: rows in order, of all regions; of several at once; of one as of one moment |
//! | `region_call` | calls of the region of a row, attempt by attempt |
//! | `endpoint` | calls of coprocessor endpoints, by row or region |
//! | `endpoint_range` | the same on all regions of a range of rows |
//! | `recent_deletes` | rows with a recent delete, whose next put waits |
//! | `server_clocks` | the clocks of servers, and timestamps for writes that may be sent again |
//! | `timeline` | reads that a replica of the region may answer |
//! | `change_log` | [`ChangeLog`]: an audit log of what the administration changes |
//! | `authentication` | the user of a connection, and delegation tokens for it |
//! | `pauses` | pauses between attempts and polls |

mod authentication;
mod batch;
mod change_log;
mod connection;
mod counters;
mod dispatch;
mod endpoint;
mod endpoint_range;
mod get;
mod pauses;
mod put;
mod recent_deletes;
mod region_call;
mod row_mutations;
mod scanner;
mod server_clocks;
mod table;
mod timeline;

pub use crate::cluster::{CallKind, ServerTarget};
pub use authentication::AuthenticatedUser;
pub use batch::RowOperation;
pub use change_log::{AdminChange, ChangeLog};
pub use connection::{Connection, ConnectionBuilder};
pub use dispatch::bulk::{FailedWrite, IngestEvent, Writer, WriterOptions};
pub use dispatch::calls_in_flight::{CallInFlight, CallsInFlight, Pace};
pub use dispatch::{check_many::CheckAnswer, get_many::GetAnswer};
pub use endpoint::EndpointCall;
pub use endpoint_range::RegionAnswer;
pub use pauses::Pauses;
pub use region_call::failed_attempt::FailedAttempt;
pub use region_call::multi::{ActionAnswer, MultiCall, RegionAction};
pub use region_call::{RegionAttempt, RegionCall};
pub use row_mutations::CheckAndMutateResult;
pub use scanner::{ParallelScanner, RegionScanMetrics, ResultScanner, ScanMetrics};
pub use table::{RowCheck, Table};
