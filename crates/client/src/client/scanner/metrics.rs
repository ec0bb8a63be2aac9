//! What a scan has cost.

use std::collections::BTreeMap;

use crate::{
    cluster::RegionLocation,
    model::{RegionInfo, ServerName},
    wire::{cell_block::CellBlockDecoder, pb},
};

/// What a scan has cost so far, over all regions and attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanMetrics {
    /// The number of answered calls.
    pub calls: u64,
    /// The number of calls that failed, after which another scanner continued.
    pub failed_calls: u64,
    /// The number of scanners that were opened, at least one in each region.
    pub regions: u64,
    /// The number of answers that a server sent to show that it is alive, before it had read as much
    /// as was requested.
    pub heartbeats: u64,
    /// The number of bytes of cells in all answers.
    pub bytes: u64,
    /// What the servers counted, by their names of it: `ROWS_SCANNED` and `ROWS_FILTERED`, and in
    /// newer releases others. Empty without [`Scan::scan_metrics`](crate::Scan::scan_metrics).
    pub by_servers: BTreeMap<String, i64>,
    /// The same for each region, in the order of the scan. Empty without
    /// [`Scan::scan_metrics_by_region`](crate::Scan::scan_metrics_by_region).
    pub by_region: Vec<RegionScanMetrics>,
}

/// What a scan has cost in one region. A region that moves meanwhile has one for each server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionScanMetrics {
    /// The region, or the replica that answered.
    pub region: RegionInfo,
    /// The server of the region.
    pub server: ServerName,
    /// What the scan has cost. `by_region` is empty.
    pub metrics: ScanMetrics,
}

impl ScanMetrics {
    /// Counts in these, and in those of a region if they are collected.
    pub(super) fn count(&mut self, region: Option<&RegionLocation>, count: impl Fn(&mut Self)) {
        count(self);
        let Some(RegionLocation { region, server, .. }) = region else {
            return;
        };
        match self.by_region.last_mut() {
            Some(last) if last.region.name == region.name && last.server == *server => {
                count(&mut last.metrics);
            }
            _ => {
                let mut metrics = Self::default();
                count(&mut metrics);
                self.by_region.push(RegionScanMetrics {
                    region: region.clone(),
                    server: server.clone(),
                    metrics,
                });
            }
        }
    }

    /// Counts an answer.
    pub(super) fn add(&mut self, answer: &pb::ScanResponse, block: &CellBlockDecoder) {
        self.calls += 1;
        self.heartbeats += u64::from(answer.heartbeat_message == Some(true));
        self.bytes += block.len() as u64;
        for metric in answer.scan_metrics.iter().flat_map(|metrics| &metrics.metrics) {
            if let (Some(name), Some(value)) = (&metric.name, metric.value) {
                let sum = self.by_servers.entry(name.clone()).or_default();
                *sum = sum.saturating_add(value);
            }
        }
    }
}
