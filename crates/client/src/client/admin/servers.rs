//! Region servers and masters: their configuration, logs and compactions.

use futures::{StreamExt, stream};

use super::{Admin, bad_answer};
use crate::{
    error::{Error, Result},
    model::ServerName,
    wire::{convert, pb},
};

/// The maximum number of servers that are called concurrently.
const CONCURRENCY: usize = 16;

impl Admin {
    /// Lets a region server or a master read its configuration files again. A change takes effect for
    /// those settings that HBase can change on a running server; others need a restart.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached or does not allow it.
    pub async fn update_configuration(&self, server: &ServerName) -> Result<()> {
        let request = pb::UpdateConfigurationRequest {};
        let _: pb::UpdateConfigurationResponse = self
            .call_server(server, "UpdateConfiguration", &request)
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
            .call_server(server, "RollWALWriter", &request)
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
            .call_server(server, "CompactionSwitch", &request)
            .await
            .map_err(|error| error.at_operation("switching compactions on a region server"))?;
        Ok(answer.prev_state)
    }

    async fn call_server<M: prost::Message, R: prost::Message + Default>(
        &self,
        server: &ServerName,
        method: &'static str,
        request: &M,
    ) -> Result<R> {
        let cluster = &self.connection.shared.cluster;
        cluster
            .call_server(server, method, request, self.deadline())
            .await
    }
}
