//! Authentication to the servers of a ZooKeeper quorum.

use std::fmt;

use bytes::Bytes;
use hbase_gssapi::{Credentials, Service};

use super::{gssapi::Gssapi, mechanism::Mechanism, thread::take_step};
use crate::{authentication_error::AuthenticationError, handshake::Step, protection::Protection};

/// How a client authenticates to the servers of a quorum, by Kerberos.
#[derive(Debug)]
pub struct QuorumLogin {
    credentials: Credentials,
    /// The first part of the principals of the servers.
    service: String,
}

impl QuorumLogin {
    pub(super) fn new(credentials: Credentials, service: String) -> Self {
        Self { credentials, service }
    }

    /// Starts the exchange of tokens with a server.
    #[must_use]
    pub fn exchange_with(&self, host: &str) -> QuorumExchange {
        let protection = vec![Protection::Authentication];
        let mechanism = Gssapi::new(self.credentials.clone(), self.service_on(host), protection);
        QuorumExchange {
            mechanism: Some(Box::new(mechanism)),
        }
    }

    /// Returns the refusal of a server with this code. Tickets of a keytab are forgotten, because
    /// the key of the server may have changed.
    #[must_use]
    pub fn refused(&self, host: &str, code: impl fmt::Display) -> AuthenticationError {
        AuthenticationError::QuorumRefused {
            service: self.service_on(host).to_string(),
            code: code.to_string(),
            has_new_tickets: match &self.credentials {
                Credentials::Keytab(keytab) => keytab.forget_tickets(),
                _ => false,
            },
        }
    }

    /// The Kerberos library determines the full name of the host, and its realm.
    fn service_on(&self, host: &str) -> Service {
        Service::host_based(&self.service, host)
    }
}

/// An exchange of tokens with a server of a quorum.
#[derive(Debug)]
pub struct QuorumExchange {
    /// `None` after a failure.
    mechanism: Option<Box<dyn Mechanism>>,
}

impl QuorumExchange {
    /// Reads a token of the server, which is empty at the first step, and returns what to do next.
    ///
    /// # Errors
    ///
    /// Returns an error if the Kerberos library refuses the token. The exchange is over then.
    pub async fn step(&mut self, token: Bytes) -> Result<Step, AuthenticationError> {
        let mechanism = self.mechanism.take().ok_or(AuthenticationError::BadToken)?;
        let (mechanism, step) = take_step(mechanism, token).await?;
        self.mechanism = Some(mechanism);
        Ok(step)
    }
}
