//! The commands, one file each.

mod audit;
pub(crate) mod coordination;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod latch;
pub(crate) mod lock;
mod missing_table;
pub(crate) mod provision;
pub(crate) mod rows;
pub(crate) mod switch;
pub(crate) mod table;
pub(crate) mod txn;
