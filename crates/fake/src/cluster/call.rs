//! A call, its answer, and what it is about.

use std::time::Duration;

use bytes::Bytes;
use hbase_protocol as pb;
use prost::Message;

use super::{
    names::{META_ENCODED, TableName, encoded_name},
    server::ServerIndex,
    world::World,
};
use crate::exception::{Exception, Result};

/// A service of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Service {
    Client,
    Admin,
    Master,
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
    pub(crate) user: String,
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
    if message.encoded_len() != bytes.len() || message.encode_to_vec() != bytes[..] {
        return Err(Exception::not_modelled(format_args!(
            "a field in the parameter of {method} that hbase-protocol does not have"
        )));
    }
    Ok(message)
}

/// What a call is about, for faults and traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The table, as `namespace:qualifier` or the qualifier alone.
    pub(crate) table: Option<String>,
    /// The encoded name of the region; the first one of a call with several.
    pub(crate) region: Option<String>,
    pub(crate) rows: Vec<Bytes>,
}

impl World {
    /// Returns what a call is about; nothing if its parameter can't be read.
    pub(crate) fn subject(&self, call: &Call) -> Subject {
        self.try_subject(call).unwrap_or_default()
    }

    fn try_subject(&self, call: &Call) -> Option<Subject> {
        let parameter = call.parameter.clone();
        let (specifier, rows) = match (call.service, call.method.as_str()) {
            (Service::Client, "Get") => {
                let request = pb::GetRequest::decode(parameter).ok()?;
                (request.region, vec![request.get.row])
            }
            (Service::Client, "Mutate") => {
                let request = pb::MutateRequest::decode(parameter).ok()?;
                (request.region, request.mutation.row.into_iter().collect())
            }
            (Service::Client, "Multi") => {
                let request = pb::MultiRequest::decode(parameter).ok()?;
                let actions = request.region_action.iter().flat_map(|action| &action.action);
                let rows = actions.filter_map(|action| match (&action.mutation, &action.get) {
                    (Some(mutation), _) => mutation.row.clone(),
                    (None, get) => get.as_ref().map(|get| get.row.clone()),
                });
                let rows = rows.collect();
                (request.region_action.into_iter().next()?.region, rows)
            }
            (Service::Client, "Scan") => {
                let request = pb::ScanRequest::decode(parameter).ok()?;
                match request.region {
                    Some(region) => (region, request.scan?.start_row.into_iter().collect()),
                    None => {
                        let scanners = &self.server(call.server).scanners;
                        return Some(self.subject_of(scanners.region(request.scanner_id?)?, Vec::new()));
                    }
                }
            }
            (Service::Client, "ExecService") => {
                let request = pb::CoprocessorServiceRequest::decode(parameter).ok()?;
                let rows = match request.call.method_name.as_str() {
                    "MutateRows" => {
                        let changes = pb::MutateRowsRequest::decode(request.call.request).ok()?;
                        let mutated = changes
                            .mutation_request
                            .into_iter()
                            .filter_map(|mutation| mutation.row);
                        mutated
                            .chain(changes.condition.into_iter().map(|condition| condition.row))
                            .collect()
                    }
                    _ => vec![request.call.row],
                };
                (request.region, rows)
            }
            (Service::Admin, _) => {
                // The region is the first field of each message with a region.
                let request = pb::GetStoreFileRequest::decode(parameter).ok()?;
                (request.region, Vec::new())
            }
            (Service::Master, _) => return Some(self.master_subject(call)),
            _ => return None,
        };
        Some(self.subject_of(encoded_name(&specifier), rows))
    }

    fn subject_of(&self, region: Bytes, rows: Vec<Bytes>) -> Subject {
        let hosted = self.regions.get(&region);
        let table = match &region[..] {
            META_ENCODED => Some(TableName::meta().to_string()),
            _ => hosted.map(|hosted| hosted.info.table.to_string()),
        };
        Subject {
            table,
            region: Some(String::from_utf8_lossy(&region).into_owned()),
            rows,
        }
    }

    fn master_subject(&self, call: &Call) -> Subject {
        let parameter = call.parameter.clone();
        let table = match call.method.as_str() {
            "CreateTable" => pb::CreateTableRequest::decode(parameter)
                .ok()
                .and_then(|request| request.table_schema.table_name),
            "SplitRegion" => pb::SplitTableRegionRequest::decode(parameter)
                .ok()
                .map(|request| request.region_info.table_name),
            // The table is the first field of each message with one.
            "DeleteTable" | "EnableTable" | "DisableTable" | "ModifyTable" | "truncateTable"
            | "FlushTable" | "AddColumn" | "ModifyColumn" | "DeleteColumn" | "GetTableState" => {
                pb::GetTableStateRequest::decode(parameter)
                    .ok()
                    .map(|request| request.table_name)
            }
            _ => None,
        };
        let table = table.and_then(|table| TableName::from_message(&table).ok());
        Subject {
            table: table.map(|table| table.to_string()),
            ..Subject::default()
        }
    }
}
