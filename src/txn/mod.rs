//! Atomic transactions over the rows of one partition.
//!
//! | file | what |
//! |---|---|
//! | `partitioned_table` | [`PartitionedTable`]: the handle of an open table |
//! | `open` | [`OpenOptions`]: proves that transactions are possible on a table |
//! | `transaction` `operation` | [`Transaction`]: mutations and conditions of one partition |
//! | `batch` | [`Batch`]: any rows, grouped by partition; one transaction each |
//! | `update` | reads, changes and commits; repeats after a conflict |
//! | `snapshot` | a partition at one point in time |
//! | `commit` | the committer: plans a group, and sends it until it has an outcome |
//! | `cross` | [`CrossTransaction`]: transactions across partitions |
//! | `outcome` | [`Outcome`]: committed, rejected, invalid, aborted, unknown |
//! | `record` | the record of a transaction, from which its outcome is known |
//! | `partition_call` | the attempts of a call to the region of a partition, each after all that it relies on is proven |
//! | `proof` | proves what a call relies on: the table's rule, the servers' capabilities and clocks |
//! | `reserved_rows` | the rows that this layer keeps in a partition; no I/O |
//! | `part` | additions of higher layers to a transaction |
//!
//! # Guarantees
//!
//! The mutations of one transaction are applied together or not at all, and only if all its
//! conditions hold; a reader that scans the region never sees half of them. A transaction that
//! can't be atomic is refused before it is sent. If the server's answer is lost, the outcome is
//! [`Unknown`](Outcome::Unknown). A transaction with a record is then sent again, is still applied
//! once, and can be [settled](Unsettled::settle).
//!
//! # Limits of the guarantees
//!
//! A transaction lives in one region of one cluster, unless it is a [`CrossTransaction`]: each group of a
//! [`Batch`] is atomic on its own, and a replica cluster may show half of one. Several *gets* may see different states; one
//! [snapshot](PartitionedTable::snapshot) does not. Two transactions are isolated only by their
//! order and their conditions.
//!
//! Timestamps decide which cell is visible. What a transaction commits on a table with a record family
//! is visible to every read that begins later, until another write or delete of the cell commits. Plain
//! writes can break this: a delete hides a put of the same millisecond, and a cell that a client
//! stamps ahead hides a blind put; see [`Transaction::guard_timestamps`].

mod batch;
mod commit;
mod cross;
mod open;
mod operation;
mod outcome;
mod part;
mod partition_call;
mod partitioned_table;
mod proof;
mod record;
mod reserved_rows;
mod snapshot;
mod transaction;
mod update;

pub use batch::Batch;
pub use commit::plan::{ExplainedGroup, Explanation};
pub use cross::{CrossPartitions, CrossTransaction};
pub use open::OpenOptions;
pub use operation::Operation;
pub use outcome::{Committed, FailedCondition, GroupOutcome, Outcome, Rejection};
pub(crate) use part::{Changes, Part};
pub use partitioned_table::PartitionedTable;
pub use proof::probe::honours_conditions;
pub use record::TransactionId;
pub use record::settle::{Recorded, Settled, Unsettled};
pub use snapshot::{Snapshot, SnapshotOptions};
pub use transaction::Transaction;
pub use update::{UpdateOptions, UpdateView, Updated};
