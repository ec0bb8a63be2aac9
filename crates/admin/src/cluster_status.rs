//! The status of a cluster: servers, loads, switches.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hbase_client::{
    Error, ErrorKind, IntoTableName, RegionInfo, Result, ServerName,
    low_level::{convert, pb},
};

use crate::admin::{Admin, bad_answer};

/// The status of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// The unique id that the cluster got when it was created.
    pub cluster_id: String,
    /// The version of HBase on the master.
    pub version: String,
    /// The active master.
    pub master: Option<ServerName>,
    /// Masters that take over if the active one stops.
    pub backup_masters: Vec<ServerName>,
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
    /// Returns the cluster's id, HBase's version, masters, live and dead servers, and the regions in transition.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn cluster_info(&self) -> Result<ClusterInfo> {
        let status = self
            .status(&[
                pb::ClusterStatusOption::ClusterId,
                pb::ClusterStatusOption::HbaseVersion,
                pb::ClusterStatusOption::Master,
                pb::ClusterStatusOption::BackupMasters,
                pb::ClusterStatusOption::ServersName,
                pb::ClusterStatusOption::DeadServers,
                pb::ClusterStatusOption::RegionsInTransition,
            ])
            .await?;
        Ok(ClusterInfo {
            cluster_id: status.cluster_id.map(|id| id.cluster_id).unwrap_or_default(),
            master: servers(status.master.as_slice())?.pop(),
            backup_masters: servers(&status.backup_masters)?,
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

    /// Returns the servers that regions are assigned to although the master knows no such server, alive or
    /// dead: what is left of a cluster whose servers were replaced without their logs. Their regions are not
    /// served until the servers are recovered (`hbck2 scheduleRecoveries`).
    ///
    /// HBase 2.5 and later.
    ///
    /// # Errors
    ///
    /// Returns [`Unsupported`](ErrorKind::Unsupported) if the master's release does not report them.
    pub async fn unknown_servers(&self) -> Result<Vec<ServerName>> {
        let status = self
            .status(&[
                pb::ClusterStatusOption::HbaseVersion,
                pb::ClusterStatusOption::UnknownServers,
                pb::ClusterStatusOption::UnknownServersOf3,
            ])
            .await?;
        unknown_servers(&status)
    }

    /// Returns the port of the active master's page (`hbase.master.info.port`), or `None` if it has none.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn master_info_port(&self) -> Result<Option<u16>> {
        let status = self.status(&[pb::ClusterStatusOption::MasterInfoPort]).await?;
        Ok(info_port(&status))
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
        let answer: pb::SetBalancerRunningResponse = self.call_once("SetBalancerRunning", &request).await?;
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
        let answer: pb::BalanceResponse = self.call_once("Balance", &request).await?;
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
        let answer: pb::SetNormalizerRunningResponse =
            self.call_once("SetNormalizerRunning", &request).await?;
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
        let answer: pb::NormalizeResponse = self.call_once("Normalize", &request).await?;
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
        let answer: pb::SetSplitOrMergeEnabledResponse =
            self.call_once("SetSplitOrMergeEnabled", &request).await?;
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

    /// Returns the first two numbers of the master's version.
    pub(crate) async fn release(&self) -> Result<(u32, u32)> {
        release(&self.status(&[pb::ClusterStatusOption::HbaseVersion]).await?)
    }

    pub(crate) async fn status(&self, options: &[pb::ClusterStatusOption]) -> Result<pb::ClusterStatus> {
        let request = pb::GetClusterStatusRequest {
            options: options.iter().map(|option| (*option).into()).collect(),
        };
        let answer: pb::GetClusterStatusResponse = self.call("GetClusterStatus", &request).await?;
        Ok(answer.cluster_status)
    }
}

fn servers(names: &[pb::ServerName]) -> Result<Vec<ServerName>> {
    let names = names.iter().map(convert::server_name);
    names
        .map(|name| name.map_err(|error| bad_answer(&error)))
        .collect()
}

/// Returns the port of the master's page: without a page, HBase has no port, or -1.
fn info_port(status: &pb::ClusterStatus) -> Option<u16> {
    let port = status.master_info_port.and_then(|port| u16::try_from(port).ok());
    port.filter(|port| *port > 0)
}

/// Returns the unknown servers, which have another field in HBase 3.0.
fn unknown_servers(status: &pb::ClusterStatus) -> Result<Vec<ServerName>> {
    match release(status)? {
        (..=1, _) | (2, ..=4) => Err(Error::new(
            ErrorKind::Unsupported,
            "the release of the master does not report unknown servers",
        )),
        (2, _) => servers(&status.unknown_servers),
        _ => servers(&status.unknown_servers_of_3),
    }
}

/// Returns the first two numbers of the master's version.
fn release(status: &pb::ClusterStatus) -> Result<(u32, u32)> {
    let version = status.hbase_version.as_ref();
    let version = version.map_or("", |version| version.version.as_str());
    let mut numbers = version.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err(bad_answer(&format_args!("it has the version {version:?}"))),
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
pub(crate) fn moment(milliseconds: u64) -> SystemTime {
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
pub(crate) fn was(state: Option<bool>) -> Result<bool> {
    state.ok_or_else(|| bad_answer(&"it does not say how the switch was"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Some(16_010), Some(16_010))]
    #[case(Some(-1), None)]
    #[case(Some(0), None)]
    #[case(Some(1 << 16), None)]
    #[case(None, None)]
    fn port_of_a_page_is_a_port(#[case] found: Option<i32>, #[case] expected: Option<u16>) {
        let status = pb::ClusterStatus {
            master_info_port: found,
            ..Default::default()
        };
        assert_eq!(info_port(&status), expected);
    }

    #[rstest]
    #[case("2.4.18", Err(ErrorKind::Unsupported))]
    #[case("2.5.13-hadoop3", Ok("a"))]
    #[case("2.6.4", Ok("a"))]
    #[case("3.0.0-alpha-4", Ok("b"))]
    #[case("", Err(ErrorKind::Protocol))]
    fn unknown_servers_are_in_the_field_of_the_release(
        #[case] version: &str,
        #[case] expected: std::result::Result<&str, ErrorKind>,
    ) {
        let server = |host: &str| pb::ServerName {
            host_name: host.to_owned(),
            port: Some(16_020),
            start_code: Some(1),
        };
        let status = pb::ClusterStatus {
            hbase_version: Some(pb::HBaseVersionFileContent {
                version: version.to_owned(),
            }),
            unknown_servers: vec![server("a")],
            unknown_servers_of_3: vec![server("b")],
            ..Default::default()
        };
        let found = unknown_servers(&status);
        let found = found.map(|servers| servers[0].host.clone());
        assert_eq!(
            found.as_deref().map_err(|error| error.kind()),
            expected.as_ref().map(|host| *host).map_err(|kind| *kind)
        );
    }
}
