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
//! | `failure` | the causes of failed handshakes, and what to do |

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

pub use client::TlsClient;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use store::read_all;
pub use stream::TlsStream;
