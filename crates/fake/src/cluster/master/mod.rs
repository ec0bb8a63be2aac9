//! `MasterService`: tables, regions, and the state of the cluster.

mod namespaces;
mod procedure;
mod schema;
mod status;
mod tables;

use bytes::Bytes;
use hbase_protocol as pb;

use super::{
    call::{Answer, Call},
    names::{RegionInfo, encoded_name, text},
    registry::unknown_method,
    server::ServerIndex,
    world::World,
};
use crate::{
    exception::{Exception, Result},
    region::Release,
};

/// Methods of a real master that are refused.
const NOT_MODELLED: [&str; 20] = [
    "truncateTable",
    "AddColumn",
    "ModifyColumn",
    "DeleteColumn",
    "AbortProcedure",
    "ListNamespaces",
    "ModifyNamespace",
    "DeleteNamespace",
    "ListTableNamesByNamespace",
    "AssignRegion",
    "UnassignRegion",
    "SetBalancerRunning",
    "IsBalancerEnabled",
    "Balance",
    "HasUserPermissions",
    "ExecMasterService",
    "Snapshot",
    "DeleteSnapshot",
    "RestoreSnapshot",
    "Shutdown",
];

impl World {
    pub(super) fn master_service(&mut self, call: &Call) -> Result<Answer> {
        self.check_active_master(call)?;
        match call.method.as_str() {
            "CreateTable" => self.create_table_call(call),
            "DeleteTable" => self.delete_table(call),
            "EnableTable" => self.enable_table(call),
            "DisableTable" => self.disable_table(call),
            "ModifyTable" => self.modify_table(call),
            "FlushTable" if self.settings.release >= Release::V2_6 => self.flush_table(call),
            "GetSchemaAlterStatus" => self.alter_status(call),
            "GetTableDescriptors" => self.table_descriptors(call),
            "GetTableNames" => self.table_names(call),
            "GetTableState" => self.table_state(call),
            "getProcedureResult" => self.procedure_result(call),
            "GetProcedures" => {
                let pb::GetProceduresRequest {} = call.decode()?;
                Answer::of(&pb::GetProceduresResponse::default())
            }
            "MoveRegion" => self.move_region_call(call),
            "SplitRegion" => self.split_region(call),
            "MergeTableRegions" => self.merge_regions(call),
            "SetSplitOrMergeEnabled" => self.set_switches(call),
            "IsSplitOrMergeEnabled" => self.switch_state(call),
            "GetClusterStatus" => self.cluster_status(call),
            "IsMasterRunning" => {
                let pb::IsMasterRunningRequest {} = call.decode()?;
                Answer::of(&pb::IsMasterRunningResponse {
                    is_master_running: true,
                })
            }
            "CreateNamespace" => self.create_namespace(call),
            "GetNamespaceDescriptor" => self.namespace(call),
            "ListNamespaceDescriptors" => {
                let pb::ListNamespaceDescriptorsRequest {} = call.decode()?;
                Answer::of(&pb::ListNamespaceDescriptorsResponse {
                    namespace_descriptor: self.namespaces.values().cloned().collect(),
                })
            }
            "getSecurityCapabilities" => {
                let pb::SecurityCapabilitiesRequest {} = call.decode()?;
                Answer::of(&pb::SecurityCapabilitiesResponse {
                    capabilities: vec![
                        pb::security_capabilities_response::Capability::SimpleAuthentication.into(),
                    ],
                })
            }
            method if NOT_MODELLED.contains(&method) => Err(Exception::not_modelled(method)),
            method => Err(unknown_method(method)),
        }
    }

    /// Returns an error if the server of a call is not the active master.
    pub(super) fn check_active_master(&self, call: &Call) -> Result<()> {
        if self.active_master == Some(call.server) {
            return Ok(());
        }
        let name = &self.server(call.server).name;
        Err(Exception::new(
            "ipc.ServerNotRunningYetException",
            format!("Server {name} is not running yet"),
        ))
    }

