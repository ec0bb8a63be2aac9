#![cfg_attr(feature = "client", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "client"), doc = "An HBase cluster in this process, for tests.")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "client"),
    allow(dead_code, unused_imports, reason = "simulations need a client")
)]

mod cell;
mod cluster;
mod exception;
mod filter;
mod hbase;
mod network;
mod region;
#[cfg(feature = "client")]
pub mod sim;

#[cfg(feature = "client")]
pub use self::hbase::{FakeConnector, FakeEnvironment};
pub use self::{
    hbase::{FakeHBase, FakeHBaseBuilder, FakeServer, Partitions},
    network::{Call, Dial, Fault, FaultHandle, Latency, RandomFaults, ReceivedCall},
    region::{Release, UnknownRelease},
};
