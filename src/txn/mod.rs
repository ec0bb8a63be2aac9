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
//! | `commit` | the committer: sends a group until it has an outcome |
//! | `without_endpoint` | commits by an atomic `Multi` |
//! | `admission` | admits the writers of each partition |
//! | `group_commit` `endpoint_request` | several transactions of a region in one call |
//! | `prepared` | a checked and folded group, ready to send; no I/O |
//! | `plan` | the contents of a group and the checks that may refuse it; no I/O |
//! | `sequence` | folds the operations of each cell into one equivalent operation; timestamps; no I/O |
//! | `read` | the reads of a commit: the rows of its conditions, timestamps |
//! | `outcome` | [`Outcome`]: committed, rejected, invalid, aborted, unknown |
//! | `settle` `settlements` | determines the outcome of a transaction from its record |
//! | `record` `digest` | the record of a transaction, from which its outcome is known; no I/O |
//! | `partition_call` | the attempts of a call to the region of a partition, each after all that it relies on is proven |
//! | `proof` `probe` | proves what a call relies on, with calls that change no user data |
//! | `rule_reading` `rule_watch` | rereads the partition rule as it ages |
//! | `region_floor` | the timestamps that a server's clock must have passed before a call |
//! | `proven_table` `terms` `servers` | a table, its properties, and the proven capabilities of its servers |
//! | `reserved_rows` | the rows that this layer keeps in a partition; no I/O |
//! | `part` `partition_version` `deletions` | additions of higher layers to a transaction, the version cell, the deletion mark |
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
//! A transaction lives in one region of one cluster: each group of a [`Batch`] is atomic on its
//! own, and a replica cluster may show half of one. Several *gets* may see different states; one
//! [snapshot](PartitionedTable::snapshot) does not. Two transactions are isolated only by their
//! order and their conditions.
//!
//! Timestamps decide which cell is visible. What a transaction commits on a table with a record family
//! is visible to every read that begins later, until another write or delete of the cell commits. Plain
//! writes can break this: a delete hides a put of the same millisecond, and a cell that a client
//! stamps ahead hides a blind put; see [`Transaction::guard_timestamps`].

mod admission;
mod batch;
mod commit;
mod deletions;
mod digest;
mod endpoint_request;
mod group_commit;
mod open;
mod operation;
mod outcome;
mod part;
mod partition_call;
mod partition_version;
mod partitioned_table;
mod plan;
mod prepared;
mod probe;
mod proof;
mod proven_table;
mod read;
mod record;
mod region_floor;
mod reserved_rows;
mod rule_reading;
mod rule_watch;
mod sequence;
mod servers;
mod settle;
mod settlements;
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
