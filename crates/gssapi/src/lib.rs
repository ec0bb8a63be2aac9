//! Kerberos for clients, through the GSSAPI library of the system.
//!
//! The library is loaded when it is first needed: nothing is linked, and no C headers are needed to
//! build. [`Context::initiate`] gets a ticket and returns the first token for a server.
//!
//! | file | contents |
//! |---|---|
//! | `sys` | the types and constants of the C interfaces |
//! | `library` | the library and its functions |
//! | `error` | [`Error`]: the kind, and what to do |
//! | `buffer` | [`Buffer`]: bytes that the library allocated |
//! | `status` | the statuses of calls, and the library's texts of them |
//! | `keytab` | the principals of a keytab file |
//! | `credentials` | [`Credentials`]: where the ticket comes from |
//! | `context` | [`Context`]: an authenticated exchange with one server |
//! | `kdc_time` | [`KdcTime`]: the time of a key distribution centre |
//!
//! All calls block: the first ones for files, name servers and key distribution centres, up to tens
//! of seconds. [`Context::wrap`] and [`Context::unwrap`] only compute.
//!
//! # Example
//!
//! ```
//! use hbase_gssapi::{Context, Credentials, ErrorKind, Service};
//!
//! let service = Service::host_based("hbase", "rs1.example.com");
//! let cache = Credentials::Cache("FILE:/no/such/cache".into());
//! let error = Context::initiate(&cache, &service).unwrap_err();
//! println!("{error}; {}", error.hint());
//! ```

mod buffer;
mod context;
mod credentials;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod kdc_time;
mod keytab;
mod library;
mod status;
mod sys;

pub use buffer::Buffer;
pub use context::{Context, Service, Unwrapped};
pub use credentials::{Credentials, Keytab};
pub use error::{Error, ErrorKind};
pub use kdc_time::KdcTime;
