//! The security of connections to Apache HBase and ZooKeeper: TLS, Kerberos, delegation tokens.
//!
//! A [`TlsClient`] and an [`Authenticator`] take a stream and a server, and return a stream. The caller
//! dials, and limits the time. It knows HBase's frames; this crate does not.
//!
//! The types are the same in every build. Without the feature `tls` a [`TlsClient`] refuses every handshake,
//! and without the feature `kerberos` an [`Authenticator`] refuses every server, with an error that names
//! the feature. So a caller compiles without the features, and never continues without the protection that
//! is set.
//!
//! | file | contents |
//! |---|---|
//! | `error` | [`ErrorKind`]: who can fix a failure |
//! | `tls_options` | [`TlsOptions`]: what is trusted, what is presented, and limits |
//! | `tls_keys` | [`TlsKeys`]: the names of these settings in `hbase-site.xml` |
//! | `tls_failure` | [`TlsFailure`]: failures that another attempt does not fix |
//! | `tls` | [`TlsClient`]: handshakes, key stores, and the check of certificates |
//! | `tls_off` | its counterpart without the feature |
//! | `authentication_options` | [`AuthenticationOptions`]; `kerberos`, `protection`: parts of it |
//! | `delegation_token` | [`DelegationToken`]; `token_format`: its bytes; `token_file`: files of tokens |
//! | `kdc_clock` | [`KdcClock`]: this machine's clock, compared with that of Kerberos |
//! | `preamble` | [`preamble()`]: the first bytes of a connection |
//! | `handshake` | what a caller and an authentication tell each other |
//! | `authentication_error` | [`AuthenticationError`]: why a server or this client refuses |
//! | `sasl` | [`Authenticator`]: the exchange of tokens, and the protection of what follows |
//! | `sasl_off` | its counterpart without the feature |

mod authentication_error;
mod authentication_options;
mod delegation_token;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod handshake;
mod kdc_clock;
mod kerberos;
mod preamble;
mod protection;
#[cfg(feature = "kerberos")]
mod sasl;
#[cfg(not(feature = "kerberos"))]
mod sasl_off;
#[cfg(feature = "tls")]
mod tls;
mod tls_failure;
mod tls_keys;
#[cfg(not(feature = "tls"))]
mod tls_off;
mod tls_options;
mod token_file;
mod token_format;

pub use authentication_error::{AuthenticationError, ServerError};
pub use authentication_options::AuthenticationOptions;
pub use delegation_token::{DelegationToken, latest_token};
pub use error::ErrorKind;
pub use handshake::{HandshakeError, Introduction, MessageError, Opened, Role, Step, Target};
pub use kdc_clock::KdcClock;
pub use kerberos::{Kerberos, TicketSource};
pub use preamble::{AuthMethod, preamble};
pub use protection::{Protection, protection_names};
#[cfg(feature = "kerberos")]
pub use sasl::{
    Accepted, Authenticator, DigestError, IsRefusal, QuorumExchange, QuorumLogin, SaslStream, SecurityLayer,
};
#[cfg(not(feature = "kerberos"))]
pub use sasl_off::{Accepted, Authenticator, IsRefusal, QuorumExchange, QuorumLogin};
#[cfg(feature = "tls")]
pub use tls::{TlsClient, TlsStream};
pub use tls_failure::TlsFailure;
pub use tls_keys::TlsKeys;
#[cfg(not(feature = "tls"))]
pub use tls_off::TlsClient;
pub use tls_options::{CIPHER_SUITES, TlsOptions, TlsVersion, checks_names};
pub use token_file::{
    TokenFileError, TokenFileFormat, TokenFormatError, decode_token_file, encode_token_file, read_token_file,
};
pub use token_format::{TokenError, decode_token};

/// Whether this build has TLS (feature `tls`).
pub const HAS_TLS: bool = cfg!(feature = "tls");

/// Whether this build has Kerberos and delegation tokens (feature `kerberos`).
pub const HAS_KERBEROS: bool = cfg!(feature = "kerberos");
