//! The registry: where the masters and `hbase:meta` are.

use hbase_protocol as pb;

use super::{
    call::{Answer, Call},
    names::{META_ENCODED, RegionInfo},
    server::{Role, ServerState},
    world::World,
};
use crate::{
    exception::{Exception, Result},
    region::Release,
};

/// The id of every fake cluster.
const CLUSTER_ID: &str = "hbase-fake";

impl World {
    pub(super) fn registry(&self, call: &Call) -> Result<Answer> {
        let has_nodes = !matches!(self.settings.release, Release::V2_4_2 | Release::V2_4);
        match call.method.as_str() {
            "GetClusterId" => {
                let pb::GetClusterIdRequest {} = call.decode()?;
                Answer::of(&pb::GetClusterIdResponse {
                    cluster_id: Some(CLUSTER_ID.to_owned()),
                })
            }
            "GetActiveMaster" => {
                let pb::GetActiveMasterRequest {} = call.decode()?;
                Answer::of(&pb::GetActiveMasterResponse {
                    server_name: self
                        .active_master
                        .map(|master| self.server(master).name.message()),
                })
            }
            "GetMasters" => {
                let pb::GetMastersRequest {} = call.decode()?;
                Answer::of(&pb::GetMastersResponse {
                    master_servers: self.masters(),
                })
            }
            "GetMetaRegionLocations" => {
                let pb::GetMetaRegionLocationsRequest {} = call.decode()?;
                let meta = self.hosted(META_ENCODED)?;
                let location = pb::RegionLocation {
                    region_info: RegionInfo::meta().message(),
                    server_name: meta.location.as_ref().map(|name| name.message()),
                    seq_num: 0,
                };
                let meta_locations = if self.meta_is_open() {
                    vec![location]
                } else {
                    Vec::new()
                };
                Answer::of(&pb::GetMetaRegionLocationsResponse { meta_locations })
            }
            "GetBootstrapNodes" if has_nodes => {
                let pb::GetBootstrapNodesRequest {} = call.decode()?;
                let servers = self.servers.iter().filter(|server| {
                    server.role == Role::Region && matches!(server.state, ServerState::Up { .. })
                });
                Answer::of(&pb::GetBootstrapNodesResponse {
                    server_name: servers.map(|server| server.name.message()).collect(),
                })
            }
            method => Err(unknown_method(method)),
        }
    }

    fn masters(&self) -> Vec<pb::GetMastersResponseEntry> {
        let masters = self.servers.iter().enumerate();
        masters
            .filter(|(_, server)| server.role == Role::Master && server.state != ServerState::Down)
            .map(|(number, server)| pb::GetMastersResponseEntry {
                server_name: server.name.message(),
                is_active: self.active_master.is_some_and(|master| master.0 == number),
            })
            .collect()
    }

    /// Returns the answer to the preamble `Regist`, which only 2.6 knows.
    pub(crate) fn registry_preamble(&self) -> Option<String> {
        (self.settings.release == Release::V2_6).then(|| CLUSTER_ID.to_owned())
    }
}

pub(super) fn unknown_method(method: &str) -> Exception {
    Exception::do_not_retry(format!("java.lang.UnsupportedOperationException: {method}"))
}
