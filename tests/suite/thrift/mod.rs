//! Tests through a Thrift gateway, which `hbase-txn dev up --thrift` starts alongside the cluster.
//!
//! | file | tests |
//! |---|---|
//! | `gateway` | services in the place of a gateway, late answers, gateways that stop |
//! | `locks` | locks through a gateway and native ones |
//! | `latches` `latches_lost` `latches_refused` | latches of both, lost answers, rejected calls |
//! | `over` | no ended hold becomes visible again |
//! | `silence` | silent connections and regions, a gateway that restarts during a wait |
//! | `parrot` | peers that send what a gateway could send |

mod gateway;
mod latches;
mod latches_lost;
mod latches_refused;
mod locks;
mod over;
mod parrot;
mod silence;

use std::time::Duration;

use hbase_txn::{
    Level,
    client::TableName,
    thrift::{
        ThriftConnection, ThriftLatchManager, ThriftLatchManagerOptions, ThriftLockGuard, ThriftLockManager,
        ThriftLockManagerOptions,
    },
};
use tokio::sync::RwLock;

use crate::support::{lock_rows::FARM, standalone};

/// A test that stops the gateway holds it exclusively.
static GATEWAY: RwLock<()> = RwLock::const_new(());

/// The factor by which a long run extends loops and generated tests.
fn scale() -> u32 {
    match std::env::var_os("HBASE_TXN_TEST_LONG") {
        Some(_) => 15,
        None => 1,
    }
}

/// The port of the gateway of the suite's cluster.
fn port() -> u16 {
    let ports = standalone().status.ports;
    *ports
        .get("thrift")
        .expect("no Thrift gateway to test against: run make test, or hbase-txn dev up --thrift")
}

async fn connect_to(port: u16) -> ThriftConnection {
    ThriftConnection::connect(format!("127.0.0.1:{port}"))
        .await
        .unwrap()
}

async fn gateway() -> ThriftConnection {
    connect_to(port()).await
}

/// Opens the locks of a client, as a process of its own.
async fn locks_of(
    gateway: &ThriftConnection,
    table: &TableName,
    client: &str,
    without_java_clients: bool,
) -> ThriftLockManager {
    let options = ThriftLockManagerOptions::new(client).farm(FARM).holder("visitor");
    let options = if without_java_clients {
        options.without_java_clients()
    } else {
        options
    };
    options.open(gateway, table.clone()).await.unwrap()
}

async fn try_lock(locks: &ThriftLockManager, id: &str, ttl: Duration) -> Option<ThriftLockGuard> {
    let request = locks.lock(Level::Dc, id).unwrap().ttl(ttl);
    request.try_acquire().await.unwrap()
}

/// Opens the latches of a client in a farm, as a process of its own.
async fn latches_of(
    gateway: &ThriftConnection,
    table: &TableName,
    client: &str,
    farm: &str,
) -> ThriftLatchManager {
    let options = ThriftLatchManagerOptions::new(client, farm);
    options.open(gateway, table.clone()).await.unwrap()
}
