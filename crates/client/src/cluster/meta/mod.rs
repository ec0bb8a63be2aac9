//! Reads `hbase:meta`, the table of regions.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::region_cache::RegionLocation;
use crate::{
    model::{Cell, RegionInfo, Row, ServerName, TableName, TableRegion, TableState},
    rpc::{AttemptLimit, Call, CallError, CallOptions, RpcClient, ServiceKind},
    wire::{cell_block::CellBlockDecoder, convert, magic, pb, ping::SYSTEM_PRIORITY},
};

/// The maximum number of regions that one call reads.
pub(super) const WALK_BATCH: u32 = 1_000;
/// The longest row key, also of `hbase:meta`.
const MAX_ROW: usize = i16::MAX as usize;

/// A region in `hbase:meta`.
#[derive(Clone, Debug)]
pub(crate) struct MetaRegion {
    pub(crate) region: RegionInfo,
    /// The server of the region, or `None` while it is unassigned.
    pub(crate) server: Option<ServerName>,
    pub(crate) open_sequence: i64,
    /// When it was opened, in milliseconds since 1970 by the clock of the cluster, if it is known.
    pub(crate) opened_at: Option<u64>,
    /// The servers of the replicas that are served, by the number of the replica.
    pub(crate) replicas: Vec<(u16, ServerName)>,
}

impl MetaRegion {
    /// Returns the location, if the region is assigned. It was asked for at `asked_at`.
    pub(crate) fn location(&self, asked_at: Instant) -> Option<Arc<RegionLocation>> {
        let server = self.server.clone()?;
        Some(Arc::new(RegionLocation {
            region: self.region.clone(),
            server,
            open_sequence: self.open_sequence,
            opened_at: self.opened_at,
            replicas: self.replicas.clone(),
            asked_at,
        }))
    }

    /// Whether it is in use, and not the parent of a split that waits for its cleanup.
    fn is_live(&self) -> bool {
        !self.region.split && !self.region.offline
    }
}

impl From<MetaRegion> for TableRegion {
    fn from(found: MetaRegion) -> Self {
        Self {
            region: found.region,
            server: found.server,
            replicas: found.replicas,
        }
    }
}

/// The region of `hbase:meta` or a replica of it, and the parameters of its calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaReader<'a> {
    pub(super) rpc: &'a Arc<RpcClient>,
    pub(super) location: &'a RegionLocation,
    pub(super) deadline: Instant,
    /// The time limit of each call.
    pub(super) timeout: Duration,
}

