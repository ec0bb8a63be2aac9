//! Reads: gets, scans, and what flushes and compactions keep. The parts are named by HBase's
//! classes, whose order of steps decides what a filter sees and where a limit cuts.
//!
//! | file | what |
//! |---|---|
//! | `query` | what a read asks of each row |
//! | `matcher`, `step` | the step behind each stored cell |
//! | `columns`, `deletes`, `by_sequence` | versions and markers |
//! | `store_scanner` | the cells of one family |
//! | `region_scanner` | the results of a region |
//! | `progress` | limits, and how far a read has come |
//! | `rewrite` | what flushes and compactions keep |

mod by_sequence;
mod columns;
mod deletes;
mod matcher;
mod progress;
mod query;
mod region_scanner;
mod rewrite;
mod step;
mod store_scanner;

pub(super) use self::{
    progress::{Limits, Progress, Scope},
    query::{Parts, Query, Rows, time_range},
    region_scanner::RegionScanner,
    rewrite::kept,
};
