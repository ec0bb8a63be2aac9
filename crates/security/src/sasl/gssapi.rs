//! The mechanism GSSAPI: Kerberos (RFC 4752).

use std::{io, mem};

use bytes::{Bytes, BytesMut};
use hbase_gssapi::{Context, Credentials, Error, Service};

use super::mechanism::{Mechanism, SecurityLayer};
use crate::{
    authentication_error::AuthenticationError, handshake::Step, preamble::AuthMethod, protection::Protection,
};

/// The maximum size of a wrapped message that is sent. HBase's servers accept larger ones.
const MAX_WRAPPED: u32 = 64 << 10;
/// The maximum size of a wrapped message that the server may send, as the client reports it. It is
/// the largest number of three bytes, and servers do not keep to it.
const MAX_ACCEPTED: [u8; 3] = [0xff; 3];

/// Authenticates by Kerberos, and chooses a protection.
#[derive(Debug)]
pub(super) struct Gssapi {
    credentials: Credentials,
    service: Service,
    /// The protections that the client accepts, in order of preference.
    accepted: Vec<Protection>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Before the ticket.
    Start,
    /// Between the first token and the last one of the context.
    Authenticating(Context),
    /// Between the context and the offer of the server.
    Authenticated(Context),
    /// After the choice, with the layer that was chosen.
    Chosen(Option<GssapiLayer>),
    /// After a failure.
    Ended,
}

impl Gssapi {
    pub(super) fn new(credentials: Credentials, service: Service, accepted: Vec<Protection>) -> Self {
        Self {
            credentials,
            service,
            accepted,
            state: State::Start,
        }
    }

    /// Reads the server's offer of protections, and answers with the choice.
    fn choose(&self, mut context: Context, offer: &[u8]) -> Result<(State, Step), AuthenticationError> {
        let failed = |error| self.failed(error);
        let offer = context.unwrap(&mut offer.to_vec()).map_err(failed)?.contents;
        let Some((mask, size)) = offer.split_first_chunk::<1>() else {
            return Err(AuthenticationError::BadToken);
        };
        let [high, middle, low] = *size else {
            return Err(AuthenticationError::BadToken);
        };
        let offered = |protection: &&Protection| mask[0] & bit(**protection) != 0;
        let Some(&chosen) = self.accepted.iter().find(offered) else {
            return Err(AuthenticationError::NoCommonProtection {
                accepted: self.accepted.clone(),
                offered: ALL.into_iter().filter(|all| offered(&all)).collect(),
            });
        };
        let (choice, layer) = match chosen {
            Protection::Authentication => ([bit(chosen), 0, 0, 0], None),
            Protection::Integrity | Protection::Privacy => {
                let is_private = chosen == Protection::Privacy;
                let size = u32::from_be_bytes([0, high, middle, low]).min(MAX_WRAPPED);
                let limit = context.wrap_size_limit(is_private, size).map_err(failed)?;
                let [a, b, c] = MAX_ACCEPTED;
                ([bit(chosen), a, b, c], Some((is_private, limit)))
            }
        };
        if matches!(layer, Some((_, 0))) {
            return Err(AuthenticationError::BadToken);
        }
        let choice = context.wrap(&choice, false).map_err(failed)?;
        let layer = layer.map(|(is_private, limit)| GssapiLayer {
            context,
            is_private,
            max_message: usize::try_from(limit).unwrap_or(usize::MAX),
        });
        Ok((State::Chosen(layer), Step::Last(choice.to_vec())))
    }

    fn failed(&self, error: Error) -> AuthenticationError {
        AuthenticationError::Kerberos {
            error,
            service: self.service.to_string(),
        }
    }
}

/// All protections.
const ALL: [Protection; 3] = [
    Protection::Authentication,
    Protection::Integrity,
    Protection::Privacy,
];

/// The bit of a protection in the offer and in the choice.
const fn bit(protection: Protection) -> u8 {
    match protection {
        Protection::Authentication => 1,
        Protection::Integrity => 2,
        Protection::Privacy => 4,
    }
}

impl Mechanism for Gssapi {
    fn method(&self) -> AuthMethod {
        AuthMethod::Kerberos
    }

    fn blocks(&self) -> bool {
        true
    }

    fn step(&mut self, token: &[u8]) -> Result<Step, AuthenticationError> {
        let (state, step) = match mem::replace(&mut self.state, State::Ended) {
            State::Start => {
                let started = Context::initiate(&self.credentials, &self.service);
                let (context, token) = started.map_err(|error| self.failed(error))?;
                (State::Authenticating(context), Step::Continue(token.to_vec()))
            }
            State::Authenticating(mut context) => {
                let token = context.step(&mut token.to_vec());
                let token = token.map_err(|error| self.failed(error))?;
                // The server waits for a token even if the context needs none.
                let step = Step::Continue(token.to_vec());
                if context.is_established() {
                    (State::Authenticated(context), step)
                } else {
                    (State::Authenticating(context), step)
                }
            }
            State::Authenticated(context) => self.choose(context, token)?,
            State::Chosen(_) | State::Ended => return Err(AuthenticationError::BadToken),
        };
        self.state = state;
        Ok(step)
    }

    fn into_layer(self: Box<Self>) -> Option<Box<dyn SecurityLayer>> {
        match self.state {
            State::Chosen(Some(layer)) => Some(Box::new(layer)),
            _ => None,
        }
    }
}

/// Messages under the keys of the ticket.
#[derive(Debug)]
struct GssapiLayer {
    context: Context,
    is_private: bool,
    max_message: usize,
}

impl SecurityLayer for GssapiLayer {
    fn is_private(&self) -> bool {
        self.is_private
    }

    fn max_message(&self) -> usize {
        self.max_message
    }

    fn wrap(&mut self, message: &[u8]) -> io::Result<Bytes> {
        let wrapped = self.context.wrap(message, self.is_private);
        wrapped.map(Bytes::from_owner).map_err(io::Error::other)
    }

    fn unwrap(&mut self, mut wrapped: BytesMut) -> io::Result<Bytes> {
        let invalid =
            |why: Box<dyn std::error::Error + Send + Sync>| io::Error::new(io::ErrorKind::InvalidData, why);
        let unwrapped = self
            .context
            .unwrap(&mut wrapped)
            .map_err(|error| invalid(error.into()))?;
        if self.is_private && !unwrapped.is_private {
            Err(invalid("the server sent a message that is not encrypted".into()))
        } else {
            Ok(Bytes::from_owner(unwrapped.contents))
        }
    }
}
