//! The user of a connection, and delegation tokens for it.

use prost::Message;

use super::{Connection, EndpointCall};
use crate::{
    error::{Error, ErrorKind, Result},
    model::DelegationToken,
    wire::{delegation_token::decode_token, pb},
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
        let answer: pb::WhoAmIResponse = self.authentication_call("WhoAmI").await?;
        let (Some(name), Some(method)) = (answer.username, answer.auth_method) else {
            return Err(Error::new(ErrorKind::Protocol, "an answer without a user"));
        };
        Ok(AuthenticatedUser { name, method })
    }

    /// Obtains a delegation token for the user of this client, which must have authenticated by
    /// Kerberos.
    ///
    /// # Errors
    ///
    /// Returns [`EndpointMissing`](ErrorKind::EndpointMissing) if the servers lack the coprocessor
    /// `TokenProvider`, and [`AccessDenied`](ErrorKind::AccessDenied) if this client has not
    /// authenticated by Kerberos.
    pub async fn delegation_token(&self) -> Result<DelegationToken> {
        let answer: pb::GetAuthenticationTokenResponse =
            self.authentication_call("GetAuthenticationToken").await?;
        let token = answer.token.unwrap_or_default();
        let [identifier, password, service] =
            [token.identifier, token.password, token.service].map(Option::unwrap_or_default);
        decode_token(identifier, password, &service)
            .map_err(|error| Error::new(ErrorKind::Protocol, "an invalid token").with_source(error))
    }

    /// Calls the endpoint of the coprocessor `TokenProvider`.
    async fn authentication_call<M: Message + Default>(&self, method: &str) -> Result<M> {
        let call = EndpointCall::new("", SERVICE, method, "").idempotent();
        let answer = self.table(META)?.call_endpoint(&call).await;
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
}
