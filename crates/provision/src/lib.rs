//! Tools for operators of HBase tables: plan and apply files, audit, measure, repair.
//!
//! | module | contents |
//! |---|---|
//! | `file` | [`TableFile`]: a table as a file describes it |
//! | `alteration` | [`TableAlteration`]: changes of single settings of a table |
//! | `plan` | [`Plan`]: the changes that turn the table on a cluster into the wanted one; [`export_table`] |
//! | `apply` | [`Plan::apply`]: applies and verifies the changes, step by step |
//! | `audit` | [`audit_table`], [`audit_cluster`]: problems with transactions, locks and latches, and their fixes |
//! | `repair` | [`Repair`]: moves region boundaries out of partitions |
//! | `reopen` | [`reopen_table`]: closes and opens the regions of a table |
//! | `skew` | [`Skew`]: the distribution of rows over partitions and regions |
//! | `attribute` | the names and defaults of HBase's attributes |
//! | `table_lock` | the lock that keeps two processes from changing one table at the same time |
//! | `probe` `giant` | queries for the endpoint; regions that HBase should have split |
//! | `command` | commands of this toolkit, for findings |

mod alteration;
mod apply;
mod attribute;
mod audit;
mod command;
mod file;
mod giant;
mod plan;
mod probe;
mod reopen;
mod repair;
mod skew;
mod table_lock;

pub use alteration::TableAlteration;
pub use apply::{Applied, ApplyStep, ApplyWatcher};
pub use audit::{ClusterAudit, Finding, Severity, audit_cluster, audit_table};
pub use file::{TableFile, TableKind};
pub use plan::{Change, ChangeKind, ExportedTable, Plan, PlanNote, Refusal, export_table};
pub use reopen::reopen_table;
pub use repair::{Repair, RepairStep, Repaired};
pub use skew::{
    Amount, NextSplit, PartitionSize, RegionSkew, Sampling, SizeBucket, Skew, SkewProgress, SkewReport,
    SplitPoint,
};
