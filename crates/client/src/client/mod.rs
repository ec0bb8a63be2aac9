//! HBase from a client's view: connections, tables, scans, endpoints.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | [`Connection`]: a client of one cluster; everything else is created from it |
//! | `table` | [`Table`]: a handle of a table, and the options of its calls |
//! | `get` | reads of single rows |
//! | `put` | puts and deletes of single rows |
//! | `row_mutations` | several mutations of a row at once, also under a condition |
//! | `dispatch` | operations of one kind on many rows, in few calls to each server |
//! | `get_many` | many gets at once |
//! | `change_many` | many increments and appends at once |
//! | `check_many` | many conditional changes at once |
//! | `batch` | operations of any kind at once |
//! | `bulk` | many puts and deletes at once: [`Writer`], and a list with one result each |
//! | `lanes` | single gets, puts and deletes that share calls |
//! | `flow` | the large calls in flight to a server, and what waits for them |
//! | `calls_in_flight` | the calls to a server, without those that are overdue, and the time that they take |
//! | `counters` | increments and appends |
//! | `scanner` | [`ResultScanner`]: rows in order, of all regions; of several at once; of one as of one moment |
//! | `region_call` | calls of the region of a row, attempt by attempt |
//! | `endpoint` | calls of coprocessor endpoints, by row or region |
//! | `endpoint_range` | the same on all regions of a range of rows |
//! | `multi` | several actions of one region in one call |
//! | `results` | the results in the answer to a call of several actions |
//! | `proof` | proof that a server honours their conditions, once for each start of a server |
//! | `recent_deletes` | rows with a recent delete, whose next put waits |
//! | `server_clocks` | the clocks of servers, and timestamps for writes that may be sent again |
//! | `timeline` | reads that a replica of the region may answer |
//! | `change_log` | [`ChangeLog`]: an audit log of what the administration changes |
//! | `authentication` | the user of a connection, and delegation tokens for it |
//! | `pauses` | pauses between attempts and polls |

mod authentication;
mod batch;
mod bulk;
mod calls_in_flight;
mod change_log;
mod change_many;
mod check_many;
mod connection;
mod counters;
mod dispatch;
mod endpoint;
mod endpoint_range;
mod failed_attempt;
mod flow;
mod get;
mod get_many;
mod lanes;
mod multi;
mod pauses;
mod proof;
mod put;
mod recent_deletes;
mod region_call;
mod results;
mod row_mutations;
mod scanner;
mod server_clocks;
mod table;
mod timeline;

pub use crate::cluster::{CallKind, ServerTarget};
pub use authentication::AuthenticatedUser;
pub use batch::RowOperation;
pub use bulk::{FailedWrite, IngestEvent, Writer, WriterOptions};
pub use calls_in_flight::{CallInFlight, CallsInFlight, Pace};
pub use change_log::{AdminChange, ChangeLog};
pub use connection::{Connection, ConnectionBuilder};
pub use endpoint::EndpointCall;
pub use endpoint_range::RegionAnswer;
pub use failed_attempt::FailedAttempt;
pub use get_many::GetAnswer;
pub use multi::{ActionAnswer, MultiCall, RegionAction};
pub use pauses::Pauses;
pub use region_call::{RegionAttempt, RegionCall};
pub use row_mutations::CheckAndMutateResult;
pub use scanner::{ParallelScanner, RegionScanMetrics, ResultScanner, ScanMetrics};
pub use table::{RowCheck, Table};
