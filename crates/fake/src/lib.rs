//! An HBase cluster in this process, for tests.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(dead_code, reason = "being built")]

mod cell;
mod cluster;
mod exception;
mod filter;
mod network;
mod region;

pub use self::network::{Call, Dial, Fault, FaultHandle, Latency, RandomFaults, ReceivedCall};
