//! One connection to one service of one server: its transport, its user, its calls, and the meaning
//! of each failure.
//!
//! | file | contents |
//! |---|---|
//! | `connector` | [`Connector`]: how to dial, a hook for users behind tunnels and for fault injection |
//! | `connection` | `RpcConnection`: many calls in flight on one socket |
//! | `dialler` | how connections are opened, and whether the server can use their compressor |
//! | `frame_queue` | requests that wait for the socket, written together |
//! | `pool` | `RpcClient`: the connections of a client, one per server and service |
//! | `security` | how connections are authenticated |
//! | `registry_query` | questions to a server of the registry: its principal, and the id of its cluster |
//! | `authentication_probe` | whether a server that hangs up requires authentication, or no TLS |
//! | `tls_probe` | whether a server that hangs up speaks TLS |
//! | `call_error` | the failures of one call, and whether it may have been applied |
//! | `remote_exception` | the meaning of each Java exception |
//!
//! Invariants: a call that times out or is dropped disturbs no other call on its connection; when a
//! connection ends, every call on it receives the same cause, and whether its bytes were handed to
//! the socket.

mod authentication_probe;
mod call_error;
mod connection;
mod connector;
mod dialler;
mod frame_queue;
mod pool;
mod registry_query;
mod remote_exception;
mod security;
mod tls_probe;

pub use call_error::KEEP_THE_RUNTIME;
pub(crate) use call_error::{CHECK_THE_SERVER, CallError, rounded};
pub(crate) use connection::AttemptLimit;
pub(crate) use connector::no_connection;
pub use connector::{Connector, DialTarget, Io, ServiceKind, TcpConnector};
#[cfg(feature = "zookeeper")]
pub(crate) use connector::{dial_mapped, dial_tcp};
pub(crate) use pool::{Call, CallOptions, RpcClient};
pub use remote_exception::Classification;
pub(crate) use remote_exception::Recovery;
#[cfg(feature = "zookeeper")]
pub(crate) use security::kind_of;
#[cfg(feature = "zookeeper")]
pub(crate) use tls_probe::answers_in_tls;
