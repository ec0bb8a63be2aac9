//! The command, run as users and scripts run it: arguments, exit statuses, JSON.
//!
//! Most tests need a cluster: `HBASE_TXN_TEST_STANDALONE` names a local one, or is `fake`. What the
//! command does with answers is in `client_side`, which `make test` runs on the fake cluster only;
//! `administered` needs a cluster with permissions and quotas. A test that the fake cluster cannot
//! serve is ignored there, with what it needs as the reason. With
//! `HBASE_TXN_TEST_LONG` set the load has ten times as many rows.

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

mod administered;
mod administration;
mod apply;
mod changes;
mod checks;
mod client_side;
mod connecting;
mod export;
mod exports;
mod harness;
mod hostile;
mod latches;
mod lock_run;
mod lock_tables;
mod pipes;
mod provision;
mod records;
mod skew;
use hbase_test_support as support;
mod tables;
mod transfers;
