//! What a scan has cost.

use std::collections::BTreeMap;

use crate::wire::{cell_block::CellBlockDecoder, pb};

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
