//! The commands, one file or folder each.

mod audit;
mod confirm;
pub(crate) mod coordination;
pub(crate) mod dev;
pub(crate) mod doctor;
mod input_lines;
mod json_line;
pub(crate) mod label;
pub(crate) mod latch;
pub(crate) mod lock;
pub(crate) mod manual;
mod missing_table;
pub(crate) mod namespace;
pub(crate) mod permissions;
pub(crate) mod provision;
pub(crate) mod quota;
pub(crate) mod region_server;
pub(crate) mod replication_peer;
pub(crate) mod rows;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod switch;
pub(crate) mod table;
pub(crate) mod token;
pub(crate) mod transfer;
pub(crate) mod txn;
mod whole_file;