impl MetaReader<'_> {
    /// Returns at most this many regions at and before the row, nearest first; none only if the
    /// table has none there. The caller must check whether the first one contains the row.
    pub(super) async fn regions_before(
        &self,
        table: &TableName,
        row: &[u8],
        limit: u32,
    ) -> Result<Vec<MetaRegion>, CallError> {
        let table_text = table.to_string();
        // Fourteen nines are larger than any region id.
        let suffix = b",99999999999999";
        let room = MAX_ROW.saturating_sub(table_text.len() + 1 + suffix.len());
        let start = [table_text.as_bytes(), b",", &row[..row.len().min(room)], suffix].concat();
        let mut scan = pb::Scan {
            start_row: Some(start.into()),
            stop_row: Some(format!("{table_text},,").into()),
            include_stop_row: Some(true),
            reversed: Some(true),
            ..info_scan()
        };
        let mut regions = Vec::new();
        loop {
            let (rows, complete) = self.one_batch(&scan, limit).await?;
            // Parents of splits that wait for their cleanup can lie between the row and its region,
            // any number of them where splits were merged again.
            if let Some(last) = rows.last() {
                scan.start_row = Some(last.key().clone());
                scan.include_start_row = Some(false);
            }
            for row in rows {
                let region = parse_meta_row(row)?;
                regions.extend(region.filter(|region| region.region.table == *table && region.is_live()));
            }
            if complete || !regions.is_empty() {
                return Ok(regions);
            }
        }
    }

    /// Returns the first rows of a scan, at most this many, and whether there are no others. Leaves
    /// no scanner open.
    async fn one_batch(&self, scan: &pb::Scan, rows: u32) -> Result<(Vec<Row>, bool), CallError> {
        let request = pb::ScanRequest {
            region: Some(convert::region_specifier(&self.location.region)),
            scan: Some(pb::Scan {
                caching: Some(rows),
                consistency: self.consistency(),
                ..scan.clone()
            }),
            number_of_rows: Some(rows),
            client_handles_partials: Some(false),
            client_handles_heartbeats: Some(true),
            close_scanner: Some(true),
            ..Default::default()
        };
        let (mut answer, block): (pb::ScanResponse, _) = self.call("Scan", &request).await?;
        let found = convert::scanned_rows(&mut answer, block).map_err(bad_answer)?;
        // A server that runs out of time sets this flag, and answers with the rows that it has.
        let complete = found.len() < rows as usize && !answer.heartbeat_message.unwrap_or(false);
        Ok((found, complete))
    }

    /// Returns the regions of a table in order that begin at the first of these rows or after it, and
    /// before the second one. An empty row stands for the beginning or the end of the table.
    pub(super) async fn regions_from(
        &self,
        table: &TableName,
        start: &[u8],
        stop: &[u8],
    ) -> Result<Vec<MetaRegion>, CallError> {
        let before = |row: &[u8]| [table.to_string().as_bytes(), b",", row, b","].concat();
        let stop = Some(before(stop)).filter(|row| !stop.is_empty() && row.len() <= MAX_ROW);
        let scan = pb::Scan {
            start_row: Some(before(start).into()),
            // A space sorts before every character that can continue a table's name.
            stop_row: Some(stop.map_or_else(|| format!("{table} ,,").into(), Into::into)),
            ..info_scan()
        };
        let mut regions: Vec<MetaRegion> = Vec::new();
        self.scan(scan, WALK_BATCH, |row| {
            regions.extend(
                parse_meta_row(row)?.filter(|region| region.region.table == *table && region.is_live()),
            );
            Ok(())
        })
        .await?;
        regions.sort_by(|a, b| a.region.start_key.cmp(&b.region.start_key));
        Ok(regions)
    }

    /// Returns the state of a table, or `None` if it does not exist.
    pub(super) async fn table_state(&self, table: &TableName) -> Result<Option<TableState>, CallError> {
        let request = pb::GetRequest {
            region: convert::region_specifier(&self.location.region),
            get: pb::Get {
                row: table.to_string().into(),
                column: vec![pb::Column {
                    family: "table".into(),
                    qualifier: vec!["state".into()],
                }],
                ..pb::Get::default()
            },
        };
        let (answer, mut block): (pb::GetResponse, _) = self.call("Get", &request).await?;
        let row = convert::row(answer.result.unwrap_or_default(), &mut block).map_err(bad_answer)?;
        row.and_then(|row| row.value("table", "state").cloned())
            .map(|value| {
                pb::TableState::decode(value)
                    .map(|state| convert::table_state(&state))
                    .map_err(bad_answer)
            })
            .transpose()
    }

    /// Runs a scan in the one region of `hbase:meta` to its end.
    async fn scan(
        &self,
        scan: pb::Scan,
        batch: u32,
        mut each: impl FnMut(Row) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let mut request = pb::ScanRequest {
            region: Some(convert::region_specifier(&self.location.region)),
            scan: Some(pb::Scan {
                caching: Some(batch),
                ..scan
            }),
            number_of_rows: Some(batch),
            client_handles_partials: Some(false),
            client_handles_heartbeats: Some(true),
            ..Default::default()
        };
        let mut calls = 0;
        loop {
            let (mut answer, block): (pb::ScanResponse, _) = self.call("Scan", &request).await?;
            for row in convert::scanned_rows(&mut answer, block).map_err(bad_answer)? {
                each(row)?;
            }
            let more = answer.more_results.unwrap_or(true) && answer.more_results_in_region.unwrap_or(true);
            if !more {
                return Ok(());
            }
            request = pb::ScanRequest {
                scanner_id: answer.scanner_id.or(request.scanner_id),
                number_of_rows: Some(batch),
                next_call_seq: Some(calls),
                client_handles_partials: Some(false),
                client_handles_heartbeats: Some(true),
                ..Default::default()
            };
            calls += 1;
        }
    }

    /// Returns the consistency of a read, which a replica serves only if it may be stale.
    fn consistency(&self) -> Option<i32> {
        let is_replica = self.location.region.name != RegionInfo::meta().name;
        is_replica.then(|| pb::Consistency::Timeline.into())
    }

    async fn call<M: Message, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
    ) -> Result<(R, CellBlockDecoder), CallError> {
        self.rpc
            .call(Call {
                server: &self.location.address(),
                service: ServiceKind::Client,
                options: CallOptions::default(),
                method,
                request,
                cells: Bytes::new(),
                priority: Some(SYSTEM_PRIORITY),
                limit: AttemptLimit::new(self.deadline.min(Instant::now() + self.timeout), true),
            })
            .await
    }
}

fn info_scan() -> pb::Scan {
    pb::Scan {
        column: vec![pb::Column {
            family: "info".into(),
            qualifier: Vec::new(),
        }],
        read_type: Some(pb::scan::ReadType::Pread.into()),
        ..pb::Scan::default()
    }
}

/// Parses a row of `hbase:meta`. Returns `None` if it contains no region.
pub(crate) fn parse_meta_row(row: Row) -> Result<Option<MetaRegion>, CallError> {
    let cell = |qualifier: &str| row.cell("info", qualifier);
    let value = |qualifier: &str| cell(qualifier).map(|cell: &Cell| cell.value.clone());
    let Some(region) = value("regioninfo").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let region: pb::RegionInfo = magic::decode_stored(region).map_err(bad_answer)?;
    // A slice of the row key would keep the whole answer's buffer alive as long as the cached
    // location.
    let name = Bytes::copy_from_slice(row.key());
    let mut region = convert::region_info(name, region).map_err(bad_answer)?;
    region.start_key = Bytes::copy_from_slice(&region.start_key);
    region.end_key = Bytes::copy_from_slice(&region.end_key);
    let number = |qualifier: &str| {
        value(qualifier).and_then(|value| value.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes)))
    };
    let server = |suffix: &str| {
        let server = value(&format!("server{suffix}"))?;
        let (host, port) = std::str::from_utf8(&server).ok()?.rsplit_once(':')?;
        let start_code = number(&format!("serverstartcode{suffix}"))?.try_into().ok()?;
        ServerName::new(host, port.parse().ok()?, start_code)
    };
    let replicas = row.cells().iter().filter_map(|cell| {
        let suffix = std::str::from_utf8(cell.qualifier.strip_prefix(b"server")?).ok()?;
        let id = u16::from_str_radix(suffix.strip_prefix('_')?, 16).ok()?;
        Some((id, server(suffix)?))
    });
    Ok(Some(MetaRegion {
        server: server(""),
        open_sequence: number("seqnumDuringOpen").unwrap_or(0),
        opened_at: cell("seqnumDuringOpen").map(|cell| cell.timestamp),
        replicas: replicas.collect(),
        region,
    }))
}

fn bad_answer(why: impl std::fmt::Display) -> CallError {
    CallError::BadAnswer(why.to_string().into())
}

#[cfg(test)]
mod tests;
