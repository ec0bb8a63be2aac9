//! The command, run as users and scripts run it: arguments, exit statuses, JSON.
//!
//! Most tests need an HBase: `HBASE_TXN_TEST_STANDALONE` names a local cluster, which `make test`
//! boots. With `HBASE_TXN_TEST_LONG` set the load has ten times as many rows.

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

mod apply;
mod barriers;
mod checks;
mod connecting;
mod coordination;
mod evictions;
#[path = "../support/forwarder.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod forwarder;
mod harness;
mod latches;
mod load;
mod lock_run;
mod lock_tables;
mod locks;
mod pipes;
mod provision;
mod records;
mod rows;
mod skew;
mod tables;
