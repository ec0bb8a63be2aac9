//! What the methods of authentication have in common.

use std::{fmt, io};

use bytes::{Bytes, BytesMut};

use super::authentication_error::AuthenticationError;
use crate::wire::preamble::AuthMethod;

/// A method of authentication, on the side of the client.
pub(super) trait Mechanism: Send + fmt::Debug + 'static {
    /// Returns the method that the preamble names.
    fn method(&self) -> AuthMethod;

    /// Returns whether [`step`](Self::step) may wait for files or for another server.
    fn blocks(&self) -> bool;

    /// Reads a token of the server, which is empty at the first step, and returns what to do next.
    fn step(&mut self, token: &[u8]) -> Result<Step, AuthenticationError>;

    /// Returns the protection of everything that follows, once a step has been the last. Returns
    /// `None` if what follows is sent as it is.
    fn into_layer(self: Box<Self>) -> Option<Box<dyn SecurityLayer>>;
}

/// What follows a step of a [`Mechanism`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sends a token. The server answers with one.
    Continue(Vec<u8>),
    /// Sends a token. The server answers only if it refuses it.
    Last(Vec<u8>),
    /// Sends nothing. Both sides have what they need.
    Complete,
}

/// The protection of the messages of an authenticated connection.
pub(super) trait SecurityLayer: Send + fmt::Debug + 'static {
    /// Returns whether messages are encrypted.
    fn is_private(&self) -> bool;

    /// Returns the maximum size of a message before it is wrapped, at least 1.
    fn max_message(&self) -> usize;

    /// Protects a message.
    fn wrap(&mut self, message: &[u8]) -> io::Result<Bytes>;

    /// Checks and reads a message of the server. Fails if it was altered, repeated or left out.
    fn unwrap(&mut self, wrapped: BytesMut) -> io::Result<Bytes>;
}
