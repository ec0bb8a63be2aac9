//! Rows of one region as they were at one moment.

use std::{borrow::Cow, sync::Arc};

use tokio::time::Instant;

use super::ResultScanner;
use crate::{
    client::{RegionGuard, Table},
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Error, ErrorKind, Result},
    model::{Row, Scan},
};

/// How a scan is read that has to show one moment.
#[derive(Clone, Copy)]
pub(crate) struct AtOnce<'a> {
    /// What the caller is doing, for errors.
    pub(crate) operation: &'static str,
    /// Says whether a region has everything that is scanned.
    pub(crate) guard: &'a dyn RegionGuard,
    /// The most bytes of keys and values that are taken.
    pub(crate) max_bytes: usize,
    pub(crate) deadline: Instant,
}

impl Table {
    /// All rows of a scan as they were at one moment; none when they have more bytes than allowed.
    ///
    /// A scanner of a region reads everything at the moment it was opened at, however many calls that takes. One that
    /// went on in its place could not: when the region has been reopened the server has no versions of that moment any more,
    /// and the rest of the rows would be missing without a word. So whatever ends the scanner, all rows are
    /// read again, within the deadline.
    pub(crate) async fn scan_at_once(&self, scan: &Scan, how: AtOnce<'_>) -> Result<Option<Vec<Row>>> {
        scan.check()
            .map_err(|error| error.at_operation(how.operation).at_table(&self.name))?;
        let mut attempts = Attempts::new(
            &self.connection.cluster,
            Operation {
                name: how.operation,
                table: &self.name,
                row: Cow::Borrowed(&scan.start),
                kind: CallKind::Read,
                deadline: how.deadline,
            },
        );
        loop {
            let location = self.guarded_location(&mut attempts, how.guard).await?;
            let mut scanner = ResultScanner::new(self.clone(), scan.clone());
            if let Reading::Done(rows) = scanner.read_region(&location, &mut attempts, how).await? {
                return Ok(rows);
            }
        }
    }
}

/// How the reading of a region with one scanner ended.
enum Reading {
    /// With all rows; or with none, because they are too many.
    Done(Option<Vec<Row>>),
    /// The scanner was lost. Nothing that it brought counts.
    Lost,
}

impl ResultScanner {
    /// Reads to the end with the one scanner that it opens in this region.
    async fn read_region(
        &mut self,
        location: &Arc<RegionLocation>,
        attempts: &mut Attempts<'_>,
        how: AtOnce<'_>,
    ) -> Result<Reading> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            match self.ask(location, attempts.attempt_deadline()).await {
                Ok(answer) => self.take(Arc::clone(location), answer)?,
                Err(failure) => {
                    self.abandon();
                    // What was read is not kept through the pause.
                    drop(rows);
                    attempts.recover(failure, location).await?;
                    return Ok(Reading::Lost);
                }
            }
            bytes += self.ready.iter().map(Row::size).sum::<usize>();
            rows.extend(self.ready.drain(..));
            if bytes + self.partial.as_ref().map_or(0, Row::size) > how.max_bytes {
                return Ok(Reading::Done(None));
            }
            if self.finished {
                return Ok(Reading::Done(Some(rows)));
            }
            if self.open.is_none() {
                return Err(Error::new(
                    ErrorKind::Protocol,
                    format!(
                        "the scan is not over at the end of region {}, which should have all of it",
                        location.region.range_text()
                    ),
                )
                .at_operation(how.operation)
                .at_table(&self.table.name)
                .at_server(&location.server.address()));
            }
        }
    }
}
