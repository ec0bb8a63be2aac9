//! The state of the cluster, as the master tells it.

use hbase_protocol as pb;

use crate::{
    cluster::{
        call::{Answer, Call},
        server::{Role, Server, ServerIndex, ServerState},
        settings::version,
        world::World,
    },
    exception::Result,
    region::Region,
};

impl World {
    /// Answers with everything, whatever was asked: what a client did not ask for it ignores.
    pub(super) fn cluster_status(&self, call: &Call) -> Result<Answer> {
        let pb::GetClusterStatusRequest { options: _ } = call.decode()?;
        let live = self.live_servers().map(|server| pb::LiveServerInfo {
            server: self.server(server).name.message(),
            server_load: self.load(server),
        });
        let is_backup = |(number, server): &(usize, &Server)| {
            server.role == Role::Master
                && server.state != ServerState::Down
                && self.active_master != Some(ServerIndex(*number))
        };
        let backups = self.servers.iter().enumerate().filter(is_backup);
        let in_transition = self.regions.values().filter(|hosted| {
            let table = self.tables.get(&hosted.info.table);
            let is_enabled = table.is_some_and(|table| table.state == pb::table_state::State::Enabled);
            is_enabled && !hosted.is_open() && hosted.is_live()
        });
        let status = pb::ClusterStatus {
            hbase_version: Some(pb::HBaseVersionFileContent {
                version: version(self.settings.release).to_owned(),
            }),
            live_servers: live.collect(),
            dead_servers: self.dead_servers.iter().map(|name| name.message()).collect(),
            regions_in_transition: in_transition
                .map(|hosted| pb::RegionInTransition {
                    spec: hosted.info.specifier(),
                    region_state: pb::RegionState {
                        region_info: hosted.info.message(),
                        state: hosted.state.into(),
                        stamp: Some(hosted.since),
                    },
                })
                .collect(),
            cluster_id: Some(pb::ClusterId {
                cluster_id: "hbase-fake".to_owned(),
            }),
            master_coprocessors: Vec::new(),
            master: self
                .active_master
                .map(|master| self.server(master).name.message()),
            backup_masters: backups.map(|(_, server)| server.name.message()).collect(),
            balancer_on: Some(self.switches.balancer),
            master_info_port: None,
            servers_name: self
                .live_servers()
                .map(|server| self.server(server).name.message())
                .collect(),
            unknown_servers: Vec::new(),
            unknown_servers_of_3: Vec::new(),
        };
        Answer::of(&pb::GetClusterStatusResponse {
            cluster_status: status,
        })
    }

    fn load(&self, server: ServerIndex) -> pb::ServerLoad {
        let now = self.clock(server);
        let regions = self.regions.values().filter(|hosted| hosted.is_open_on(server));
        pb::ServerLoad {
            region_loads: regions
                .map(|hosted| {
                    let (files, memory) = hosted.region.as_ref().map(Region::size).unwrap_or_default();
                    pb::RegionLoad {
                        region_specifier: hosted.info.specifier(),
                        stores: None,
                        storefiles: None,
                        storefile_size_mb: Some(mebibytes(files)),
                        mem_store_size_mb: Some(mebibytes(memory)),
                        read_requests_count: Some(hosted.reads),
                        write_requests_count: Some(hosted.writes),
                    }
                })
                .collect(),
            report_start_time: Some(now),
            report_end_time: Some(now),
        }
    }
}

fn mebibytes(bytes: usize) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
}
