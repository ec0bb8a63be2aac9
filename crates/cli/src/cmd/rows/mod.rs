//! `hbase-txn get`, `scan`, `put`, `delete`: enough to look and to script.

mod read;
mod write;

pub(crate) use read::{Get, Scan};
pub(crate) use write::{Delete, Put};
