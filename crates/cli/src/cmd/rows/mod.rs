//! `hbase-txn get`, `scan`, `put`, `delete`, `increment`, `append`: access to rows for inspection and
//! scripts.

mod counters;
mod read;
mod reserved;
mod write;

pub(crate) use counters::{Append, Increment};
pub(crate) use read::{Get, Scan};
pub(in crate::cmd) use read::{Range, RowObject, Selection, print_count};
pub(crate) use write::{Delete, Put};
