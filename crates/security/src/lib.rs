//! The security of connections to Apache HBase and ZooKeeper.
//!
//! A [`TlsClient`] takes a stream and the name of a server, and returns a stream. The caller dials, and
//! limits the time.
//!
//! The types are the same in every build. Without the feature `tls`, a [`TlsClient`] refuses every handshake
//! with an error that names the feature, so a caller compiles and fails safely without it.
//!
//! | file | contents |
//! |---|---|
//! | `error` | [`ErrorKind`]: who can fix a failure |
//! | `tls_options` | [`TlsOptions`]: what is trusted, what is presented, and limits |
//! | `tls_keys` | [`TlsKeys`]: the names of these settings in `hbase-site.xml` |
//! | `tls_failure` | [`TlsFailure`]: failures that another attempt does not fix |
//! | `tls` | [`TlsClient`]: handshakes, key stores, and the check of certificates |
//! | `tls_off` | its counterpart without the feature |

mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "tls")]
mod tls;
mod tls_failure;
mod tls_keys;
#[cfg(not(feature = "tls"))]
mod tls_off;
mod tls_options;

pub use error::ErrorKind;
#[cfg(feature = "tls")]
pub use tls::{TlsClient, TlsStream};
pub use tls_failure::TlsFailure;
pub use tls_keys::TlsKeys;
#[cfg(not(feature = "tls"))]
pub use tls_off::TlsClient;
pub use tls_options::{CIPHER_SUITES, TlsOptions, TlsVersion, checks_names};

/// Whether this build has TLS (feature `tls`).
pub const HAS_TLS: bool = cfg!(feature = "tls");
