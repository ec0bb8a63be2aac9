//! Many rows, one partition, all or nothing.
//!
//! | file | what |
//! |---|---|
//! | `partitioned_table` | [`PartitionedTable`]: a table whose rule, endpoint, boundaries and durability were proven |
//! | `transaction` | [`Transaction`]: mutations of one partition |
//! | `batch` | [`Batch`]: any rows, grouped by partition; one transaction each |
//! | `plan` | what a group of mutations is, and why one may not be sent; no I/O |
//! | `commit` | sends a group |
//! | `outcome` | [`Outcome`]: committed, refused, failed, unknown |
//! | `rule_watch` | notices when the table's rule changes under an open client |
//!
//! # The promise
//!
//! The mutations of one transaction are applied together or not at all, and no reader that scans the region sees
//! half of them. What can't be so is refused before it is sent. When the server's answer is lost the outcome is
//! [`Unknown`](Outcome::Unknown), and nothing is sent again.
//!
//! # What it does not promise
//!
//! A transaction lives in one region of one cluster: groups of a [`Batch`] are atomic each for itself, and a
//! replica cluster may show half of one. Several *gets* may see different states; one scan of the partition does
//! not. There is no isolation between two transactions beyond their order.
//!
//! Timestamps decide what is seen, and the server stamps with its own clock, in milliseconds. A put is hidden by what was
//! stamped later (a clock that went back, a client that stamps ahead) and by a delete of the same millisecond: a
//! transaction that deletes a cell, and another one right behind it that puts it, may leave nothing. HBase's
//! `NEW_VERSION_BEHAVIOR` on the family cures the latter; waiting a millisecond does as well.

mod batch;
mod commit;
mod outcome;
mod partitioned_table;
mod plan;
mod rule_watch;
mod transaction;

pub use batch::Batch;
pub use outcome::{Committed, GroupOutcome, Outcome};
pub use partitioned_table::{OpenOptions, PartitionedTable};
pub use plan::{ExplainedGroup, Explanation};
pub use transaction::Transaction;
