//! Tests with frames that are written byte by byte, under a paused clock.

mod actions;
mod calls;
mod client;
mod hostile;
mod openings;
mod random;
mod servers;

use std::{io, time::Duration};

use tokio::{io::DuplexStream, time::timeout};

use self::client::{Answered, RawClient};
use super::{
    Network,
    faults::{Fault, FaultHandle},
};
use crate::cluster::{Settings, World};

/// The time at the start, in milliseconds since 1970.
const START: u64 = 1_700_000_000_000;
/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// A cluster of two region servers.
fn network() -> Network {
    network_with_seed(7)
}

fn network_with_seed(seed: u64) -> Network {
    let settings = Settings {
        servers: 2,
        ..Settings::default()
    };
    Network::new(World::new(settings), seed, Some(START))
}

async fn dial(network: &Network, server: usize) -> io::Result<DuplexStream> {
    let name = network.with_world(|world, _| world.servers()[server].name.clone());
    network.dialer().dial(&name.host, name.port).await
}

/// Returns a stream to the first server.
async fn stream(network: &Network) -> RawClient<DuplexStream> {
    RawClient::new(dial(network, 0).await.unwrap())
}

/// Returns a connection to the registry of the first server.
async fn connect(network: &Network) -> RawClient<DuplexStream> {
    connect_to(network, 0).await
}

async fn connect_to(network: &Network, server: usize) -> RawClient<DuplexStream> {
    let mut client = RawClient::new(dial(network, server).await.unwrap());
    client.open("alice").await;
    client
}

/// Returns whether nothing comes, however long the client waits.
async fn is_silent(client: &mut RawClient<DuplexStream>) -> bool {
    timeout(LONG, client.answer()).await.is_err()
}

/// Returns the number of executions.
fn executions(network: &Network) -> usize {
    network
        .dump()
        .lines()
        .filter(|line| line.ends_with("executed"))
        .count()
}

/// Returns what a cluster and a connection to it are after a fault was added.
async fn with_fault(fault: Fault) -> (Network, FaultHandle, RawClient<DuplexStream>) {
    let network = network();
    let handle = network.fault(fault);
    let client = connect(&network).await;
    (network, handle, client)
}

fn assert_cluster_id(answered: Option<Answered>, id: u32) {
    let answered = answered.expect("an answer");
    assert_eq!((answered.id, answered.exception), (id, None));
    assert!(answered.message.len() > 2, "{:?}", answered.message);
}
