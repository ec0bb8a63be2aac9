//! What a caller and an authentication tell each other.

use std::io;

use bytes::{Bytes, BytesMut};

use crate::authentication_error::AuthenticationError;

/// The server that a client authenticates to.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The host, as the cluster names it.
    pub host: &'a str,
    /// Which server it is.
    pub role: Role,
    /// The principal that the server reported when it was asked.
    pub reported_principal: Option<&'a str>,
}

/// Which server of a cluster another one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A master.
    Master,
    /// A region server.
    RegionServer,
    /// A master or a region server: both serve the registry.
    Registry,
}

/// What the connection header, which follows the authentication, says of the user.
#[derive(Clone, Copy, Debug)]
pub enum Introduction<'a> {
    /// The server authenticates no clients: the name of the user.
    Simple,
    /// The client is authenticated.
    Authenticated {
        /// The user as whom the client acts, if that is another one.
        effective_user: Option<&'a str>,
        /// The cipher of all messages after the header, whose keys the server sends.
        cipher: Option<&'a str>,
    },
}

/// An authenticated stream.
#[derive(Debug)]
pub struct Opened<S> {
    /// The stream.
    pub stream: S,
    /// The bytes to send before the first request.
    pub greeting: Bytes,
    /// Whether the authentication encrypts messages.
    pub is_private: bool,
}

/// What follows a token of a server.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends a token. The server answers with one.
    Continue(Vec<u8>),
    /// Sends a token. The server answers only if it refuses it.
    Last(Vec<u8>),
    /// Sends nothing. Both sides have what they need.
    Complete,
}

/// Why a stream is not authenticated.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The server or this client refuses.
    #[error(transparent)]
    Unauthenticated(#[from] AuthenticationError),
    /// The stream failed or ended.
    #[error("the stream failed: {0}")]
    Stream(#[from] io::Error),
    /// A message of the server cannot be read.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The server sent a frame of HBase instead of a message of SASL: an exception about the connection.
    /// These are its first bytes.
    #[error("the server sent a frame instead of a token")]
    Frame(BytesMut),
}

/// Why a message of SASL cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A length is negative.
    #[error("a frame of negative length was announced: {0}")]
    NegativeLength(i32),
    /// A length exceeds the limit.
    #[error("a frame of {len} bytes was announced, and {limit} are the most that are accepted")]
    TooLarge {
        /// The announced length.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// There are bytes that no server sends yet.
    #[error("{0} bytes of the frame belong to nothing")]
    Trailing(usize),
}
