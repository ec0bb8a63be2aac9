//! `hbase-txn get`, `scan`, `put`, `delete`: access to rows for inspection and scripts.

mod read;
mod write;

pub(crate) use read::{Get, Scan};
pub(in crate::cmd) use read::{Range, RowObject, Selection};
pub(crate) use write::{Delete, Put};
