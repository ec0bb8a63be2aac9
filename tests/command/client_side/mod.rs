//! What the command does with the answers of servers: its output, its waits, its retries.
//!
//! The suite shows how servers answer, so `make test` runs these tests on the fake cluster only.

pub(crate) mod barriers;
pub(crate) mod coordination;
pub(crate) mod evictions;
pub(crate) mod import;
pub(crate) mod latches;
pub(crate) mod load;
pub(crate) mod locks;
pub(crate) mod manual;
pub(crate) mod profiles;
pub(crate) mod rejects;
pub(crate) mod rows;
pub(crate) mod status;
mod top;
pub(crate) mod values;
pub(crate) mod waiting;
pub(crate) mod watching;
