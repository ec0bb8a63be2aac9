//! What the methods of authentication have in common.

use std::{fmt, io};

use bytes::{Bytes, BytesMut};

use crate::{authentication_error::AuthenticationError, handshake::Step, preamble::AuthMethod};

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

/// The protection of the messages of an authenticated connection.
pub trait SecurityLayer: Send + fmt::Debug + 'static {
    /// Returns whether messages are encrypted.
    fn is_private(&self) -> bool;

    /// Returns the maximum size of a message before it is wrapped, at least 1.
    fn max_message(&self) -> usize;

    /// Protects a message.
    fn wrap(&mut self, message: &[u8]) -> io::Result<Bytes>;

    /// Checks and reads a message of the server. Fails if it was altered, repeated or left out.
    fn unwrap(&mut self, wrapped: BytesMut) -> io::Result<Bytes>;
}
