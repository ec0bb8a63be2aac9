//! Region servers that the master gives no regions.

use hbase_client::{
    Error, RegionInfo, Result, ServerName,
    low_level::{Pauses, convert, pb},
};
use prost::Message;
use tokio::time::Instant;

use crate::{
    admin::{Admin, bad_answer, is_class},
    change::Request,
    procedure::seen_after_change,
};

impl Admin {
    /// Returns the decommissioned region servers.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn decommissioned_region_servers(&self) -> Result<Vec<ServerName>> {
        let request = pb::ListDecommissionedRegionServersRequest {};
        let answer: pb::ListDecommissionedRegionServersResponse = self
            .call("ListDecommissionedRegionServers", &request)
            .await
            .map_err(|error| error.at_operation("listing the decommissioned region servers"))?;
        let servers = answer.server_name.iter();
        servers
            .map(|name| convert::server_name(name).map_err(|error| bad_answer(&error)))
            .collect()
    }

    /// Decommissions region servers: the master gives them no more regions. If `offload`, it also
    /// begins to move their regions to other servers, and continues on its own; wait until
    /// [`server_loads`](Self::server_loads) shows none. Does nothing for those that are
    /// decommissioned.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](hbase_client::ErrorKind::InvalidInput) for no servers, and for one that is
    /// not up; the others are decommissioned then.
    pub async fn decommission_region_servers(&self, servers: &[ServerName], offload: bool) -> Result<()> {
        let in_context = |error: Error| error.at_operation("decommissioning region servers");
        if servers.is_empty() {
            return Err(in_context(Error::invalid("no region servers")));
        }
        let request = pb::DecommissionRegionServersRequest {
            server_name: servers.iter().map(convert::server_name_message).collect(),
            offload,
        };
        let deadline = self.deadline();
        let _: pb::DecommissionRegionServersResponse = self
            .move_until("DecommissionRegionServers", &request, deadline)
            .await
            .map_err(in_context)?;
        // The master ignores servers that it does not know.
        let found = self.until(deadline).decommissioned_region_servers().await;
        let found = seen_after_change(found).map_err(in_context)?;
        match servers.iter().find(|server| !found.contains(server)) {
            Some(server) => Err(in_context(Error::invalid(format!(
                "the master knows no live region server {server}"
            )))),
            None => Ok(()),
        }
    }

    /// Lets the master give a region server regions again, and moves these regions there. Does
    /// nothing for one that is not decommissioned.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn recommission_region_server(
        &self,
        server: &ServerName,
        regions: &[RegionInfo],
    ) -> Result<()> {
        let request = pb::RecommissionRegionServerRequest {
            server_name: convert::server_name_message(server),
            region: regions.iter().map(convert::encoded_region_specifier).collect(),
        };
        let _: pb::RecommissionRegionServerResponse = self
            .move_until("RecommissionRegionServer", &request, self.deadline())
            .await
            .map_err(|error| {
                error
                    .at_operation("recommissioning a region server")
                    .at_server(&server.address())
            })?;
        Ok(())
    }

    /// Sends a change that moves regions, again if one of them is in transition: the master then
    /// leaves the others where they are.
    async fn move_until<M: Request, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let mut pauses = Pauses::polling();
        loop {
            match self.call_until(method, request, deadline).await {
                Err(error) if is_in_transition(&error) && pauses.wait_before(deadline).await => {}
                answer => return answer,
            }
        }
    }
}

fn is_in_transition(error: &Error) -> bool {
    is_class(error, "HBaseIOException")
        && error
            .remote()
            .is_some_and(|remote| remote.message.contains("is currently in transition"))
}
