//! A call, its answer, and what it is about.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use super::server::ServerIndex;
use crate::exception::{Exception, Result};

/// A service of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Service {
    Client,
    Admin,
    Master,
    /// Locks on names, on the master.
    Lock,
    /// The registry.
    ClientMeta,
}

impl Service {
    /// Returns the service with this name in a connection's header.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "ClientService" => Self::Client,
            "AdminService" => Self::Admin,
            "MasterService" => Self::Master,
            "LockService" => Self::Lock,
            "ClientMetaService" => Self::ClientMeta,
            _ => return None,
        })
    }
}

/// A call as it arrived at a server.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) server: ServerIndex,
    pub(crate) service: Service,
    /// Whether the connection's codec has tags.
    pub(crate) tags: bool,
    /// Whether the connection has a codec; without one all cells are inside messages.
    pub(crate) has_codec: bool,
    pub(crate) id: u32,
    pub(crate) method: String,
    pub(crate) parameter: Bytes,
    /// The cell block.
    pub(crate) cells: Bytes,
    pub(crate) timeout: Option<Duration>,
    /// The number of cells after which a scan's time is over.
    pub(crate) cells_in_time: Option<u64>,
}

/// The answer to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    /// The cell block.
    pub(crate) cells: Bytes,
}

impl Answer {
    pub(super) fn of(message: &impl Message) -> Result<Self> {
        Self::with_cells(message, Bytes::new())
    }

    pub(super) fn with_cells(message: &impl Message, cells: Bytes) -> Result<Self> {
        Ok(Self {
            message: message.encode_to_vec(),
            cells,
        })
    }
}

impl Call {
    /// Decodes the parameter, and refuses fields that the messages do not have.
    pub(super) fn decode<M: Message + Default>(&self) -> Result<M> {
        decode(&self.parameter, &self.method)
    }
}

/// Decodes the parameter of a method, and refuses fields that the messages do not have.
pub(super) fn decode<M: Message + Default>(bytes: &Bytes, method: &str) -> Result<M> {
    let message = M::decode(bytes.clone()).map_err(|error| {
        Exception::do_not_retry(format!("the parameter of {method} can't be read: {error}"))
    })?;
    // A field that is not known is missing in the length. The bytes show more, at a tenth of the time
    // of a simulation.
    let is_whole = message.encoded_len() == bytes.len()
        && (cfg!(not(debug_assertions)) || message.encode_to_vec() == bytes[..]);
    if !is_whole {
        return Err(Exception::not_modelled(format_args!(
            "a field in the parameter of {method} that hbase-protocol does not have"
        )));
    }
    Ok(message)
}