    fn known_region(&self, specifier: &pb::RegionSpecifier) -> Result<Bytes> {
        let encoded = encoded_name(specifier);
        if self.regions.contains_key(&encoded) {
            Ok(encoded)
        } else {
            Err(Exception::new("UnknownRegionException", text(&specifier.value)))
        }
    }

    fn move_region_call(&mut self, call: &Call) -> Result<Answer> {
        let pb::MoveRegionRequest {
            region,
            dest_server_name,
        } = call.decode()?;
        let encoded = self.known_region(&region)?;
        let to =
            match dest_server_name {
                Some(name) => {
                    let servers = self.servers.iter();
                    let found = servers
                        .map(|server| server.name.message())
                        .position(|other| other == name);
                    ServerIndex(found.ok_or_else(|| {
                        Exception::do_not_retry(format!("{} is not online", name.host_name))
                    })?)
                }
                None => {
                    let from = self.hosted(&encoded)?.serving;
                    let mut servers = self.live_servers().filter(|server| Some(*server) != from);
                    servers
                        .next()
                        .ok_or_else(|| Exception::do_not_retry("there is no other server"))?
                }
            };
        if self.check_open_region(&encoded)?.serving != Some(to) {
            self.reassign(&encoded, Some(to))?;
        }
        Answer::of(&pb::MoveRegionResponse {})
    }

    fn split_region(&mut self, call: &Call) -> Result<Answer> {
        let pb::SplitTableRegionRequest {
            region_info,
            split_row,
            nonce_group,
            nonce,
        } = call.decode()?;
        if !self.switches.split {
            return Err(Exception::do_not_retry("split is disabled"));
        }
        let start = region_info.start_key.unwrap_or_default();
        let table = super::names::TableName::from_message(&region_info.table_name)?;
        let info = RegionInfo::new(table, start, Bytes::new(), region_info.region_id);
        let encoded = self.known_region(&info.specifier())?;
        let row = match split_row {
            Some(row) => self.restricted_split_row(&encoded, row)?,
            None => self.split_point(&encoded)?,
        };
        let wall = self.wall;
        let number = self.procedure((nonce_group, nonce), |world| {
            Ok(world.split(&encoded, &row, wall)?.to_vec())
        })?;
        Answer::of(&pb::SplitTableRegionResponse {
            proc_id: Some(number),
        })
    }

    fn merge_regions(&mut self, call: &Call) -> Result<Answer> {
        let pb::MergeTableRegionsRequest {
            region,
            forcible: _,
            nonce_group,
            nonce,
        } = call.decode()?;
        if !self.switches.merge {
            return Err(Exception::do_not_retry("merge is disabled"));
        }
        let regions = region.iter().map(|region| self.known_region(region));
        let regions = regions.collect::<Result<Vec<_>>>()?;
        let wall = self.wall;
        let number = self.procedure((nonce_group, nonce), |world| {
            Ok(vec![world.merge(&regions, wall)?])
        })?;
        Answer::of(&pb::MergeTableRegionsResponse {
            proc_id: Some(number),
        })
    }

    fn set_switches(&mut self, call: &Call) -> Result<Answer> {
        let request: pb::SetSplitOrMergeEnabledRequest = call.decode()?;
        let mut prev_value = Vec::new();
        for switch in request.switch_types() {
            let state = match switch {
                pb::MasterSwitchType::Split => &mut self.switches.split,
                pb::MasterSwitchType::Merge => &mut self.switches.merge,
            };
            prev_value.push(std::mem::replace(state, request.enabled));
        }
        Answer::of(&pb::SetSplitOrMergeEnabledResponse { prev_value })
    }

    fn switch_state(&self, call: &Call) -> Result<Answer> {
        let request: pb::IsSplitOrMergeEnabledRequest = call.decode()?;
        let enabled = match request.switch_type() {
            pb::MasterSwitchType::Split => self.switches.split,
            pb::MasterSwitchType::Merge => self.switches.merge,
        };
        Answer::of(&pb::IsSplitOrMergeEnabledResponse { enabled })
    }
}
