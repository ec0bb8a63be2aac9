//! Authentication by SASL, and the protection of what follows.
//!
//! | file | contents |
//! |---|---|
//! | `authenticator` | [`Authenticator`]: how the connections of a client are authenticated |
//! | `principal` | the principals of servers, as they are set |
//! | `registry_query` | questions to a server of the registry: its principal, and the id of its cluster |
//! | `mechanism` | [`Mechanism`](mechanism::Mechanism): the tokens of one method, and its [`SecurityLayer`](mechanism::SecurityLayer) |
//! | `gssapi` | the mechanism of Kerberos |
//! | `aes` | the layer with keys of HBase |
//! | `digest` | the mechanism of delegation tokens |
//! | `negotiation` | the exchange of tokens with a server of HBase |
//! | `quorum_login` | [`QuorumLogin`]: the tokens for servers of a ZooKeeper quorum |
//! | `kdc_clock` | the clock of the key distribution centre |
//! | `thread` | the threads on which steps run that block |
//! | `stream` | the stream after it, wrapped if the client and the server agreed on a layer |
//! | `authentication_error` | why a server or this client refuses |
//!
//! Invariants: no announced length is allocated before its bytes arrive; a step that blocks runs on
//! a thread of its own, and dropping the attempt disturbs nothing; a message that was altered or
//! repeated ends the connection.

mod aes;
mod authentication_error;
mod authenticator;
mod digest;
mod gssapi;
mod kdc_clock;
mod mechanism;
mod negotiation;
mod principal;
#[cfg(feature = "zookeeper")]
mod quorum_login;
mod registry_query;
#[cfg(test)]
mod scripted;
mod stream;
mod thread;

pub(crate) use authentication_error::AuthenticationError;
pub(super) use authenticator::Authenticator;
#[cfg(feature = "zookeeper")]
pub(crate) use mechanism::Step;
#[cfg(feature = "zookeeper")]
pub(crate) use quorum_login::{QuorumExchange, QuorumLogin};
pub(super) use registry_query::cluster_id;
