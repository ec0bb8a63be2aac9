//! Many rows, one partition, all or nothing.
//!
//! | file | what |
//! |---|---|
//! | `partitioned_table` | [`PartitionedTable`]: the handle of an open table |
//! | `open` | [`OpenOptions`]: proves that transactions are possible on a table |
//! | `transaction` `operation` | [`Transaction`]: mutations and conditions of one partition |
//! | `batch` | [`Batch`]: any rows, grouped by partition; one transaction each |
//! | `update` | read, change, commit, repeat after a conflict |
//! | `snapshot` | a partition as it is at one moment |
//! | `commit` | the committer: sends a group until it has an outcome |
//! | `without_endpoint` | commits by an atomic `Multi` |
//! | `admission` `group_commit` | one call at a time for each partition, and several transactions in one |
//! | `prepared` | a group that was checked and folded, ready to be sent; no I/O |
//! | `plan` | the contents of a group, and why one may not be sent; no I/O |
//! | `sequence` | operations of one cell, folded into one that means the same; timestamps; no I/O |
//! | `read` | what a commit reads: the rows of its conditions, timestamps |
//! | `outcome` | [`Outcome`]: committed, rejected, invalid, aborted, unknown |
//! | `settle` | finds out how a transaction ended, by its record |
//! | `record` `digest` | what a transaction leaves behind, so that its outcome is known; no I/O |
//! | `gate` | lets a call pass to a region once all that it relies on is proven |
//! | `proof` `probe` | proves what a call relies on, by calls that change nothing |
//! | `rule_reading` `rule_watch` | reads the partition rule again as it ages |
//! | `region_guard` | which region a call may go to |
//! | `proven_table` `terms` `servers` | a table, its properties, and what its servers were proven to do |
//! | `part` `partition_version` | what layers above add to a transaction, and the version cell |
//!
//! # The promise
//!
//! The mutations of one transaction are applied together or not at all, and only if all its
//! conditions hold; no reader that scans the region sees half of them. What can't be so is refused
//! before it is sent. When the server's answer is lost the outcome is
//! [`Unknown`](Outcome::Unknown); a transaction with a record is sent again, is applied once all
//! the same, and can be [settled](Unsettled::settle).
//!
//! # What it does not promise
//!
//! A transaction lives in one region of one cluster: groups of a [`Batch`] are atomic each for
//! itself, and a replica cluster may show half of one. Several *gets* may see different states; one
//! [snapshot](PartitionedTable::snapshot) does not. There is no isolation between two transactions
//! beyond their order and their conditions.
//!
//! Timestamps decide what is seen, and the server stamps with its own clock, in milliseconds. A
//! blind put is hidden by what was stamped later (a clock that went back, a client that stamps
//! ahead; see [`Transaction::guard_timestamps`]; a write to a cell that a condition of the
//! transaction names is not), and any put by a delete of the same millisecond: a transaction that
//! deletes a cell, and another one right behind it that puts it, may leave nothing. Guarded
//! timestamps cure that among themselves; HBase's `NEW_VERSION_BEHAVIOR` on the family cures it
//! altogether.

mod admission;
mod batch;
mod commit;
mod digest;
mod gate;
mod group_commit;
mod open;
mod operation;
mod outcome;
mod part;
mod partition_version;
mod partitioned_table;
mod plan;
mod prepared;
mod probe;
mod proof;
mod proven_table;
mod read;
mod record;
mod region_guard;
mod rule_reading;
mod rule_watch;
mod sequence;
mod servers;
mod settle;
mod snapshot;
mod terms;
mod transaction;
mod update;
mod without_endpoint;

pub use batch::Batch;
pub use open::OpenOptions;
pub use operation::Operation;
pub use outcome::{Committed, FailedCondition, GroupOutcome, Outcome, Rejection};
pub(crate) use part::{Changes, Part};
pub use partitioned_table::PartitionedTable;
pub use plan::{ExplainedGroup, Explanation};
pub use probe::honours_conditions;
pub use record::TransactionId;
pub use settle::{Recorded, Settled, Unsettled};
pub use snapshot::{Snapshot, SnapshotOptions};
pub use transaction::Transaction;
pub use update::{UpdateOptions, UpdateView, Updated};
