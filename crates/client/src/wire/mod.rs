//! The bytes of HBase's protocol. No sockets, no tasks and no clock: the caller provides the
//! bytes.
//!
//! - [`connection_header`]: what a client says first, with the [`preamble`] before it;
//! - [`frame`]: requests out, responses in;
//! - [`cell_block`]: the cells that travel behind a message instead of inside it;
//! - [`call_table`]: which waiter an answer belongs to;
//! - [`convert`]: between messages and the model;
//! - [`condition`] and `filter`: what is asked of rows and cells, in forms that mean the same on
//!   the server;
//! - [`parts`]: how many sub-messages an answer has, before it is decoded;
//! - [`ping`]: a request that every server answers at once;
//! - [`procedures`]: what a procedure of the master is about;
//! - [`tls`]: as much of it as shows that a server speaks something else;
//! - [`magic`] and `znode`: what stands before messages that are stored in `hbase:meta` and in
//!   ZooKeeper;
//! - [`pb`]: the messages themselves.
//!
//! What must stay true: nothing a peer sends makes this layer panic, or allocate by an announced
//! length alone. Each file has a small error of its own; the layer above knows the call and turns
//! it into [`crate::Error`].

pub(crate) mod call_table;
pub(crate) mod cell_block;
pub mod condition;
pub(crate) mod connection_header;
pub mod convert;
mod filter;
pub(crate) mod frame;
pub(crate) mod magic;
pub(crate) mod parts;
pub(crate) mod ping;
pub(crate) mod preamble;
pub(crate) mod procedures;
pub(crate) mod tls;
#[cfg(any(feature = "zookeeper", feature = "fuzzing", test))]
pub(crate) mod znode;

/// HBase's messages, generated from `schemas/proto` by `tests/codegen.rs`.
///
/// A decoder does not miss required fields: a message without one reads as if the field were empty,
/// zero, or the first of its enum. A reader of an answer must not take such a value for something
/// the server said.
#[rustfmt::skip]
#[allow(
    dead_code,
    missing_docs,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::use_self,
    clippy::match_same_arms,
)]
pub mod pb {
    include!("generated/hbase.pb.rs");
}
