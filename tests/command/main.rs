//! The command, run as users and scripts run it: arguments, exit statuses, JSON.
//!
//! Most tests need a cluster: `HBASE_TXN_TEST_STANDALONE` names a local one, or is `fake`. With
//! `HBASE_TXN_TEST_LONG` set the load has ten times as many rows.

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

mod administration;
mod apply;
mod barriers;
mod changes;
mod checks;
mod connecting;
mod coordination;
mod evictions;
mod export;
mod exports;
mod harness;
mod hostile;
mod import;
mod latches;
mod load;
mod lock_run;
mod lock_tables;
mod locks;
mod manual;
mod permissions;
mod pipes;
mod profiles;
mod provision;
mod quotas;
mod records;
mod rejects;
mod rows;
mod skew;
mod status;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod transfers;
mod values;
mod waiting;
mod watching;
