use std::{io, net::Ipv4Addr, time::Duration};

use tokio::net::TcpStream;

use super::{
    super::{faults::Call, tcp},
    RawClient, assert_cluster_id,
    client::METHOD,
    connect, connect_to, dial, executions, is_silent, network,
};
use crate::cluster::ServerIndex;

const FIRST: ServerIndex = ServerIndex(0);

#[tokio::test(start_paused = true)]
async fn crash_ends_the_connections_of_the_server() {
    let network = network();
    let mut first = connect(&network).await;
    let mut second = connect_to(&network, 1).await;
    network.with_world(|world, wall| world.crash(FIRST, wall));
    assert!(first.answer().await.is_none());
    second.call(1).await;
    assert_cluster_id(second.answer().await, 1);
    let refused = dial(&network, 0).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn restart_does_not_revive_connections_and_calls() {
    let network = network();
    let held = network.fault(Call::Any.hold_request());
    let delayed = network.fault(Call::Any.delay_request(Duration::from_secs(1)));
    let mut old = connect(&network).await;
    old.call(1).await;
    held.wait_for(1).await;
    network.with_world(|world, wall| {
        world.crash(FIRST, wall);
        world.restart(FIRST, wall);
    });
    assert!(old.answer().await.is_none());
    held.release();
    delayed.release();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(executions(&network), 0);
    let mut new = connect(&network).await;
    new.call(2).await;
    assert_cluster_id(new.answer().await, 2);
}

#[tokio::test(start_paused = true)]
async fn hung_server_accepts_and_answers_nothing_until_it_goes_on() {
    let network = network();
    let mut client = connect(&network).await;
    network.with_world(|world, wall| world.hang(FIRST, wall));
    client.call(1).await;
    assert!(is_silent(&mut client).await);
    let mut late = connect(&network).await;
    late.call(2).await;
    assert!(is_silent(&mut late).await);
    assert_eq!(network.calls(METHOD), 0);
    network.with_world(|world, wall| world.resume(FIRST, wall));
    assert_cluster_id(client.answer().await, 1);
    assert_cluster_id(late.answer().await, 2);
}

#[tokio::test(start_paused = true)]
async fn call_in_a_server_that_hangs_is_executed_when_it_goes_on() {
    let network = network();
    let held = network.fault(Call::Any.hold_request());
    let mut client = connect(&network).await;
    client.call(1).await;
    held.wait_for(1).await;
    network.with_world(|world, wall| world.hang(FIRST, wall));
    held.release();
    assert!(is_silent(&mut client).await);
    assert_eq!(executions(&network), 0);
    network.with_world(|world, wall| world.resume(FIRST, wall));
    assert_cluster_id(client.answer().await, 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_network_ends_its_connections() {
    let network = network();
    let dialer = network.dialer();
    let name = network.with_world(|world, _| world.servers()[0].name.clone());
    let mut client = connect(&network).await;
    drop(network);
    assert!(client.answer().await.is_none());
    let refused = dialer.dial(&name.host, name.port).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn unknown_address_is_not_found() {
    let missing = network().dialer().dial("nowhere", 1).await.unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn tcp_serves_the_same_calls() {
    let network = network();
    let listeners = tcp::bind(Ipv4Addr::LOCALHOST.into(), 2).await.unwrap();
    let address = listeners[0].local_addr().unwrap();
    network.listen(listeners);
    let mut client = RawClient::new(TcpStream::connect(address).await.unwrap());
    client.open("alice").await;
    client.call(1).await;
    assert_cluster_id(client.answer().await, 1);
    network.with_world(|world, wall| world.crash(FIRST, wall));
    assert!(client.answer().await.is_none());
    // The system accepts; the server hangs up.
    let mut refused = RawClient::new(TcpStream::connect(address).await.unwrap());
    assert!(refused.answer().await.is_none());
    drop(network);
}
