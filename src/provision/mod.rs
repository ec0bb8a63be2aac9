//! Tables as an operator wants them: planned from files, made so, audited, looked at, repaired.
//!
//! | folder | what |
//! |---|---|
//! | `audit` | [`audit_table`]: what would stop a transaction, a lock or a latch on a table, and what mends it |

mod audit;

pub use audit::{Finding, Grade, audit_table};
