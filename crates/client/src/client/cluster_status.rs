//! The status of a cluster: servers, loads, switches.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::{Admin, admin::bad_answer};
use crate::{
    error::Result,
    model::{IntoTableName, RegionInfo, ServerName},
    wire::{convert, pb},
};

/// The status of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// The version of HBase on the master.
    pub version: String,
    /// The region servers that are up.
    pub live_servers: Vec<ServerName>,
    /// Region servers that have stopped since the master started.
    pub dead_servers: Vec<ServerName>,
    /// Regions that are being opened, closed, split or merged, or are stuck in that.
    pub regions_in_transition: Vec<RegionInTransition>,
}

/// A region that is not open: being assigned, split, merged or closed, or stuck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionInTransition {
    /// The region.
    pub region: RegionInfo,
    /// HBase's name of the state, such as `OPENING` or `FAILED_OPEN`.
    pub state: &'static str,
    /// When the state began, by the master's clock.
    pub since: Option<SystemTime>,
}

/// The last report of a region server to the master. Servers report every few seconds
/// (`hbase.regionserver.msginterval`, 3 s).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLoad {
    /// The server.
    pub server: ServerName,
    /// The time of the report, by the server's own clock.
    pub reported: Option<SystemTime>,
    /// The time at which the master answered the previous report, by the server's own clock.
    pub reported_before: Option<SystemTime>,
    /// Its regions.
    pub regions: Vec<RegionLoad>,
}

/// The size of a region, and its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionLoad {
    /// The region's full name.
    pub name: Bytes,
    /// The number of store files.
    pub store_files: u32,
    /// The size of the store files on disk, in whole MiB, rounded down.
    pub store_files_mib: u32,
    /// The size of the data in memory only, in whole MiB, rounded down.
    pub memstore_mib: u32,
    /// The number of rows read since the region was opened.
    pub reads: u64,
    /// The number of rows written since the region was opened.
    pub writes: u64,
}

