//! Tables as an operator wants them: planned from files, made so, audited, looked at, repaired.
//!
//! | folder | what |
//! |---|---|
//! | `file` | [`TableFile`]: a table as a file describes it |
//! | `alteration` | [`TableAlteration`]: single things that are changed about a table |
//! | `plan` | [`Plan`]: what stands between a cluster and the table that is wanted |
//! | `apply` | [`Plan::apply`], [`alter_table`]: makes it so, step by step, and proves it |
//! | `audit` | [`audit_table`], [`audit_cluster`]: what would stop a transaction, a lock or a latch, and what mends it |
//! | `repair` | [`Repair`]: region boundaries that are put where they belong |
//! | `skew` | [`Skew`]: how rows are spread over partitions and regions |
//! | `attribute` | what HBase's attributes are called, and what they are where nobody set them |
//! | `probe` `giant` | asks regions for the endpoint; regions that HBase should have split |
//! | `command` | commands of this toolkit, as what it finds names them |

mod alteration;
mod apply;
mod attribute;
mod audit;
mod command;
mod file;
mod giant;
mod plan;
mod probe;
mod repair;
mod skew;

pub use alteration::TableAlteration;
pub use apply::{Applied, ApplyStep, ApplyWatcher, alter_table};
pub use audit::{ClusterAudit, Finding, Grade, audit_cluster, audit_table};
pub use file::{TableFile, TableKind};
pub use plan::{Change, ChangeKind, Plan, PlanNote, Refusal};
pub use repair::{Repair, RepairStep, Repaired};
pub use skew::{
    Amount, NextSplit, PartitionSize, RegionSkew, Sampling, SizeBucket, Skew, SkewProgress, SkewReport,
    SplitPoint,
};
