//! Reads of znodes over any stream.
//!
//! A [`Session`] speaks ZooKeeper's protocol with one server: it reads the data of znodes, and passes the
//! tokens of an authentication. It sends no heartbeats, sets no watches, and changes nothing. The caller
//! dials, chooses among the servers of a quorum, and limits the time.
//!
//! | file | contents |
//! |---|---|
//! | `frame` | the bytes: Jute records in frames |
//! | `session` | [`Session`], [`SessionError`] |
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use hbase_zookeeper::{Session, SessionError};
//! use tokio::{io::{AsyncRead, AsyncWrite}, time::timeout};
//!
//! async fn master<S>(stream: S) -> Result<Option<bytes::Bytes>, SessionError>
//! where
//!     S: AsyncRead + AsyncWrite + Unpin,
//! {
//!     let mut session = Session::open(stream, Duration::from_secs(4)).await?;
//!     let data = session.data("/hbase/master").await?;
//!     session.close().await?;
//!     Ok(data)
//! }
//! ```

mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod session;

pub use frame::{ErrorCode, FrameError};
pub use session::{Session, SessionError};
