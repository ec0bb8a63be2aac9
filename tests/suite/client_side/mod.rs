//! What the client decides alone: its waits for leases, dropped calls, failed connections, and its checks before a call.
//!
//! No server shows more of it than another, so `make test` runs these tests on the fake cluster only, and
//! `make chaos` on a real one too.

mod admission;
mod bad_input;
mod barriers;
mod batches;
pub(crate) mod dropped;
mod dropped_latches;
mod dropped_locks;
mod elections;
mod evictions;
mod forgotten_results;
mod latch_expiry;
mod latch_names;
mod latch_promises;
mod latch_waiting;
mod lock_abandoned;
mod lock_callers;
mod lock_calls;
mod lock_fairness;
mod lock_late_attempts;
mod lock_leases;
mod lock_promises;
mod lock_resume;
mod lock_resurrection;
mod lock_runtimes;
mod lock_sets;
mod lock_watch;
mod locks_in_partitions;
mod peer;
mod provision;
