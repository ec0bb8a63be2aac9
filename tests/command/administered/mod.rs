//! Commands that need servers with `hbase.security.authorization` and quotas. Other tests do not run on such clusters.

mod permissions;
mod quotas;
