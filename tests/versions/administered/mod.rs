//! Servers with permissions, quotas, replicas of `hbase:meta`, and the other options of `administered` in `scripts/test`.
//! Other tests do not run on such clusters.

mod family_permissions;
mod meta_replicas;
mod permissions;
mod pushback;
mod quotas;
mod slow_calls;
mod snapshots;
