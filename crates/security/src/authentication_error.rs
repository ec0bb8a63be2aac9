//! Why a connection is not authenticated.

use std::{io, time::Duration};

#[cfg(feature = "kerberos")]
use hbase_gssapi::{Error as GssapiError, ErrorKind as GssapiErrorKind};

#[cfg(feature = "kerberos")]
use crate::sasl::DigestError;
use crate::{
    error::ErrorKind,
    protection::{Protection, protection_names},
};

/// The exception of a server that refuses a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class}: {message}")]
pub struct ServerError {
    /// The full Java class name.
    pub class: String,
    /// The message of the exception; empty if it is null.
    pub message: String,
}

/// The reason why a connection cannot be used although its server was reached.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticationError {
    /// This build has neither Kerberos nor delegation tokens.
    #[error("Kerberos or a delegation token is set; this build has SIMPLE authentication only")]
    NotBuilt,
    /// The Kerberos library refused, or the key distribution centre.
    #[cfg(feature = "kerberos")]
    #[error("no authentication to {service}: {error}")]
    Kerberos {
        /// What the library says.
        error: GssapiError,
        /// The principal of the server.
        service: String,
    },
    /// The key distribution centre did not report its time.
    #[cfg(feature = "kerberos")]
    #[error("{0}")]
    NoKdcTime(GssapiError),
    /// The key distribution centre did not answer when it was asked for its time.
    #[error("the key distribution centre did not report its time within {0:?}")]
    KdcTimeout(Duration),
    /// The server refused the tokens of the client.
    #[error("the server refused the authentication")]
    Refused {
        /// The exception of the server.
        #[source]
        exception: ServerError,
        /// Whether the tickets are forgotten now, so that another attempt has new ones.
        has_new_tickets: bool,
    },
    /// The server refused the delegation token.
    #[error("the server refused the delegation token of {user}")]
    TokenRefused {
        /// The exception of the server.
        #[source]
        exception: ServerError,
        /// The user of the token.
        user: String,
    },
    /// The server did not prove that it knows the password of the token.
    #[error(
        "the server does not know the password of the delegation token: it is not a server of the cluster"
    )]
    WrongProof,
    /// The server offers no cipher for tokens that is accepted.
    #[error("the server offers neither triple DES nor RC4 to connections with a delegation token")]
    WeakCiphers,
    /// A token of DIGEST-MD5 cannot be read.
    #[cfg(feature = "kerberos")]
    #[error("the server sent a token that is not valid here: {0}")]
    Digest(#[from] DigestError),
    /// There is no token for the cluster, and nothing else to authenticate with.
    #[error("none of the delegation tokens is for this cluster")]
    NoToken,
    /// The tokens of the server are not those of the mechanism.
    #[error("the server sent a token that is not valid here")]
    BadToken,
    /// The server authenticates no clients.
    #[error("the server has no security: it accepts every client, and may be another server")]
    NoSecurity,
    /// The server authenticates no clients, and so lets none act as another user.
    #[error("the server has no security: the client cannot act as {0} there")]
    NoImpersonation(String),
    /// The server offers no protection that the client accepts.
    #[error("no common protection: the server offers {}, and the client accepts {}", names(.offered), names(.accepted))]
    NoCommonProtection {
        /// The protections that the client accepts.
        accepted: Vec<Protection>,
        /// The protections that the server offers.
        offered: Vec<Protection>,
    },
    /// The principal of the server is not set.
    #[error("{key} is not set")]
    NoPrincipal {
        /// The setting.
        key: &'static str,
    },
    /// The principal of the server cannot be used.
    #[error("{key} is {value:?}, which is not of the form service/_HOST@REALM")]
    BadPrincipal {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// The server of the registry has another principal than those that are set.
    #[error(
        "the server has the principal {0:?}, which is neither that of masters nor that of region servers here"
    )]
    UnknownPrincipal(String),
    /// The server did not send keys for AES.
    #[error("the server sent no keys for AES within {0:?}")]
    NoCipher(Duration),
    /// The server sent keys that cannot be used.
    #[error("the server sent {0}")]
    BadCipher(&'static str),
    /// A server of a ZooKeeper quorum refused the ticket of the client.
    #[error("ZooKeeper refused the ticket for {service}: {code}")]
    QuorumRefused {
        /// The principal of the server.
        service: String,
        /// The code of ZooKeeper.
        code: String,
        /// Whether the tickets are forgotten now, so that another attempt has new ones.
        has_new_tickets: bool,
    },
    /// A server of a ZooKeeper quorum has no keytab, or ignores that the authentication failed.
    #[error("ZooKeeper requires authentication, and does not authenticate clients by Kerberos")]
    QuorumWithoutKerberos,
    /// The runtime ended the thread of the authentication.
    #[error("the thread of the authentication has ended")]
    Interrupted,
    /// The key distribution centre or the server did not answer.
    #[error("not authenticated within {0:?}: the key distribution centre or the server does not answer")]
    Timeout(Duration),
}

/// What to do if a server sends something else than a token.
const NO_TOKEN: &str = "check that the address is an HBase RPC port, or that of ZooKeeper";

