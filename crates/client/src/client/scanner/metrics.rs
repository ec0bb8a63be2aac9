//! What a scan has cost.

use std::collections::BTreeMap;

use super::ResultScanner;
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

impl ResultScanner {
    /// Counts in the metrics of the scan, and in those of the region if they are collected.
    pub(super) fn count(&mut self, location: &RegionLocation, count: impl Fn(&mut ScanMetrics)) {
        count(&mut self.metrics);
        if !self.scan.metrics_by_region {
            return;
        }
        let (region, server) = (&location.region, &location.server);
        let all = &mut self.metrics.by_region;
        match all.last_mut() {
            Some(last) if last.region.name == region.name && last.server == *server => {
                count(&mut last.metrics);
            }
            _ => {
                let mut metrics = ScanMetrics::default();
                count(&mut metrics);
                all.push(RegionScanMetrics {
                    region: region.clone(),
                    server: server.clone(),
                    metrics,
                });
            }
        }
    }
}

impl ScanMetrics {
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
