//! The Rust examples of the guides, run on a fake cluster.
//!
//! Each file begins with an example as its guide shows it, and a test of it follows. Examples that
//! need a Thrift gateway or a JVM have none, and are only compiled.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "examples that are only compiled")]

mod pages;

mod configuration {
    mod addresses;
    mod tls;
}
mod coordination {
    mod coordinate;
    mod export;
    mod schedule;
    mod serve;
}
mod fake {
    mod first_test;
    mod lost_answer;
    mod simulation;
    mod transaction;
}
mod latches {
    mod gateway;
    mod migrate;
    mod report;
    mod rounds;
}
mod locks {
    mod bill;
    mod create_table;
    mod environment;
    mod gateway;
}
mod migrating {
    mod copy;
}
mod observing {
    mod trace_headers;
}
mod provisioning {
    mod provide;
}
mod readme {
    mod admin;
    mod client;
    mod keyed_lock;
    mod local;
    mod place_order;
}
mod skew {
    mod example;
}
mod transactions {
    mod across;
    mod label;
    mod own_error;
    mod place_order;
    mod release_lock;
    mod settle;
    mod timeout;
    mod update;
    mod values;
}

use hbase_fake::FakeHBase;
use hbase_txn::{
    PartitionRule, PartitionedTable, Result, TableDescriptorExt,
    admin::Admin,
    client::{FamilyDescriptor, TableDescriptor},
    lock::{LockManager, LockManagerOptions},
};

/// Opens a table with partitions of three bytes.
async fn open_orders(hbase: &FakeHBase) -> Result<PartitionedTable> {
    hbase.create_partitioned_table("orders", &["f", "_txn", "_lock"], 3);
    PartitionedTable::open(&hbase.connect().await?, "orders").await
}

/// Opens a lock table.
async fn open_locks(hbase: &FakeHBase) -> Result<LockManager> {
    hbase.create_table("dlm_locks", &["D"], &[]);
    let options = LockManagerOptions::new("billing").farm("fra");
    options.open(&hbase.connect().await?, "dlm_locks").await
}

/// Opens two tables whose transactions may cross partitions, of three bytes.
async fn open_crossing(hbase: &FakeHBase) -> Result<[PartitionedTable; 2]> {
    let connection = hbase.connect().await?;
    let admin = Admin::new(&connection);
    for name in ["users", "names"] {
        let descriptor = TableDescriptor::new(name)?
            .with_family(FamilyDescriptor::new("f"))
            .with_partition_rule(&PartitionRule::prefix_length(3)?)
            .with_multi_row_mutation_endpoint()
            .with_cross_partition();
        admin.create_table(&descriptor, &[]).await?;
    }
    let users = PartitionedTable::open(&connection, "users").await?;
    Ok([users, PartitionedTable::open(&connection, "names").await?])
}
