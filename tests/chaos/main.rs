//! The client against everything that moves, breaks, lies and dies.
//!
//! Needs a local cluster with three region servers, whose *name* is in
//! `HBASE_TXN_TEST_DISTRIBUTED`: servers are killed and regions moved, so no other cluster will do.
//! Each test prints its seed; `CHAOS_SEED` sets it. `CHAOS_ROUNDS` is how many times the short form
//! is run: 1 unless set, 10 where `HBASE_TXN_TEST_LONG` is. `CHAOS_COMMITS` is how many
//! transactions `lost_answers` has; what became of them is kept in `target/chaos` when it fails.
//! `CHAOS_CYCLES` is how often the spinning owners of `locks` acquire one: 50,000 times in the
//! short form, 1,000,000 in the long; those of `coordination`: 1,500 and 200,000 times; how often
//! `latches` are counted down or arrived at: 3,000 and 100,000 times; and how many generations of
//! `barriers` open: 60 and 10,000.
//!
//! What a test claims is checked by code: every commit's outcome is recorded, and compared with
//! what a scan of the whole table finds afterwards (`history`).

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

mod audit;
mod barriers;
mod cancel;
mod cluster;
mod coordination;
mod corners;
mod fault_proxy;
mod history;
mod killed_server;
mod latches;
mod leaks;
mod locks;
mod lost_answers;
mod moving_regions;
mod provision;
#[path = "../proxy/mod.rs"]
#[allow(dead_code, reason = "what the suite needs of it, too")]
mod proxy;
mod records;
mod regions;
mod repair;
mod rolling_restart;
mod serialisable;
mod settings;
mod snapshots;
mod workload;
