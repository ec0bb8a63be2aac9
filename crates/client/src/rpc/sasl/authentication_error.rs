//! Why a connection is not authenticated.

use crate::{error::RemoteException, wire::sasl::ServerError};

/// The reason why a connection cannot be used although its server was reached.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AuthenticationError {
    /// The server refused the tokens of the client.
    #[error("the server refused the authentication: {0}")]
    Refused(RemoteException),
    /// The server authenticates no clients.
    #[error("the server has no security, and would accept any client")]
    NoSecurity,
}

impl From<ServerError> for AuthenticationError {
    fn from(error: ServerError) -> Self {
        Self::Refused(RemoteException {
            trace: format!("{}: {}", error.class, error.message),
            class: error.class,
            message: error.message,
        })
    }
}

impl AuthenticationError {
    /// Returns an instruction on what to do.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Refused(_) => {
                "check the principal of the server (hbase.master.kerberos.principal, \
                 hbase.regionserver.kerberos.principal), and the server's log"
            }
            Self::NoSecurity => {
                "set hbase.security.authentication to simple, or \
                 hbase.ipc.client.fallback-to-simple-auth-allowed to true"
            }
        }
    }
}
