//! Rows of one region as of one moment.

use std::{borrow::Cow, fmt, sync::Arc};

use tokio::time::Instant;

use super::ResultScanner;
use crate::{
    client::{RegionGuard, Table},
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Error, ErrorKind, Result},
    model::{Row, Scan},
};

/// The options of a scan that reads all its rows as of one moment.
#[derive(Clone, Copy)]
pub struct AtOnce<'a> {
    /// The name of the caller's operation, for error messages.
    pub operation: &'static str,
    /// Decides whether one region has the whole range of the scan.
    pub guard: &'a dyn RegionGuard,
    /// The maximum number of bytes of keys and values that are kept in memory.
    pub max_bytes: usize,
    /// The time at which the scan fails if it is not complete.
    pub deadline: Instant,
}

impl fmt::Debug for AtOnce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtOnce")
            .field("operation", &self.operation)
            .field("max_bytes", &self.max_bytes)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Reads all rows of a scan as of one moment. Returns `None` if they have more bytes than
    /// allowed.
    ///
    /// A region's scanner reads all rows as of the moment of its opening, in any number of calls. A
    /// second scanner could not continue: once the region is reopened, the server no longer has the
    /// versions of that moment, and rows would be missing silently. Therefore all rows are read
    /// again, within the deadline, whatever ends the scanner.
    pub(crate) async fn scan_at_once(&self, scan: &Scan, how: AtOnce<'_>) -> Result<Option<Vec<Row>>> {
        scan.check(&self.name)
            .map_err(|error| error.at_operation(how.operation).at_table(&self.name))?;
        let mut attempts = Attempts::new(
            &self.connection.shared.cluster,
            Operation {
                name: how.operation,
                table: &self.name,
                row: Cow::Owned(scan.row_of_region(&scan.start, scan.include_start)),
                kind: CallKind::Read,
                deadline: how.deadline,
            },
        );
        loop {
            let location = self.guarded_location(&mut attempts, how.guard).await?;
            let mut scanner = ResultScanner::new(self.clone(), scan.clone());
            let read = scanner.read_region(&location, &mut attempts, how).await;
            let read = read.inspect_err(|error| attempts.fail(error))?;
            if let Reading::Done(rows) = read {
                attempts.succeed();
                return Ok(rows);
            }
        }
    }
}

/// The result of reading a region with one scanner.
enum Reading {
    /// All rows, or `None` if they have too many bytes.
    Done(Option<Vec<Row>>),
    /// The scanner was lost, and its rows are discarded.
    Lost,
}

impl ResultScanner {
    /// Reads to the end with one scanner, which it opens in this region.
    async fn read_region(
        &mut self,
        location: &Arc<RegionLocation>,
        attempts: &mut Attempts<'_>,
        how: AtOnce<'_>,
    ) -> Result<Reading> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            let limit = attempts.guarded_limit(location, how.guard.is_for_one_opening());
            match self.answer(location, limit).await {
                Ok(answer) => self.take(location, answer)?,
                Err(failure) => {
                    self.abandon();
                    // Frees the rows before the pause.
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
