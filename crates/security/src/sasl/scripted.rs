//! A mechanism that follows a script, and its layer, for tests.

use std::{collections::VecDeque, io};

use bytes::{BufMut, Bytes, BytesMut};

use super::mechanism::{Mechanism, SecurityLayer};
use crate::{authentication_error::AuthenticationError, handshake::Step, preamble::AuthMethod};

/// Expects these tokens of the server, and takes these steps.
#[derive(Debug)]
pub(super) struct Scripted {
    pub(super) steps: VecDeque<(&'static str, Result<Step, AuthenticationError>)>,
    pub(super) blocks: bool,
    pub(super) layer: Option<Numbered>,
}

impl Scripted {
    pub(super) fn new(
        steps: impl IntoIterator<Item = (&'static str, Result<Step, AuthenticationError>)>,
    ) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            blocks: true,
            layer: None,
        }
    }
}

impl Mechanism for Scripted {
    fn method(&self) -> AuthMethod {
        AuthMethod::Kerberos
    }

    fn blocks(&self) -> bool {
        self.blocks
    }

    fn step(&mut self, token: &[u8]) -> Result<Step, AuthenticationError> {
        let (expected, step) = self.steps.pop_front().expect("a step of the script");
        assert_eq!(token, expected.as_bytes());
        step
    }

    fn into_layer(self: Box<Self>) -> Option<Box<dyn SecurityLayer>> {
        Some(Box::new(self.layer?))
    }
}

/// A layer with the number of the message, the contents, and their sum.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    sent: u8,
    received: u8,
}

impl Numbered {
    pub(super) const MAX_MESSAGE: usize = 10;
    const SALT: u8 = 7;

    fn sum(bytes: &[u8]) -> u8 {
        bytes
            .iter()
            .fold(Self::SALT, |sum, byte| sum.rotate_left(1) ^ byte)
    }
}

impl SecurityLayer for Numbered {
    fn is_private(&self) -> bool {
        true
    }

    fn max_message(&self) -> usize {
        Self::MAX_MESSAGE
    }

    fn wrap(&mut self, message: &[u8]) -> io::Result<Bytes> {
        let mut out = BytesMut::new();
        out.put_u8(self.sent);
        out.put_slice(message);
        out.put_u8(Self::sum(&out));
        self.sent = self.sent.wrapping_add(1);
        Ok(out.freeze())
    }

    fn unwrap(&mut self, wrapped: BytesMut) -> io::Result<Bytes> {
        let number = self.received;
        self.received = self.received.wrapping_add(1);
        match wrapped.split_last() {
            Some((sum, message)) if *sum == Self::sum(message) && message.first() == Some(&number) => {
                Ok(Bytes::copy_from_slice(&message[1..]))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "altered or repeated")),
        }
    }
}
