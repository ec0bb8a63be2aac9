//! Many rows, one partition, all or nothing.
//!
//! | file | what |
//! |---|---|
//! | `partitioned_table` | [`PartitionedTable`]: a table whose rule, endpoint, boundaries and durability were proven |
//! | `transaction` | [`Transaction`]: mutations and conditions of one partition |
//! | `batch` | [`Batch`]: any rows, grouped by partition; one transaction each |
//! | `plan` | what a group of mutations is, and why one may not be sent; no I/O |
//! | `sequence` | operations of one cell, folded into one that means the same; timestamps; no I/O |
//! | `record` `digest` | what a transaction leaves behind, so that its outcome is known; no I/O |
//! | `commit` | sends a group, until it has an outcome |
//! | `gate` `rule_watch` `servers` `probe` | what must be true before a call goes to a region, and how it is asked |
//! | `admission` `group_commit` | one call at a time for each partition, and several transactions in one |
//! | `settle` | finds out how a transaction ended, by its record |
//! | `without_endpoint` | transactions by an atomic `Multi` |
//! | `snapshot` `read` | reads at one moment: for users, and for commits |
//! | `update` `partition_version` | read, change, commit, again on conflict |
//! | `part` | what a layer above makes part of a transaction |
//! | `reserved` | where in a partition layers above keep their rows |
//! | `outcome` | [`Outcome`]: committed, rejected, refused, failed, unknown |
//!
//! # The promise
//!
//! The mutations of one transaction are applied together or not at all, and only if all its conditions hold; no reader that
//! scans the region sees half of them. What can't be so is refused before it is sent. When the server's answer is lost the
//! outcome is [`Unknown`](Outcome::Unknown); a transaction with a record is sent again, is applied once all the same, and can
//! be [settled](Unsettled::settle).
//!
//! # What it does not promise
//!
//! A transaction lives in one region of one cluster: groups of a [`Batch`] are atomic each for itself, and a
//! replica cluster may show half of one. Several *gets* may see different states; one
//! [snapshot](PartitionedTable::snapshot) does not. There is no isolation between two transactions beyond their order and
//! their conditions.
//!
//! Timestamps decide what is seen, and the server stamps with its own clock, in milliseconds. A put is hidden by what was
//! stamped later (a clock that went back, a client that stamps ahead; see [`Transaction::guard_timestamps`]) and by a delete
//! of the same millisecond: a transaction that deletes a cell, and another one right behind it that puts it, may leave
//! nothing. Guarded timestamps cure that among themselves; HBase's `NEW_VERSION_BEHAVIOR` on the family cures it altogether.

mod admission;
mod batch;
mod commit;
mod digest;
mod gate;
mod group_commit;
mod outcome;
mod part;
mod partition_version;
mod partitioned_table;
mod plan;
pub(crate) mod probe;
mod read;
mod record;
mod reserved;
mod rule_watch;
mod sequence;
mod servers;
mod settle;
mod snapshot;
mod transaction;
mod update;
mod without_endpoint;

pub use batch::Batch;
pub use outcome::{Committed, FailedCondition, GroupOutcome, Outcome, Rejection};
pub(crate) use part::{Changes, Part};
pub use partitioned_table::{OpenOptions, PartitionedTable};
pub use plan::{ExplainedGroup, Explanation};
pub use record::TransactionId;
pub use settle::{Recorded, Settled, Unsettled};
pub use snapshot::{Snapshot, SnapshotOptions};
pub use transaction::Transaction;
pub use update::{UpdateOptions, UpdateView, Updated};
