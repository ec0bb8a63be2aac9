//! DIGEST-MD5 (RFC 2831), by which a client proves that it has the password of a delegation token.
//!
//! - [`challenge`]: what the server offers;
//! - [`answer`]: the client's answer, and the proof that it expects of the server;
//! - [`layer`]: the protection of the messages that follow;
//! - `cipher`: their encryption.

pub(crate) mod answer;
pub(crate) mod challenge;
mod cipher;
pub(crate) mod layer;