impl Admin {
    /// Returns HBase's version, the live and dead servers, and the regions in transition.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn cluster_info(&self) -> Result<ClusterInfo> {
        let status = self
            .status(&[
                pb::ClusterStatusOption::HbaseVersion,
                pb::ClusterStatusOption::ServersName,
                pb::ClusterStatusOption::DeadServers,
                pb::ClusterStatusOption::RegionsInTransition,
            ])
            .await?;
        let servers = |names: &[pb::ServerName]| -> Result<Vec<ServerName>> {
            let names = names.iter().map(convert::server_name);
            names
                .map(|name| name.map_err(|error| bad_answer(&error)))
                .collect()
        };
        Ok(ClusterInfo {
            live_servers: servers(&status.servers_name)?,
            dead_servers: servers(&status.dead_servers)?,
            regions_in_transition: status
                .regions_in_transition
                .into_iter()
                .map(in_transition)
                .collect::<Result<_>>()?,
            version: status
                .hbase_version
                .map(|version| version.version)
                .unwrap_or_default(),
        })
    }

    /// Returns the last report of each live region server. The answer contains every region of
    /// every table, so it is large for a large cluster.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn server_loads(&self) -> Result<Vec<ServerLoad>> {
        let status = self.status(&[pb::ClusterStatusOption::LiveServers]).await?;
        let servers = status.live_servers.into_iter();
        servers
            .map(|live| {
                let load = live.server_load;
                Ok(ServerLoad {
                    server: convert::server_name(&live.server).map_err(|error| bad_answer(&error))?,
                    reported: load.report_end_time.filter(|time| *time > 0).map(moment),
                    reported_before: load.report_start_time.filter(|time| *time > 0).map(moment),
                    regions: load.region_loads.into_iter().map(region_load).collect(),
                })
            })
            .collect()
    }

    /// Returns whether the master splits regions, of any table.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn is_split_enabled(&self) -> Result<bool> {
        self.is_enabled(pb::MasterSwitchType::Split).await
    }

    /// Returns whether the master merges regions, of any table.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn is_merge_enabled(&self) -> Result<bool> {
        self.is_enabled(pb::MasterSwitchType::Merge).await
    }

    /// Switches splits of regions on or off, for all tables, and returns the previous state.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn split_switch(&self, on: bool) -> Result<bool> {
        self.switch(pb::MasterSwitchType::Split, on).await
    }

    /// Switches merges of regions on or off, for all tables, and returns the previous state.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn merge_switch(&self, on: bool) -> Result<bool> {
        self.switch(pb::MasterSwitchType::Merge, on).await
    }

    /// Returns whether the master's balancer moves regions.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn is_balancer_enabled(&self) -> Result<bool> {
        let request = pb::IsBalancerEnabledRequest {};
        let answer: pb::IsBalancerEnabledResponse = self.call("IsBalancerEnabled", &request).await?;
        Ok(answer.enabled)
    }

    /// Switches the balancer on or off, and returns the previous state. Waits for a balancing that
    /// is under way.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn balancer_switch(&self, on: bool) -> Result<bool> {
        let request = pb::SetBalancerRunningRequest {
            on,
            synchronous: Some(true),
        };
        let answer: pb::SetBalancerRunningResponse = self
            .call_until("SetBalancerRunning", &request, self.deadline())
            .await?;
        was(answer.prev_balance_value)
    }

    /// Lets the balancer run now. Returns whether it did: not if it is switched off, or if regions
    /// are in transition.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn balance(&self) -> Result<bool> {
        let request = pb::BalanceRequest::default();
        let answer: pb::BalanceResponse = self.call_until("Balance", &request, self.deadline()).await?;
        Ok(answer.balancer_ran)
    }

    /// Returns whether the master's normalizer splits and merges regions by their sizes.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn is_normalizer_enabled(&self) -> Result<bool> {
        let request = pb::IsNormalizerEnabledRequest {};
        let answer: pb::IsNormalizerEnabledResponse = self.call("IsNormalizerEnabled", &request).await?;
        Ok(answer.enabled)
    }

    /// Switches the normalizer on or off, and returns the previous state.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn normalizer_switch(&self, on: bool) -> Result<bool> {
        let request = pb::SetNormalizerRunningRequest { on };
        let answer: pb::SetNormalizerRunningResponse = self
            .call_until("SetNormalizerRunning", &request, self.deadline())
            .await?;
        was(answer.prev_normalizer_value)
    }

    /// Lets the normalizer run now, for all tables that ask for it (`NORMALIZATION_ENABLED`).
    /// Returns whether it did.
    ///
    /// # Errors
    ///
    /// Returns an error if the master can't be reached or does not allow it.
    pub async fn normalize(&self) -> Result<bool> {
        let request = pb::NormalizeRequest::default();
        let answer: pb::NormalizeResponse = self.call_until("Normalize", &request, self.deadline()).await?;
        Ok(answer.normalizer_ran)
    }

    async fn is_enabled(&self, switch: pb::MasterSwitchType) -> Result<bool> {
        let request = pb::IsSplitOrMergeEnabledRequest {
            switch_type: switch.into(),
        };
        let answer: pb::IsSplitOrMergeEnabledResponse = self.call("IsSplitOrMergeEnabled", &request).await?;
        Ok(answer.enabled)
    }

    async fn switch(&self, switch: pb::MasterSwitchType, on: bool) -> Result<bool> {
        let request = pb::SetSplitOrMergeEnabledRequest {
            enabled: on,
            synchronous: Some(true),
            switch_types: vec![switch.into()],
        };
        let answer: pb::SetSplitOrMergeEnabledResponse = self
            .call_until("SetSplitOrMergeEnabled", &request, self.deadline())
            .await?;
        was(answer.prev_value.first().copied())
    }

    /// Returns the time of a table's oldest store file that a major compaction wrote. `None` if a region
    /// has no such file. The master knows it from the reports of region servers.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn last_major_compaction_timestamp(
        &self,
        table: impl IntoTableName,
    ) -> Result<Option<SystemTime>> {
        let table = &table.into_table_name()?;
        let request = pb::MajorCompactionTimestampRequest {
            table_name: convert::table_name_message(table),
        };
        let answer: pb::MajorCompactionTimestampResponse = self
            .call("getLastMajorCompactionTimestamp", &request)
            .await
            .map_err(|error| error.at_table(table))?;
        Ok(compaction_time(&answer))
    }

    /// Returns the same as
    /// [`last_major_compaction_timestamp`](Self::last_major_compaction_timestamp), of a region.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn last_major_compaction_timestamp_for_region(
        &self,
        region: &RegionInfo,
    ) -> Result<Option<SystemTime>> {
        let request = pb::MajorCompactionTimestampForRegionRequest {
            region: convert::region_specifier(region),
        };
        let answer: pb::MajorCompactionTimestampResponse = self
            .call("getLastMajorCompactionTimestampForRegion", &request)
            .await
            .map_err(|error| error.at_table(&region.table))?;
        Ok(compaction_time(&answer))
    }

    pub(super) async fn status(&self, options: &[pb::ClusterStatusOption]) -> Result<pb::ClusterStatus> {
        let request = pb::GetClusterStatusRequest {
            options: options.iter().map(|option| (*option).into()).collect(),
        };
        let answer: pb::GetClusterStatusResponse = self.call("GetClusterStatus", &request).await?;
        Ok(answer.cluster_status)
    }
}

fn in_transition(message: pb::RegionInTransition) -> Result<RegionInTransition> {
    let state = message.region_state;
    let name = message.spec.value;
    Ok(RegionInTransition {
        state: state.state().as_str_name(),
        since: state.stamp.map(moment),
        region: convert::region_info(name, state.region_info).map_err(|error| bad_answer(&error))?,
    })
}

fn region_load(message: pb::RegionLoad) -> RegionLoad {
    RegionLoad {
        store_files: message.storefiles(),
        store_files_mib: message.storefile_size_mb(),
        memstore_mib: message.mem_store_size_mb(),
        reads: message.read_requests_count(),
        writes: message.write_requests_count(),
        name: message.region_specifier.value,
    }
}

/// Converts a server's time, in milliseconds since 1970.
pub(super) fn moment(milliseconds: u64) -> SystemTime {
    let since = Duration::from_millis(milliseconds);
    SystemTime::UNIX_EPOCH
        .checked_add(since)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

fn compaction_time(answer: &pb::MajorCompactionTimestampResponse) -> Option<SystemTime> {
    let milliseconds = u64::try_from(answer.compaction_timestamp).ok();
    milliseconds.filter(|time| *time > 0).map(moment)
}

/// Returns the previous state of a switch.
pub(super) fn was(state: Option<bool>) -> Result<bool> {
    state.ok_or_else(|| bad_answer(&"it does not say how the switch was"))
}
