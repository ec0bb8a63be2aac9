//! Assignments of single regions.

use hbase_client::{
    Error, RegionInfo, Result,
    low_level::{convert, pb},
};

use crate::admin::{Admin, is_class};

impl Admin {
    /// Lets the master open a region on a server of its choice. Does nothing if it is open.
    ///
    /// The master's own procedures assign the regions of enabled tables, also after a server has died.
    /// Use this for a region that was [unassigned](Self::unassign_region), or that could not be opened
    /// and whose cause is removed.
    ///
    /// # Errors
    ///
    /// Returns an error of the server for a region in transition or of a disabled table, and
    /// [`RegionNotFound`](hbase_client::ErrorKind::RegionNotFound) if the master does not know it.
    pub async fn assign_region(&self, region: &RegionInfo) -> Result<()> {
        let request = pb::AssignRegionRequest {
            region: convert::region_specifier(region),
            r#override: None,
        };
        let assigned: Result<pb::AssignRegionResponse> =
            self.call_until("AssignRegion", &request, self.deadline()).await;
        match assigned {
            Err(error) if !is_in_state(&error, "OPEN") => {
                Err(error.at_operation("assigning a region").at_table(&region.table))
            }
            _ => Ok(()),
        }
    }

    /// Lets the master close a region. Does nothing if it is closed. Its rows cannot be read or written
    /// until it is [assigned](Self::assign_region), or its table is disabled and enabled.
    ///
    /// To give a region to another server, [move](Self::move_region) it: the master then closes and opens
    /// it in one procedure, which goes on if the client ends.
    ///
    /// # Errors
    ///
    /// Returns an error of the server for a region in transition, and
    /// [`RegionNotFound`](hbase_client::ErrorKind::RegionNotFound) if the master does not know it.
    pub async fn unassign_region(&self, region: &RegionInfo) -> Result<()> {
        let request = pb::UnassignRegionRequest {
            region: convert::region_specifier(region),
            force: None,
        };
        let unassigned: Result<pb::UnassignRegionResponse> =
            self.call_until("UnassignRegion", &request, self.deadline()).await;
        match unassigned {
            Err(error) if !is_in_state(&error, "CLOSED") => {
                Err(error.at_operation("unassigning a region").at_table(&region.table))
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether the master refused because the region is in this state already, perhaps by an
/// earlier attempt of the same call: it has no nonce (`AssignmentManager.preTransitCheck`).
fn is_in_state(error: &Error, state: &str) -> bool {
    is_class(error, "DoNotRetryRegionException")
        && error.remote().is_some_and(|remote| {
            let unexpected = format!("Unexpected state for state={state},");
            remote.message.contains(&unexpected)
        })
}
