//! Region boundaries that are put where they belong.
//!
//! | file | contents |
//! |---|---|
//! | `plan` | which boundaries cut a partition, and what removes them; no I/O |
//! | `run` | [`Repair`]: merges and splits, one after the other |
//!
//! Nothing is remembered between steps: each is planned on the boundaries that are there. So a
//! repair that is stopped is begun again, and what others split or merge meanwhile is no harm.

mod plan;
mod run;

pub use plan::RepairStep;
pub use run::{Repair, Repaired};
