//! Rows of one region as of one moment.

use std::sync::Arc;

use super::ResultScanner;
use crate::{
    client::{Table, region_call::failed_attempt::Cause},
    cluster::RegionLocation,
    error::{Error, ErrorKind},
    model::{Row, Scan},
    rpc::AttemptLimit,
};

impl Table {
    /// Reads all rows of a scan with one scanner of a region. Returns `None` if they have more bytes than
    /// this. Each call of the scanner has its own limit.
    pub(in crate::client) async fn scan_region(
        &self,
        scan: &Scan,
        location: &Arc<RegionLocation>,
        max_bytes: usize,
        limit: impl Fn() -> AttemptLimit,
    ) -> Result<Option<Vec<Row>>, Cause> {
        scan.check(&self.name)?;
        let mut scanner = ResultScanner::new(self.clone(), scan.clone());
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            let answer = scanner.answer(location, limit()).await;
            let answer = answer.inspect_err(|_| scanner.abandon())?;
            scanner.take(location, answer)?;
            bytes += scanner.ready.iter().map(Row::size).sum::<usize>();
            rows.extend(scanner.ready.drain(..));
            if bytes + scanner.partial.as_ref().map_or(0, Row::size) > max_bytes {
                return Ok(None);
            }
            if scanner.finished {
                return Ok(Some(rows));
            }
            if scanner.open.is_none() {
                let range = location.region.range_text();
                let what =
                    format!("the scan is not over at the end of region {range}, which should have all of it");
                return Err(Error::new(ErrorKind::Protocol, what).into());
            }
        }
    }
}
