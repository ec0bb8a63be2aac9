//! Authentication in a build without the feature `kerberos`: everything but SIMPLE is refused.

use std::{
    convert::Infallible,
    fmt,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    authentication_error::AuthenticationError,
    authentication_options::AuthenticationOptions,
    delegation_token::DelegationToken,
    handshake::{HandshakeError, Introduction, Opened, Role, Step, Target},
    kdc_clock::KdcClock,
};

/// Returns whether a message, without its length, is a frame with an exception about the connection.
pub type IsRefusal = fn(&[u8]) -> bool;

/// Authenticates the connections of a client, which this build cannot do.
#[derive(Debug)]
pub struct Authenticator;

/// How a server accepted the client: never.
#[derive(Debug)]
pub struct Accepted(Infallible);

impl Authenticator {
    /// Returns an authenticator that refuses every server. `None` means SIMPLE authentication.
    #[must_use]
    pub fn new(options: &AuthenticationOptions, _: Duration, _: usize) -> Option<Self> {
        (!options.is_simple()).then_some(Self)
    }

    /// Ignores the token: no connection is authenticated.
    pub fn use_token(&self, _: DelegationToken, _: impl Fn(&mut [u8]) + Send + Sync + 'static) {}

    /// Returns `None`: the client does not authenticate to ZooKeeper.
    #[must_use]
    pub fn quorum_login(&self) -> Option<QuorumLogin> {
        None
    }

    /// Refuses to compare the wall clock.
    ///
    /// # Errors
    ///
    /// Returns [`AuthenticationError::NotBuilt`].
    pub async fn kdc_clock(
        &self,
        _: impl Fn() -> SystemTime + Send + 'static,
    ) -> Result<Option<KdcClock>, AuthenticationError> {
        Err(AuthenticationError::NotBuilt)
    }

    /// Returns `false`: no server is asked for its principal.
    #[must_use]
    pub fn asks_for_principal(&self, _: Role) -> bool {
        false
    }

    /// Refuses the connection.
    ///
    /// # Errors
    ///
    /// Returns [`AuthenticationError::NotBuilt`].
    pub async fn negotiate<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        _: &mut S,
        _: Target<'_>,
    ) -> Result<Accepted, HandshakeError> {
        Err(AuthenticationError::NotBuilt.into())
    }

    /// Is never called: no server is accepted.
    ///
    /// # Errors
    ///
    /// Returns none.
    pub async fn protect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        _: S,
        accepted: Accepted,
        _: impl Fn(Introduction<'_>) -> Bytes,
        _: IsRefusal,
    ) -> Result<Opened<S>, HandshakeError> {
        match accepted.0 {}
    }
}

/// How a client authenticates to the servers of a quorum: not at all.
#[derive(Debug)]
pub struct QuorumLogin(Infallible);

impl QuorumLogin {
    /// Starts the exchange of tokens with a server.
    #[must_use]
    pub fn exchange_with(&self, _: &str) -> QuorumExchange {
        match self.0 {}
    }

    /// Returns the refusal of a server with this code.
    #[must_use]
    pub fn refused(&self, _: &str, _: impl fmt::Display) -> AuthenticationError {
        match self.0 {}
    }
}

/// An exchange of tokens with a server of a quorum.
#[derive(Debug)]
pub struct QuorumExchange(Infallible);

impl QuorumExchange {
    /// Reads a token of the server, and returns what to do next.
    ///
    /// # Errors
    ///
    /// Returns none.
    pub async fn step(&mut self, _: Bytes) -> Result<Step, AuthenticationError> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kerberos::Kerberos;

    #[tokio::test]
    async fn set_authentication_is_refused_by_the_name_of_the_feature() {
        let options = AuthenticationOptions {
            kerberos: Some(Kerberos::new("hbase/_HOST@R")),
            ..AuthenticationOptions::default()
        };
        let authenticator = Authenticator::new(&options, Duration::from_secs(5), 1 << 20).unwrap();
        let target = Target {
            host: "h",
            role: Role::Master,
            reported_principal: None,
        };
        let refused = authenticator.negotiate(&mut tokio::io::empty(), target).await;
        let HandshakeError::Unauthenticated(error) = refused.unwrap_err() else {
            panic!("no refusal");
        };
        assert!(error.hint().contains("feature kerberos"), "{error}");
        let simple = AuthenticationOptions::default();
        assert!(Authenticator::new(&simple, Duration::from_secs(5), 1 << 20).is_none());
    }
}
