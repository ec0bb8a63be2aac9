//! Tables as an operator wants them: planned from files, made so, audited, looked at, repaired.
//!
//! | folder | what |
//! |---|---|
//! | `audit` | [`audit_table`], [`audit_cluster`]: what would stop a transaction, a lock or a latch, and what mends it |

mod audit;

pub use audit::{ClusterAudit, Finding, Grade, audit_cluster, audit_table};
