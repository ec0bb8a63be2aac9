//! Through a Thrift gateway: `hbase-txn dev up --thrift` starts the one that this needs beside its
//! cluster.
//!
//! | file | what |
//! |---|---|
//! | `gateway` | what may stand there instead, late answers, the gateway's end |
//! | `locks` | locks of a gateway's clients and of native ones |
//! | `latches` `latches_lost` `latches_refused` | latches that both count, answers that are lost, what can't be |
//! | `over` | nothing that is over comes back |
//! | `silence` | silent connections and regions, a gateway that restarts while a lock is waited for |
//! | `parrot` | peers that say what a gateway could say |

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
    Level, TableName,
    thrift::{
        ThriftConnection, ThriftLatchManager, ThriftLatchManagerOptions, ThriftLockGuard, ThriftLockManager,
        ThriftLockManagerOptions,
    },
};
use tokio::sync::RwLock;

use crate::support::{lock_rows::FARM, standalone};

/// Who ends the gateway has it alone.
static GATEWAY: RwLock<()> = RwLock::const_new(());

/// How much longer than in a short run what spins and what is generated goes on.
fn scale() -> u32 {
    match std::env::var_os("HBASE_TXN_TEST_LONG") {
        Some(_) => 15,
        None => 1,
    }
}

/// The port of the gateway beside the suite's cluster.
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

/// A process's locks of a client.
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

/// A process's latches of a client, in a farm.
async fn latches_of(
    gateway: &ThriftConnection,
    table: &TableName,
    client: &str,
    farm: &str,
) -> ThriftLatchManager {
    let options = ThriftLatchManagerOptions::new(client, farm);
    options.open(gateway, table.clone()).await.unwrap()
}
