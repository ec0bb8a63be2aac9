//! What is not as transactions, locks and latches need it.
//!
//! | file | what |
//! |---|---|
//! | `finding` | what an audit finds, and how it is told |
//! | `table` | everything that would stop a transaction on a table |
//! | `lock_table` | everything that would stop a lock in one, or let it down |
//! | `latch_table` | everything that would let a latch in one down |
//! | `family` | settings of a family, as these two read them |

mod family;
mod finding;
mod latch_table;
mod lock_table;
mod table;

pub use finding::{Finding, Grade};
pub use table::audit_table;
