//! Transactions across partitions: atomic and isolated, with a known outcome.
//!
//! The transaction *holds* each partition but the first one, *home*, by an intent; commits at home in one
//! call, which also keeps what is to be written in the others; and then applies it there. A partition that
//! is held refuses other transactions, which find the decision at home and free it themselves.
//!
//! | file | what |
//! |---|---|
//! | `intent` | the cells by which a partition is held; no I/O |
//! | `redo` | what is to be written in a partition, kept at home; no I/O |
//! | `overlay` | lays the redo over the cells of a snapshot; no I/O |
//! | `part` | the steps as parts of transactions of one partition; no I/O |
//! | `resolve` | frees partitions, by the decision at home |
//! | `attempt` | one attempt: hold, decide, apply |
//! | `transaction` | [`CrossTransaction`] |
//! | `partitions` | [`CrossPartitions`]: snapshots and updates |

mod attempt;
pub(super) mod intent;
pub(super) mod overlay;
mod part;
mod partitions;
mod redo;
pub(super) mod resolve;
mod transaction;

pub use partitions::CrossPartitions;
pub use transaction::CrossTransaction;

#[cfg(test)]
mod tests;
