//! Authentication by SASL, and the protection of what follows.
//!
//! | file | contents |
//! |---|---|
//! | `authenticator` | [`Authenticator`]: how the connections of a client are authenticated |
//! | `principal` | the principals of servers, as they are set |
//! | `mechanism` | `Mechanism`: the tokens of one method, and its [`SecurityLayer`] |
//! | `gssapi` | the mechanism of Kerberos |
//! | `aes` | the layer with keys of HBase |
//! | `digest` | the mechanism of delegation tokens; `digest_md5`, `hmac_md5`, `base64`: its bytes |
//! | `negotiation` | the exchange of tokens with a server of HBase |
//! | `messages` | the messages of such a server |
//! | `quorum_login` | [`QuorumLogin`]: the tokens for servers of a ZooKeeper quorum |
//! | `kdc_time` | the clock of the key distribution centre |
//! | `thread` | the threads on which steps run that block |
//! | `stream` | the stream after it, wrapped if the client and the server agreed on a layer |
//!
//! Invariants: no announced length is allocated before its bytes arrive; a step that blocks runs on
//! a thread of its own, and dropping the attempt disturbs nothing; a message that was altered or
//! repeated ends the connection.

mod aes;
mod authenticator;
mod base64;
mod digest;
mod digest_md5;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod gssapi;
mod hmac_md5;
mod kdc_time;
mod mechanism;
mod messages;
mod negotiation;
mod principal;
mod quorum_login;
#[cfg(test)]
mod scripted;
mod stream;
mod thread;

pub use authenticator::Authenticator;
pub use digest_md5::challenge::DigestError;
pub use mechanism::SecurityLayer;
pub use negotiation::Accepted;
pub use quorum_login::{QuorumExchange, QuorumLogin};
pub use stream::{IsRefusal, SaslStream};
