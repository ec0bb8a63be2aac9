//! Bad input is rejected with an error that names the fault, before anything is sent where that is
//! possible, and always within the deadline.

mod addresses;
mod coordination;
mod latches;
mod locks;
mod mutations;
mod partitions;
mod stale_map;
mod tables;