/// Returns what to do about a delegation token that a server refused with this message.
fn token_hint(message: &str) -> &'static str {
    if message.contains("has expired") {
        "obtain a new token: it is valid for hbase.auth.token.max.lifetime of the servers, and cannot be renewed"
    } else if message.contains("Unknown master key") {
        "obtain a new token from this cluster: it is from another one, or so old that its key is gone"
    } else {
        "obtain a new token: its password is wrong or altered, or it is from another cluster"
    }
}

fn names(protections: &[Protection]) -> String {
    match protections {
        [] => "none".to_owned(),
        _ => protection_names(protections),
    }
}

impl From<ServerError> for AuthenticationError {
    fn from(error: ServerError) -> Self {
        Self::Refused {
            exception: error,
            has_new_tickets: false,
        }
    }
}

impl AuthenticationError {
    /// Returns the refusal of the server that reading from a socket failed with.
    #[must_use]
    pub fn of_socket(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().cloned()
    }

    /// Returns the exception by which the server refused the client.
    #[must_use]
    pub fn exception(&self) -> Option<&ServerError> {
        match self {
            Self::Refused { exception, .. } | Self::TokenRefused { exception, .. } => Some(exception),
            _ => None,
        }
    }

    /// Returns whether another attempt may succeed without a change of settings.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            #[cfg(feature = "kerberos")]
            Self::Kerberos { error, .. } | Self::NoKdcTime(error) => {
                error.kind() == GssapiErrorKind::KdcUnreachable
            }
            Self::Refused { has_new_tickets, .. } => *has_new_tickets,
            Self::QuorumRefused { has_new_tickets, .. } => *has_new_tickets,
            Self::Timeout(_) | Self::KdcTimeout(_) | Self::Interrupted => true,
            _ => false,
        }
    }

    /// Returns the kind of the error that the caller gets.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotBuilt | Self::NoPrincipal { .. } | Self::BadPrincipal { .. } => ErrorKind::InvalidConfig,
            _ => ErrorKind::AuthenticationFailed,
        }
    }

    /// Returns what the client was about to do.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        match self {
            #[cfg(feature = "kerberos")]
            Self::NoKdcTime(_) => "comparing clocks",
            Self::KdcTimeout(_) => "comparing clocks",
            _ => "authenticating",
        }
    }

    /// Returns an instruction on what to do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotBuilt => "build it with the feature kerberos",
            #[cfg(feature = "kerberos")]
            Self::Kerberos { error, .. } | Self::NoKdcTime(error) => error.hint(),
            Self::KdcTimeout(_) => {
                "check that a key distribution centre of the realm can be reached from here"
            }
            Self::Refused { .. } => {
                "check that the principal of the server here (hbase.master.kerberos.principal, \
                 hbase.regionserver.kerberos.principal) is the one in its keytab, and that its clock and that of \
                 this machine are right; its log has the reason"
            }
            Self::TokenRefused { exception, .. } => token_hint(&exception.message),
            Self::WrongProof => "check the address, and that the token is unaltered",
            Self::WeakCiphers => {
                "use TLS or AES (hbase.rpc.crypto.encryption.aes.enabled) instead, or Kerberos"
            }
            Self::NoToken => "obtain a token from this cluster, or set a Kerberos ticket",
            #[cfg(feature = "kerberos")]
            Self::Digest(_) => NO_TOKEN,
            Self::BadToken => NO_TOKEN,
            Self::NoSecurity => {
                "if the cluster has no security, set hbase.security.authentication to simple, or \
                 hbase.ipc.client.fallback-to-simple-auth-allowed to true"
            }
            Self::NoImpersonation(_) => {
                "leave out the effective user (Config::with_effective_user), and set the user of SIMPLE \
                 authentication (Config::with_user)"
            }
            Self::NoCommonProtection { .. } => "set hbase.rpc.protection to one that the server offers",
            Self::NoPrincipal { .. } | Self::BadPrincipal { .. } => {
                "set it as on the servers, for example hbase/_HOST@EXAMPLE.COM"
            }
            Self::UnknownPrincipal(_) => {
                "set hbase.master.kerberos.principal and hbase.regionserver.kerberos.principal as on the servers"
            }
            Self::NoCipher(_) => {
                "set hbase.rpc.crypto.encryption.aes.enabled (Config::with_aes) to the same value here and on the servers"
            }
            Self::BadCipher(_) => "set hbase.rpc.crypto.encryption.aes.enabled to false here",
            Self::QuorumRefused { .. } => {
                "check that the keytab of ZooKeeper's servers has this principal, or name another one here \
                 (hbase.zookeeper.property.sasl.client.username, Kerberos::with_zookeeper_service); their logs have \
                 the reason"
            }
            Self::QuorumWithoutKerberos => {
                "check the section Server of ZooKeeper's JAAS configuration, or connect by hbase+rpc://host:port of \
                 a master"
            }
            Self::Interrupted => "keep the runtime of the client until its calls have ended",
            Self::Timeout(_) => {
                "check that the key distribution centre of the realm can be reached from here, or raise \
                 hbase.ipc.client.socket.timeout.connect (for ZooKeeper: zookeeper.registry.async.get.timeout)"
            }
        }
    }
}
