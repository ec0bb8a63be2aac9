//! Region servers and masters: their regions, configuration, logs and compactions, and their stop.

use futures::{StreamExt, stream};
use hbase_client::{
    Error, RegionInfo, Result, ServerName, ServiceKind,
    low_level::{CallKind, ServerTarget, call_server, convert, pb},
};

use crate::admin::{Admin, bad_answer};

/// A region, or a replica of it, that a region server has open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnlineRegion {
    /// The region. Of a replica, the primary, whose name calls expect.
    pub region: RegionInfo,
    /// The number of the replica; 0 for the primary.
    pub replica: u16,
}

/// The maximum number of servers that are called concurrently.
const CONCURRENCY: usize = 16;

impl Admin {
    /// Returns the regions that a region server has open now, by its own answer: replicas too, and in no
    /// order. [`regions`](Self::regions) has those of a table, as `hbase:meta` has them.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    pub async fn online_regions(&self, server: &ServerName) -> Result<Vec<OnlineRegion>> {
        let in_context = |error: Error| error.at_operation("listing the regions of a server");
        let request = pb::GetOnlineRegionRequest {};
        let answer: pb::GetOnlineRegionResponse = self
            .call_server(server, "GetOnlineRegion", CallKind::Read, &request)
            .await
            .map_err(in_context)?;
        let regions = answer.region_info.into_iter().map(OnlineRegion::of);
        regions.collect::<Result<_>>().map_err(in_context)
    }

    /// Lets a region server stop in order: it closes its regions, which the master then opens on other
    /// servers, and ends. Returns when it has begun to.
    ///
    /// [Decommission](Self::decommission_region_servers) it before with `offload`, and its regions move while
    /// it still serves them.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    pub async fn stop_region_server(&self, server: &ServerName) -> Result<()> {
        let request = pb::StopServerRequest {
            reason: "stopped by an administrator".to_owned(),
        };
        let _: pb::StopServerResponse = self
            .call_server(server, "StopServer", CallKind::Write, &request)
            .await
            .map_err(|error| error.at_operation("stopping a region server"))?;
        Ok(())
    }

    /// Lets the active master stop; a backup master takes over, if there is one. Region servers go on.
    /// Returns when it has begun to, and the name of the master. Never stops two: the call goes to that
    /// master alone.
    ///
    /// [`shut_down_cluster`](Self::shut_down_cluster) stops the region servers too.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn stop_master(&self) -> Result<ServerName> {
        let in_context = |error: Error| error.at_operation("stopping the master");
        let deadline = self.deadline();
        let status = self
            .until(deadline)
            .status(&[pb::ClusterStatusOption::Master])
            .await
            .map_err(in_context)?;
        let named = status
            .master
            .ok_or_else(|| in_context(bad_answer(&"it names no master")))?;
        let master = convert::server_name(&named).map_err(|error| in_context(bad_answer(&error)))?;
        let request = pb::StopMasterRequest {};
        let target = ServerTarget::Named(&master, ServiceKind::Master);
        let _: pb::StopMasterResponse = call_server(
            &self.connection,
            target,
            "StopMaster",
            CallKind::Write,
            &request,
            deadline,
        )
        .await
        .map_err(in_context)?;
        Ok(master)
    }

    /// Lets a region server or a master read its configuration files again. A change takes effect for
    /// those settings that HBase can change on a running server; others need a restart.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    pub async fn update_configuration(&self, server: &ServerName) -> Result<()> {
        let request = pb::UpdateConfigurationRequest {};
        let _: pb::UpdateConfigurationResponse = self
            .call_server(server, "UpdateConfiguration", CallKind::IdempotentWrite, &request)
            .await
            .map_err(|error| error.at_operation("updating the configuration of a server"))?;
        Ok(())
    }

    /// Lets all region servers, the active master and the backup masters read their configuration files
    /// again, as [`update_configuration`](Self::update_configuration) does one server.
    ///
    /// # Errors
    ///
    /// Returns an error of a server that could not be reached or did not allow it, after all others were
    /// called.
    pub async fn update_configuration_of_all(&self) -> Result<()> {
        let deadline = self.deadline();
        let in_context = |error: Error| error.at_operation("updating the configuration of all servers");
        let status = self
            .until(deadline)
            .status(&[
                pb::ClusterStatusOption::ServersName,
                pb::ClusterStatusOption::Master,
                pb::ClusterStatusOption::BackupMasters,
            ])
            .await
            .map_err(in_context)?;
        let masters = status.master.iter().chain(&status.backup_masters);
        let servers = status.servers_name.iter().chain(masters);
        let servers = servers.map(|name| convert::server_name(name).map_err(|error| bad_answer(&error)));
        let servers = servers.collect::<Result<Vec<_>>>().map_err(in_context)?;
        let admin = &self.until(deadline);
        let results = stream::iter(servers)
            .map(async |server| admin.update_configuration(&server).await)
            .buffer_unordered(CONCURRENCY)
            .collect::<Vec<_>>();
        results.await.into_iter().collect()
    }

    /// Lets a region server close its write-ahead log and begin a new one.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    pub async fn roll_wal_writer(&self, server: &ServerName) -> Result<()> {
        let request = pb::RollWalWriterRequest {};
        let _: pb::RollWalWriterResponse = self
            .call_server(server, "RollWALWriter", CallKind::IdempotentWrite, &request)
            .await
            .map_err(|error| error.at_operation("rolling the log of a region server"))?;
        Ok(())
    }

    /// Switches compactions on a region server on or off, until it restarts, and returns the previous
    /// state. Switching them off interrupts those that it executes.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    pub async fn compaction_switch(&self, server: &ServerName, on: bool) -> Result<bool> {
        let request = pb::CompactionSwitchRequest { enabled: on };
        let answer: pb::CompactionSwitchResponse = self
            .call_server(server, "CompactionSwitch", CallKind::Write, &request)
            .await
            .map_err(|error| error.at_operation("switching compactions on a region server"))?;
        Ok(answer.prev_state)
    }

    pub(crate) async fn call_server<M: prost::Message, R: prost::Message + Default>(
        &self,
        server: &ServerName,
        method: &'static str,
        kind: CallKind,
        request: &M,
    ) -> Result<R> {
        let target = ServerTarget::Named(server, ServiceKind::Admin);
        call_server(&self.connection, target, method, kind, request, self.deadline()).await
    }
}

impl OnlineRegion {
    fn of(message: pb::RegionInfo) -> Result<Self> {
        let replica = u16::try_from(message.replica_id());
        let replica = replica.map_err(|_| bad_answer(&"a region has a replica without a number"))?;
        let region = convert::named_region_info(message).map_err(|error| bad_answer(&error))?;
        Ok(Self { region, replica })
    }
}
