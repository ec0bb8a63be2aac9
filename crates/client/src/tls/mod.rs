//! TLS, by rustls with ring: the stores of Java and PEM files, whether a server is the one that was
//! dialled, and the handshake.
//!
//! | file | contents |
//! |---|---|
//! | `client` | `TlsClient`: handshakes, and stores that are read again when their files change |
//! | `stream` | `TlsStream`: a refusal that arrives after the handshake fails the first read |
//! | `verifier` | trust, names and the two repairs for certificates that Java accepts |
//! | `store` | stores of any format; `jks`, `pkcs12` with `pbe`, `pem`: the formats |
//! | `certificate`, `der` | the parts of certificates and keys that rustls does not provide |
//! | `failure` | `TlsFailure`: causes that another attempt does not fix |

mod certificate;
mod client;
mod contents;
mod der;
mod failure;
mod jks;
mod pbe;
mod pem;
mod pkcs12;
mod store;
mod stream;
mod verifier;

pub(crate) use client::TlsClient;
pub(crate) use failure::TlsFailure;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use store::read_all;
