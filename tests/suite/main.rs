//! The library against a real HBase, by topic. `HBASE_TXN_TEST_STANDALONE` names a local cluster;
//! `make test` boots one. A peer of this suite (`peer`) tests what a real server cannot be made to
//! do.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod admission;
mod after_write;
mod atomicity;
mod bad_input;
mod barriers;
mod batches;
mod bulk;
mod changes;
mod check_and_mutate;
mod client;
mod compression;
mod concurrency;
mod conditions;
mod connections;
mod counters;
mod deletes;
mod dropped;
mod dropped_latches;
mod dropped_locks;
mod durability;
mod elections;
mod endpoint_ranges;
mod evictions;
mod expiry;
mod families;
mod filtered_scans;
mod filters;
mod filters_java;
mod get_many;
mod java_layout;
mod large_scans;
mod latch_expiry;
mod latch_java;
mod latch_promises;
mod latch_waiting;
mod latches;
mod latches_in_partitions;
mod lock_abandoned;
mod lock_calls;
mod lock_clocks;
mod lock_fairness;
mod lock_java;
mod lock_layout;
mod lock_leases;
mod lock_promises;
mod lock_resume;
mod lock_resurrection;
mod lock_runtimes;
mod lock_sets;
mod lock_watch;
mod locks;
mod locks_in_partitions;
mod maintenance;
mod namespaces;
mod peer;
mod provision;
#[path = "../proxy/mod.rs"]
#[allow(dead_code, reason = "what the chaos suite needs of it, too")]
mod proxy;
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
