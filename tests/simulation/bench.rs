//! The clients of a scenario, and their tables.

use std::time::Duration;

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    PartitionRule, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Config, Connection, FamilyDescriptor, TableDescriptor, TableName},
    lock::LockManagerOptions,
};

use crate::records::Records;

/// The column family of all tables.
pub(crate) const FAMILY: &str = "f";
/// The time limit of one call: the loss of an answer costs as much.
const RPC_TIMEOUT: Duration = Duration::from_millis(200);

/// Creates a table of partitions of three bytes, with records, and region boundaries at the split
/// keys.
pub(crate) async fn create_table(
    connection: &Connection,
    name: &str,
    split_keys: &[&str],
    add: impl FnOnce(TableDescriptor) -> TableDescriptor,
) -> PartitionedTable {
    let name: TableName = name.parse().unwrap();
    let mut descriptor = TableDescriptor::from(name.clone())
        .with_family(FamilyDescriptor::new(FAMILY))
        .with_multi_row_mutation_endpoint()
        .with_record_family();
    for (key, value) in PartitionRule::prefix_length(3).unwrap().attributes() {
        descriptor = descriptor.with_attribute(key, value);
    }
    let split_keys: Vec<_> = split_keys.iter().map(|key| key.to_string().into()).collect();
    Admin::new(connection)
        .create_table(&add(descriptor), &split_keys)
        .await
        .unwrap();
    PartitionedTable::open(connection, name).await.unwrap()
}

/// The milliseconds by which the clock of a server may be ahead or behind: half of what two of them
/// may differ by.
pub(crate) const MAX_SKEW: i64 = 15_000;

/// Sets the clocks of the servers ahead or behind, by so many milliseconds at most.
pub(crate) async fn skew_clocks(world: &World, connection: &Connection, most: i64, rng: &mut Rng) {
    let servers = Admin::new(connection).cluster_info().await.unwrap().live_servers;
    for server in 0..servers.len() {
        world
            .hbase()
            .server(server)
            .set_clock_ahead(rng.i64(-most..=most));
    }
}

/// The name of holders. The default has the number of the process, with which traces would differ.
pub(crate) const HOLDER: &str = "holder";

/// The client of all lock managers.
pub(crate) const CLIENT: &str = "simulation";

/// Returns the options of all lock managers.
pub(crate) fn lock_options() -> LockManagerOptions {
    LockManagerOptions::new(CLIENT).holder(HOLDER)
}

/// Returns the row of a key in the tables of the Java libraries: the low byte of the absolute value
/// of Java's hash of the key, and the key.
pub(crate) fn java_row(key: &str) -> Vec<u8> {
    let hash = key.bytes().fold(1_i32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed()))
    });
    [&hash.wrapping_abs().to_be_bytes()[3..], key.as_bytes()].concat()
}

/// Returns a lease, some of them so long that they are renewed in company.
pub(crate) fn lease(rng: &mut Rng) -> Duration {
    Duration::from_millis(match rng.u8(..3) {
        0 => rng.u64(7_000..15_000),
        _ => return short_lease(rng),
    })
}

/// Returns a lease that is never renewed in company.
pub(crate) fn short_lease(rng: &mut Rng) -> Duration {
    Duration::from_millis(rng.u64(600..3_000))
}

/// Connects a client whose clock differs from the cluster's by up to ten seconds, and whose calls
/// have little time and small answers.
pub(crate) async fn connect(world: &World, rng: &mut Rng) -> Connection {
    connect_with(world, rng, |config| config).await
}

/// Connects such a client with more settings.
pub(crate) async fn connect_with(
    world: &World,
    rng: &mut Rng,
    set: impl FnOnce(Config) -> Config,
) -> Connection {
    let skew = match rng.u8(..3) {
        0 => rng.i64(-10_000..=10_000),
        _ => 0,
    };
    // With few bytes in an answer, a scan takes several calls.
    let bytes = if rng.bool() { rng.u64(50..500) } else { 1 << 20 };
    let config = world
        .hbase()
        .config()
        .with_pause(Duration::from_millis(20))
        .with_scan_batch_bytes(bytes)
        .with_operation_timeout(Duration::from_millis(rng.u64(1_000..8_000)))
        .with_read_timeout(RPC_TIMEOUT)
        .with_write_timeout(RPC_TIMEOUT)
        .with_idle_timeout(Duration::from_secs(rng.u64(10..60)));
    let connector = world.hbase().connector();
    let connected = match rng.u8(..4) {
        0 => {
            let records = Records::new(connector, rng.fork());
            world.connect_by(records, set(config), skew).await
        }
        _ => world.connect_by(connector, set(config), skew).await,
    };
    connected.unwrap()
}
