//! A large cluster in virtual time: all regions of a table move, every server is restarted, and many
//! clients start at once.
//!
//! `make scale` runs 100,000 regions on 1,000 servers and 500 clients in release mode and prints the
//! figures of `docs/scale.md`; `make test` runs the short form. `SCALE_REGIONS`, `SCALE_SERVERS` and
//! `SCALE_CLIENTS` set other sizes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::future_not_send, reason = "a run has one thread")]

mod cluster;
mod cold_start;
mod memory;
mod operators;
mod reads;
mod writes;
