//! Histories of transactions, and whether they are serialisable.
//!
//! | file | what |
//! |---|---|
//! | `history` | the reads, writes and outcomes of transactions |
//! | `checker` | checks that a history is serialisable; no I/O |
//! | `recorder` | reads and changes a partition, and records both |
//! | `shapes` | the kinds of transactions |

pub(crate) mod checker;
pub(crate) mod history;
pub(crate) mod recorder;
pub(crate) mod shapes;

/// The column of all lists.
const FAMILY: &str = "f";
pub(crate) const QUALIFIER: &str = "q";
