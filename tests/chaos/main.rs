//! The client under moving regions, broken connections, wrong answers and killed servers.
//!
//! Needs local clusters with three region servers each, whose *names* are in
//! `HBASE_TXN_TEST_DISTRIBUTED`, separated by commas: servers are killed and regions moved, so no
//! other cluster is suitable. As many tests run concurrently as there are clusters.
//!
//! Each test prints its seed; `CHAOS_SEED` sets it. `CHAOS_ROUNDS` is the number of runs of the short
//! form: 1 unless set, 10 with `HBASE_TXN_TEST_LONG`. `CHAOS_COMMITS` is the number of transactions of
//! `lost_answers`; their outcomes are kept in `target/chaos` if it fails. `CHAOS_CYCLES` is the number
//! of acquisitions by the spinning owners of `locks` (50,000 in the short form, 1,000,000 in the long)
//! and of `coordination` (1,500 and 200,000), of count-downs and arrivals of `latches` (3,000 and
//! 100,000), and of generations of `barriers` (60 and 10,000). `CHAOS_OPERATIONS` is the number of
//! operations of `histories` (1,600 and 200,000).
//!
//! The short form in `make test` leaves the modules `simulated` to the simulation, which has the same
//! faults.
//!
//! Code checks the claims of a test: every commit's outcome is recorded, and compared with a later
//! scan of the whole table (`history`).

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

mod audit;
mod barriers;
mod cancel;
use hbase_test_support::clock_shift;
mod cluster;
mod coordination;
mod corners;
mod fault_proxy;
mod histories;
mod history;
#[path = "../holds/mod.rs"]
mod holds;
mod killed_master;
mod killed_server;
mod latches;
mod leaks;
#[allow(dead_code, reason = "the simulation uses the rest")]
#[path = "../linearizable/mod.rs"]
mod linearizable;
mod locks;
mod lost_answers;
mod meta_replicas;
mod moving_regions;
mod operators;
mod provision;
use hbase_test_support::proxy;
mod records;
mod region_servers;
mod regions;
mod repair;
mod replicas;
mod rolling_restart;
#[path = "../serialisability/mod.rs"]
mod serialisability;
mod serialisable;
mod settings;
mod snapshots;
mod workload;
