//! The bytes of HBase's protocol. No sockets, no tasks and no clock: the caller provides the bytes.
//!
//! - [`connection_header`]: the client's first bytes, after the preamble;
//! - [`frame`]: requests and responses;
//! - [`cell_block`]: the cells after a message instead of inside it;
//! - [`compression`]: compressed blocks of cells;
//! - [`call_table`]: the assignment of answers to waiters;
//! - [`convert`]: conversions between messages and the model;
//! - [`condition`] and `filter`: conditions on rows and cells, in forms with the same meaning on
//!   the server;
//! - `read_filter`: filters that only the server applies;
//! - [`encoded`]: puts and deletes that are encoded before their call exists;
//! - `output`: messages that are written without being built;
//! - [`mutation`]: mutations as messages;
//! - [`multi`]: requests whose gets and mutations are encoded before;
//! - [`parts`]: the number of sub-messages of an answer, before it is decoded;
//! - [`ping`]: a request that every server answers at once;
//! - [`same_row`]: which mutations of one row may be in one action;
//! - [`tls`]: detection of TLS;
//! - [`magic`] and `znode`: the prefixes of messages that are stored in `hbase:meta` and in
//!   ZooKeeper;
//! - [`pb`]: the messages themselves.
//!
//! Invariants: no bytes from a peer make this layer panic, or allocate by an announced length
//! alone. Each file has a small error of its own; the layer above adds the call and converts it
//! into [`crate::Error`].

pub(crate) mod call_table;
pub(crate) mod cell_block;
pub(crate) mod compression;
pub mod condition;
pub(crate) mod connection_header;
pub mod convert;
pub(crate) mod encoded;
mod filter;
pub(crate) mod frame;
pub(crate) mod magic;
pub(crate) mod multi;
pub(crate) mod mutation;
mod output;
pub(crate) mod parts;
pub(crate) mod ping;
mod read_filter;
pub(crate) mod same_row;
pub(crate) mod tls;
#[cfg(any(feature = "zookeeper", test))]
pub(crate) mod znode;

#[doc(inline)]
pub use hbase_protocol as pb;
