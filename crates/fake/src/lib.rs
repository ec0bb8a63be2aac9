//! An HBase cluster in this process, for tests.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(dead_code, reason = "being built")]

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
    hbase::{FakeHBase, FakeHBaseBuilder},
    network::{Call, Dial, Fault, FaultHandle, Latency, RandomFaults, ReceivedCall},
    region::{Release, UnknownRelease},
};
