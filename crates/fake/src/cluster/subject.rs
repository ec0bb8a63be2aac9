//! What calls are about.

use bytes::Bytes;
use hbase_protocol as pb;
use prost::Message;

use super::{
    call::{Call, Service},
    names::{META_ENCODED, TableName, encoded_name},
    world::World,
};

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
