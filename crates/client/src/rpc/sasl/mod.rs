//! Authentication by SASL, and the protection of what follows.
//!
//! | file | contents |
//! |---|---|
//! | `mechanism` | [`Mechanism`](mechanism::Mechanism): the tokens of one method, and its [`SecurityLayer`](mechanism::SecurityLayer) |
//! | `negotiation` | the exchange of tokens with a server |
//! | `stream` | the stream after it, wrapped if the client and the server agreed on a layer |
//! | `authentication_error` | why a server or this client refuses |
//!
//! Invariants: no announced length is allocated before its bytes arrive; a step that blocks runs on
//! a thread of its own, and dropping the attempt disturbs nothing; a message that was altered or
//! repeated ends the connection.

mod authentication_error;
mod mechanism;
mod negotiation;
#[cfg(test)]
mod scripted;
mod stream;

pub(crate) use authentication_error::AuthenticationError;
