//! Input that the client rejects with an error that names the fault, before a call where that is possible.

mod coordination;
mod latches;
mod locks;
mod mutations;
mod partitions;
mod stale_map;
