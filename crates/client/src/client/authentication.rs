//! The user of a connection, and delegation tokens for it.

use hbase_security::{DelegationToken, KdcClock, decode_token};
use prost::Message;

use super::{Connection, EndpointCall, Table};
use crate::{
    error::{Error, ErrorKind, Result},
    wire::pb,
};

const META: &str = "hbase:meta";
const SERVICE: &str = "AuthenticationService";

/// A user, as a server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthenticatedUser {
    /// The short name, to which permissions are granted: without the host and the realm of a principal,
    /// unless the servers have other rules.
    pub name: String,
    /// How the user was authenticated: `SIMPLE`, `KERBEROS`, `TOKEN`, or `PROXY` for another user as whom the
    /// client acts.
    pub method: String,
}

impl Connection {
    /// Returns the user that the server of `hbase:meta` knows this client as.
    ///
    /// # Errors
    ///
    /// Returns [`EndpointMissing`](ErrorKind::EndpointMissing) if the servers lack the coprocessor
    /// `TokenProvider`.
    pub async fn authenticated_user(&self) -> Result<AuthenticatedUser> {
        let answer: pb::WhoAmIResponse = call(&self.table(META)?, "WhoAmI").await?;
        let (Some(name), Some(method)) = (answer.username, answer.auth_method) else {
            return Err(Error::new(ErrorKind::Protocol, "an answer without a user"));
        };
        Ok(AuthenticatedUser { name, method })
    }

    /// Obtains a delegation token for the user of this client, which must have authenticated by
    /// Kerberos.
    ///
    /// The answer of the server has the password of the token, by which every process can act as the
    /// user. So the connection must be encrypted: by TLS, or by
    /// [`Protection::Privacy`](crate::Protection::Privacy). Later the password is never sent: the client
    /// and the servers prove to each other that they know it (DIGEST-MD5).
    ///
    /// # Errors
    ///
    /// Returns [`EndpointMissing`](ErrorKind::EndpointMissing) if the servers lack the coprocessor
    /// `TokenProvider`, [`AccessDenied`](ErrorKind::AccessDenied) if this client has not
    /// authenticated by Kerberos, and [`InvalidConfig`](ErrorKind::InvalidConfig) if the connection is not
    /// encrypted and [`Config::with_unencrypted_tokens`](crate::Config::with_unencrypted_tokens) does not
    /// permit it. Then the token was not requested.
    pub async fn delegation_token(&self) -> Result<DelegationToken> {
        let mut meta = self.table(META)?;
        if !self.config().unencrypted_tokens() {
            meta = meta.with_privacy();
        }
        let answer: pb::GetAuthenticationTokenResponse = call(&meta, "GetAuthenticationToken").await?;
        let token = answer.token.unwrap_or_default();
        let [identifier, password, service] =
            [token.identifier, token.password, token.service].map(Option::unwrap_or_default);
        decode_token(identifier, password, &service)
            .map_err(|error| Error::new(ErrorKind::Protocol, "an invalid token").with_source(error))
    }

    /// Compares the clock of this machine with that of a key distribution centre (KDC) of the client's
    /// realm. Returns `None` if the client needs no ticket: it authenticates by a delegation token, or
    /// not at all.
    ///
    /// Servers refuse tickets of clients whose clock differs by more than 5 minutes. MIT's library adopts
    /// the time of the KDC together with a ticket that it requests, so a wrong clock may not show until a
    /// ticket is used that is older than the difference.
    ///
    /// The wall clock is that of the [environment](Self::environment). One request is sent to the KDC, for
    /// a ticket for a server that does not exist: its answer has the time. The request has no proof of
    /// the user's identity, so it does not count as a failed login.
    ///
    /// # Errors
    ///
    /// Returns [`AuthenticationFailed`](ErrorKind::AuthenticationFailed) if no KDC answers within the
    /// [connect timeout](crate::Config::with_connect_timeout), or there is neither a ticket nor a keytab, or
    /// the Kerberos library is not MIT's: Heimdal's cannot report the time.
    pub async fn kdc_clock(&self) -> Result<Option<KdcClock>> {
        self.shared.cluster.kdc_clock().await
    }
}

/// Calls the endpoint of the coprocessor `TokenProvider`.
async fn call<M: Message + Default>(meta: &Table, method: &str) -> Result<M> {
    let call = EndpointCall::new("", SERVICE, method, "").idempotent();
    let answer = meta.call_endpoint(&call).await;
    let answer = answer.map_err(|error| match error.kind() {
        ErrorKind::EndpointMissing => error.with_better_hint(
            "add org.apache.hadoop.hbase.security.token.TokenProvider to hbase.coprocessor.region.classes of the \
             servers",
        ),
        ErrorKind::AccessDenied => error.with_better_hint(
            "connect with a Kerberos ticket: no other user gets a token; with hbase.security.exec.permission.checks \
             the user also needs the permission X on hbase:meta",
        ),
        _ => error,
    })?;
    M::decode(answer).map_err(|error| {
        Error::new(
            ErrorKind::Protocol,
            format!("the answer to {method} cannot be read"),
        )
        .with_source(error)
    })
}
