//! The library against a cluster, by topic. `HBASE_TXN_TEST_STANDALONE` names a local cluster, or is
//! `fake`; `make test` boots one. What the client decides alone is in `client_side`, which `make test`
//! runs on the fake cluster only. A test that the fake cluster cannot serve is ignored there, with
//! what it needs as the reason: `cargo test --test suite -- --include-ignored` on a real one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use hbase_test_support as support;

mod across;
mod after_write;
mod atomicity;
mod bad_input;
mod bulk;
mod changes;
mod check_and_mutate;
mod check_many;
mod client;
mod client_side;
mod compression;
mod concurrency;
mod conditions;
mod connections;
mod counters;
mod deletes;
mod durability;
mod endpoint_ranges;
mod expiry;
mod families;
mod filtered_scans;
mod filters;
mod get_many;
mod idle_runtimes;
mod java;
mod large_scans;
mod latches;
mod latches_in_partitions;
mod lock_clocks;
mod lock_layout;
mod locks;
mod maintenance;
mod namespaces;
mod provision;
use hbase_test_support::proxy;
mod raw_scans;
mod read_filters;
mod read_options;
mod read_write_locks;
mod records;
mod refused_by_servers;
mod region_changes;
mod registries;
mod repair;
mod required_features;
mod rows;
mod rules;
mod scans;
mod semaphores;
mod sequences;
mod server_proofs;
mod sessions;
mod shared_calls;
mod skew;
mod snapshot_copies;
mod snapshots;
mod table_snapshots;
mod tables;
mod thrift;
mod timestamps;
mod transactions;
mod update_views;
mod updates;
mod values;
mod wide_rows;
mod without_endpoint;
