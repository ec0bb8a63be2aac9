//! Moves region boundaries out of partitions.
//!
//! | file | contents |
//! |---|---|
//! | `plan` | the boundaries that cut a partition, and the steps that remove them; no I/O |
//! | `preflight` | what must hold before a step |
//! | `run` | [`Repair`]: merges and splits, one after the other |
//!
//! No state is kept between steps: each step is planned from the current boundaries. So an
//! interrupted repair can be started again, and splits and merges by others meanwhile do no harm.

mod plan;
mod preflight;
mod run;

pub use plan::RepairStep;
pub use run::{Repair, Repaired};
