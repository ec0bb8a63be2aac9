//! Scans.

use hbase_protocol as pb;

use super::encoded;
use crate::{
    cell::to_message,
    cluster::{
        call::{Answer, Call},
        names::encoded_name,
        scanners::Open,
        world::World,
    },
    exception::{Exception, Result},
    region::Call as ScanCall,
};

impl World {
    pub(super) fn scan(&mut self, call: &Call) -> Result<Answer> {
        let request: pb::ScanRequest = call.decode()?;
        if request.track_scan_metrics == Some(true) {
            return Err(Exception::not_modelled("scan metrics"));
        }
        match request.scanner_id {
            Some(id) => self.next_batch(call, &request, id),
            None => self.open_scanner(call, &request),
        }
    }

    fn open_scanner(&mut self, call: &Call, request: &pb::ScanRequest) -> Result<Answer> {
        let (Some(region), Some(scan)) = (&request.region, &request.scan) else {
            return Err(Exception::do_not_retry(
                "Missing required input: scannerId or scan",
            ));
        };
        let lease = self.settings.durations.lease;
        let (target, now) = self.region(call.server, region)?;
        let scanner = target.open_scanner(scan, now)?;
        let encoded = encoded_name(region);
        let open = Open {
            opening: self.hosted(&encoded)?.open_sequence,
            region: encoded,
            scanner,
            next_call: 0,
            expires: self.wall + lease,
        };
        let scanners = &mut self.server_mut(call.server).scanners;
        scanners.next += 1;
        let id = scanners.next;
        self.serve(call, request, id, open)
    }

    fn next_batch(&mut self, call: &Call, request: &pb::ScanRequest, id: u64) -> Result<Answer> {
        let wall = self.wall;
        let scanners = &mut self.server_mut(call.server).scanners;
        scanners.open.retain(|_, open| open.expires > wall);
        let Some(mut open) = scanners.open.remove(&id) else {
            if request.close_scanner == Some(true) {
                return Answer::of(&pb::ScanResponse::default());
            }
            return Err(Exception::new(
                "UnknownScannerException",
                format!("Unknown scanner '{id}'. This can happen due to any of the following reasons"),
            ));
        };
        let is_served = self
            .regions
            .get(&open.region)
            .is_some_and(|hosted| hosted.is_open_on(call.server) && hosted.open_sequence == open.opening);
        if !is_served {
            return Err(Exception::new(
                "NotServingRegionException",
                format!("{} was closed", String::from_utf8_lossy(&open.region)),
            ));
        }
        if let Some(sequence) = request.next_call_seq {
            if sequence != open.next_call {
                return Err(Exception::new(
                    "exceptions.OutOfOrderScannerNextException",
                    format!(
                        "Expected nextCallSeq: {} But the nextCallSeq got from client: {sequence}",
                        open.next_call
                    ),
                ));
            }
            open.next_call += 1;
        }
        if request.renew == Some(true) {
            open.expires = wall + self.settings.durations.lease;
            let ttl = u32::try_from(self.settings.durations.lease).ok();
            self.server_mut(call.server).scanners.open.insert(id, open);
            return Answer::of(&pb::ScanResponse {
                scanner_id: Some(id),
                more_results: Some(true),
                ttl,
                ..Default::default()
            });
        }
        self.serve(call, request, id, open)
    }

    /// Answers with the next rows, and keeps the scanner unless it has ended.
    fn serve(&mut self, call: &Call, request: &pb::ScanRequest, id: u64, mut open: Open) -> Result<Answer> {
        let close = request.close_scanner == Some(true);
        let results = request.number_of_rows.unwrap_or(if close { 0 } else { 1 });
        let Some(region) = self.hosted_mut(&open.region)?.region.as_mut() else {
            return Err(Exception::io("the region is gone"));
        };
        let call_of_scan = ScanCall {
            results: usize::try_from(results).unwrap_or(usize::MAX),
            rows: request.limit_of_rows.filter(|limit| *limit > 0),
            cuts_rows: request.client_handles_partials == Some(true),
            cells_in_time: call
                .cells_in_time
                .filter(|_| request.client_handles_heartbeats == Some(true)),
        };
        let batch = region
            .next(&mut open.scanner, call_of_scan)
            .map_err(Exception::in_scan)?;
        let is_over = !batch.more_in_region || !batch.more_results;
        let mut response = pb::ScanResponse {
            more_results: Some(batch.more_results),
            more_results_in_region: Some(batch.more_in_region),
            mvcc_read_point: Some(open.scanner.read_point()),
            heartbeat_message: Some(batch.is_heartbeat),
            cursor: batch.cursor.map(|row| pb::Cursor { row: Some(row) }),
            stale: Some(false),
            ..Default::default()
        };
        let mut block = Vec::new();
        for (cells, is_partial) in batch.rows {
            response.partial_flag_per_result.push(is_partial);
            if call.has_codec {
                response
                    .cells_per_result
                    .push(u32::try_from(cells.len()).unwrap_or(u32::MAX));
                block.extend(cells);
            } else {
                response.results.push(pb::Result {
                    partial: is_partial.then_some(true),
                    stale: Some(false),
                    ..to_message(cells)
                });
            }
        }
        if !close && !is_over {
            response.scanner_id = Some(id);
            response.ttl = u32::try_from(self.settings.durations.lease).ok();
            open.expires = self.wall + self.settings.durations.lease;
            self.server_mut(call.server).scanners.open.insert(id, open);
        }
        Answer::with_cells(&response, encoded(&block, call))
    }
}
