//! Rows in order, over all regions of a table. `parallel` reads several regions at the same time, in
//! any order. `at_once` scans one region and never continues in another. `parts` returns rows that
//! are too wide to be held whole; `lease` keeps a scanner open; `metrics` counts; `cursor` says how
//! far a scan has come.

mod at_once;
mod cursor;
mod lease;
mod limit;
mod metrics;
mod parallel;
mod parts;

use std::{borrow::Cow, collections::VecDeque, io, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tokio::{
    task::{JoinError, JoinHandle, yield_now},
    time::{Instant, timeout_at},
};

use self::{limit::Limit, parts::Parts};
pub use self::{
    metrics::{RegionScanMetrics, ScanMetrics},
    parallel::ParallelScanner,
};
use super::{RegionCall, Table, timeline::first_answer};
use crate::{
    cluster::{CallKind, RegionLocation},
    error::Result,
    model::{Consistency, Row, Scan},
    rpc::{AttemptLimit, CallError},
    wire::{cell_block::CellBlockDecoder, convert, pb},
};

/// The answer of a call.
type Answer = (pb::ScanResponse, CellBlockDecoder);
/// The result of a call, with the location that it comes from: a replica may have answered.
type Called = (Arc<RegionLocation>, Result<Answer, CallError>);

/// How long a close in the background may take; otherwise the server closes the scanner when its
/// lease ends.
const CLOSE: Duration = Duration::from_secs(5);

/// How long after its deadline a task may report the failure of its call.
const OVERDUE: Duration = Duration::from_millis(100);

/// The rows of a scan, in order.
///
/// Each call of [`next`](Self::next) ends within the table's operation timeout. Dropping a call
/// loses nothing: the next one continues after the last returned row. When a region moves, splits
/// or merges, or when the server closed the scanner because it was not read for its lease (60 s by
/// default), a new scanner continues there as well.
///
/// While the rows of one answer are returned, the server already reads the next ones. So the scanner
/// holds up to two answers of [`max_result_size`](Scan::max_result_size), and reads no more rows than
/// its [`limit`](Scan::limit). Set a limit if only the first rows are needed.
///
/// # Limits
///
/// A scan is not a snapshot. Within one region and without such a change every row is as of the
/// moment when the scanner of the region was opened; over several regions, or after a change, rows
/// are read at different times. A single row is always whole. The crate `hbase-txn` reads snapshots
/// of a partition.
#[derive(Debug)]
pub struct ResultScanner {
    table: Table,
    scan: Scan,
    /// Whole rows that were not returned yet.
    ready: VecDeque<Row>,
    /// The beginning of a row whose other cells have not arrived yet.
    partial: Option<Row>,
    /// Such a row, if rows are returned in parts.
    parts: Parts,
    /// The position to continue at when there is no open scanner: a row, and whether it still
    /// belongs to the scan.
    position: (Bytes, bool),
    open: Option<OpenScanner>,
    limit: Limit,
    finished: bool,
    metrics: ScanMetrics,
    /// The moment that the scanner of the last region reads.
    read_point: Option<u64>,
}

/// A scanner on a server.
#[derive(Debug)]
struct OpenScanner {
    location: Arc<RegionLocation>,
    /// `None` until the first call is answered.
    id: Option<u64>,
    /// The sequence number of the next call.
    next_call: u64,
    call: Option<CallInFlight>,
    /// The answer of a call that has ended, if it was looked at.
    answer: Option<Result<Answer, CallError>>,
}

/// A call of a scanner. A task awaits it, so that its timeout and the pings of a silent connection do
/// not depend on when the caller requests the next row.
#[derive(Debug)]
struct CallInFlight {
    task: JoinHandle<Called>,
    deadline: Instant,
}

impl CallInFlight {
    /// Returns the time at which the call counts as lost: nothing may drive the runtime of the connection.
    fn lost_at(&self) -> Instant {
        self.deadline + OVERDUE
    }
}

impl OpenScanner {
    fn new(location: Arc<RegionLocation>) -> Self {
        Self {
            location,
            id: None,
            next_call: 0,
            call: None,
            answer: None,
        }
    }
}

impl Table {
    /// Starts a scan. Sends nothing before the first row is requested.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the bounds or limits of the scan
    /// are invalid.
    pub fn scan(&self, scan: Scan) -> Result<ResultScanner> {
        scan.check(&self.name)
            .map_err(|error| error.at_operation("scan").at_table(&self.name))?;
        Ok(ResultScanner::new(self.clone(), scan))
    }
}

impl ResultScanner {
    pub(super) fn new(table: Table, scan: Scan) -> Self {
        Self {
            position: (scan.start.clone(), scan.include_start),
            limit: Limit(scan.limit),
            finished: scan.limit == Some(0),
            ready: VecDeque::new(),
            partial: None,
            parts: Parts::default(),
            open: None,
            metrics: ScanMetrics::default(),
            read_point: None,
            table,
            scan,
        }
    }

    /// Returns the next row, or the next [part](Scan::batch) of one, or `None` at the end of the
    /// scan.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Table::get`] does. The scan can continue after an error.
    pub async fn next(&mut self) -> Result<Option<Row>> {
        if self.ready.is_empty() && !self.finished {
            self.fetch().await?;
        }
        Ok(self.ready.pop_front())
    }

    /// Returns the rows that are there, at least one, or none at the end of the scan.
    async fn next_rows(&mut self) -> Result<VecDeque<Row>> {
        if self.ready.is_empty() && !self.finished {
            self.fetch().await?;
        }
        Ok(mem::take(&mut self.ready))
    }

    /// Converts the scan into a stream of rows.
    pub fn into_stream(self) -> impl Stream<Item = Result<Row>> + Send {
        stream::try_unfold(self, |mut scanner| async move {
            Ok(scanner.next().await?.map(|row| (row, scanner)))
        })
    }

    /// Returns what the scan has cost so far.
    #[must_use]
    pub const fn metrics(&self) -> &ScanMetrics {
        &self.metrics
    }

    /// Returns the moment as of which the server reads the last region that it was asked for, for
    /// [`Scan::mvcc_read_point`]. `None` before the first answer.
    #[must_use]
    pub const fn mvcc_read_point(&self) -> Option<u64> {
        self.read_point
    }

    /// Calls servers until there is a row, or the scan is over.
    async fn fetch(&mut self) -> Result<()> {
        let table = self.table.clone();
        let row = self
            .open
            .as_ref()
            .map_or(&self.position.0, |open| &open.location.region.start_key)
            .clone();
        let mut call = RegionCall::of_row(&table, "scan", Cow::Owned(row), CallKind::Read, table.deadline());
        while self.ready.is_empty() && !self.finished {
            let location = match &self.open {
                Some(open) => Arc::clone(&open.location),
                None => {
                    let (row, is_included) = &self.position;
                    call.continue_at(self.scan.row_of_region(row, *is_included));
                    call.locate().await?
                }
            };
            let limit = call.attempt(&location).limit();
            let answer = self.answer(&location, limit).await;
            // A replica may have answered.
            let location = self
                .open
                .as_ref()
                .map_or(location, |open| Arc::clone(&open.location));
            match answer {
                Ok(answer) => {
                    if let Err(error) = self.take(&location, answer) {
                        // The server is past the rows of that answer. A new scanner reads them
                        // again.
                        self.abandon();
                        return Err(call.fail(&location, error));
                    }
                }
                Err(failure) => {
                    self.count(&location, |metrics| metrics.failed_calls += 1);
                    self.abandon();
                    let failed = call.attempt(&location).failed(failure);
                    call.recover(failed).await?;
                }
            }
        }
        call.succeed();
        if let Some(location) = self.open.as_ref().map(|open| Arc::clone(&open.location)) {
            // A call ahead has the limit of an operation that begins now.
            self.send(&location, call.limit_until(table.deadline()));
            // The request leaves before the caller works on the rows, even on a runtime with one
            // thread.
            yield_now().await;
        }
        Ok(())
    }

    fn count(&mut self, location: &RegionLocation, count: impl Fn(&mut ScanMetrics)) {
        let region = self.scan.metrics_by_region.then_some(location);
        self.metrics.count(region, count);
    }

    /// Waits for the answer of the call in flight. Sends a call if there is none.
    ///
    /// # Cancel safety
    ///
    /// The call stays in flight, and the next call of this function returns its answer.
    async fn answer(
        &mut self,
        location: &Arc<RegionLocation>,
        limit: AttemptLimit,
    ) -> Result<Answer, CallError> {
        if let Some(answer) = self.open.as_mut().and_then(|open| open.answer.take()) {
            return answer;
        }
        let call = self.send(location, limit);
        let began = Instant::now();
        // A task that begins to run again gets a moment, too.
        let lost_at = call.lost_at().max(began + OVERDUE);
        let Ok(called) = timeout_at(lost_at, &mut call.task).await else {
            let (waited, sent) = (began.elapsed(), true);
            let cluster = self.table.connection.cluster();
            return Err(cluster.unless_not_driven(CallError::Timeout { waited, sent }));
        };
        let (location, answer) = called.unwrap_or_else(|ended| (Arc::clone(location), Err(lost(ended))));
        if let Some(open) = &mut self.open {
            open.call = None;
            open.location = location;
        }
        answer
    }

    /// Opens a scanner in the region, or requests more rows from the open one, unless a call is in
    /// flight.
    fn send(&mut self, location: &Arc<RegionLocation>, limit: AttemptLimit) -> &mut CallInFlight {
        let open = self
            .open
            .get_or_insert_with(|| OpenScanner::new(Arc::clone(location)));
        open.call.get_or_insert_with(|| {
            let config = self.table.connection.config();
            let caching = self.scan.caching.or_else(|| config.scan_caching());
            let mut request = pb::ScanRequest {
                number_of_rows: Some(caching.unwrap_or(i32::MAX as u32)),
                client_handles_partials: Some(true),
                client_handles_heartbeats: Some(true),
                limit_of_rows: self.limit.0.map(|left| {
                    // The rest of a row counts as one.
                    let begun = u64::from(self.parts.is_in_row());
                    u32::try_from(left + begun).unwrap_or(0)
                }),
                track_scan_metrics: self.scan.track_metrics.then_some(true),
                ..Default::default()
            };
            if open.id.is_some() {
                request.scanner_id = open.id;
                request.next_call_seq = Some(open.next_call);
                open.next_call += 1;
                // Servers look for this option in each request, and for the others in the first one.
                request.scan = self.scan.selection.query_metrics.then(|| pb::Scan {
                    query_metrics_enabled: Some(true),
                    ..Default::default()
                });
            } else {
                let bytes = self
                    .scan
                    .max_result_size
                    .unwrap_or_else(|| config.scan_batch_bytes());
                let (row, included) = &self.position;
                request.region = Some(convert::region_specifier(&location.region));
                request.scan = Some(convert::scan_message(&self.scan, row, *included, bytes));
            }
            let (table, location) = (self.table.clone(), Arc::clone(location));
            let may_be_stale = self.scan.selection.consistency == Consistency::Timeline;
            let replica_id = self.scan.selection.replica_id;
            let (runtime, deadline) = (self.table.runtime(), limit.deadline);
            let task = if may_be_stale && open.id.is_none() {
                runtime.spawn(open_timeline(table, location, replica_id, request, limit))
            } else {
                runtime.spawn(async move {
                    let answer = table.call(&location, "Scan", &request, limit).await;
                    (location, answer)
                })
            };
            CallInFlight { task, deadline }
        })
    }

    /// Takes the rows of an answer, and updates the position of the scan.
    fn take(&mut self, location: &Arc<RegionLocation>, (mut answer, block): Answer) -> Result<()> {
        self.count(location, |metrics| metrics.add(&answer, &block));
        self.read_point = answer.mvcc_read_point.or(self.read_point);
        let rows = convert::scanned_rows(&mut answer, block).map_err(|error| {
            CallError::BadAnswer(error.to_string().into())
                .into_error()
                .at_operation("scan")
                .at_table(&self.table.name)
                .at_server(&location.server.address())
        })?;
        self.take_rows(rows);
        if let Some(last) = self.ready.back().filter(|_| !self.scan.is_in_parts()) {
            self.position = (last.key().clone(), false);
        }
        if let Some(row) = answer.cursor.take().and_then(|cursor| cursor.row) {
            self.pass_to(row);
        }
        if !is_over(&answer) {
            if self.limit.is_reached() && !self.parts.is_in_row() {
                self.abandon();
                self.finished = true;
                return Ok(());
            }
            let open = self
                .open
                .get_or_insert_with(|| OpenScanner::new(Arc::clone(location)));
            let is_new = open.id.is_none();
            open.id = open.id.or(answer.scanner_id);
            let has_id = open.id.is_some();
            self.count(location, |metrics| metrics.regions += u64::from(is_new));
            return if has_id {
                Ok(())
            } else {
                Err(CallError::BadAnswer("a scan without a scanner".into()).into_error())
            };
        }
        // The server closes its scanner itself, and no other region has cells of this row.
        let closed = self.open.take();
        let is_new = closed.is_none_or(|open| open.id.is_none());
        self.count(location, |metrics| metrics.regions += u64::from(is_new));
        self.parts.end_row(&mut self.limit, &mut self.ready);
        if let Some(row) = self.partial.take() {
            self.finish_row(row);
        }
        let boundary = if self.scan.reversed {
            &location.region.start_key
        } else {
            &location.region.end_key
        };
        if answer.more_results == Some(false) || !self.scan.goes_beyond(boundary) || self.limit.is_reached() {
            self.finished = true;
        } else {
            self.position = (boundary.clone(), !self.scan.reversed);
        }
        Ok(())
    }

    fn take_rows(&mut self, rows: Vec<Row>) {
        let are_ready = self.ready.is_empty()
            && self.partial.is_none()
            && self.limit.is_none()
            && !self.scan.is_in_parts()
            && !rows.iter().any(Row::may_have_more_cells);
        if are_ready {
            // Without moving each of them.
            self.ready = rows.into();
            return;
        }
        for row in rows {
            self.take_row(row);
        }
    }

    fn take_row(&mut self, row: Row) {
        let is_partial = row.may_have_more_cells();
        if self.scan.is_in_parts() {
            let batch = self.scan.batch.filter(|_| !self.scan.partial_results);
            let batch = batch.and_then(|cells| usize::try_from(cells).ok());
            self.position = (row.key().clone(), is_partial);
            let (limit, ready) = (&mut self.limit, &mut self.ready);
            return self.parts.take(batch, row, limit, ready);
        }
        let whole = match self.partial.take() {
            Some(mut begun) if begun.key() == row.key() => {
                begun.append(row);
                begun
            }
            Some(begun) => {
                self.finish_row(begun);
                row
            }
            None => row,
        };
        if is_partial {
            self.partial = Some(whole);
        } else {
            self.finish_row(whole);
        }
    }

    fn finish_row(&mut self, row: Row) {
        if self.limit.count() {
            self.ready.push_back(row.with_partial(false));
        }
    }

    /// Records how far the server has come without finding a requested cell. Otherwise a scan for
    /// rare cells would return to its old position after each call that times out, and never end.
    fn pass_to(&mut self, row: Bytes) {
        let last = &self.position.0;
        let is_ahead = if self.scan.reversed {
            last.is_empty() || row < *last
        } else {
            row > *last
        };
        if self.partial.is_none() && !self.parts.is_in_row() && is_ahead {
            self.position = (row, true);
        }
    }

    /// Abandons the open scanner and an incomplete row, which a new scanner reads from its start.
    fn abandon(&mut self) {
        self.partial = None;
        self.parts.begin_again();
        let Some(mut open) = self.open.take() else { return };
        let table = self.table.clone();
        self.table.runtime().spawn(async move {
            let deadline = Instant::now() + CLOSE;
            // HBase rejects a close while it executes another call of the scanner.
            let answer = match (open.call.take(), open.answer.take()) {
                (Some(call), _) => timeout_at(deadline, call.task).await.ok().and_then(Result::ok),
                (None, answer) => answer.map(|answer| (Arc::clone(&open.location), answer)),
            };
            if let Some((location, Ok((answer, _)))) = answer {
                if is_over(&answer) {
                    return;
                }
                open.location = location;
                open.id = open.id.or(answer.scanner_id);
            }
            if let Some(id) = open.id {
                close(&table, &open.location, id, deadline).await;
            }
        });
    }
}

/// Opens a scanner in a region or in one of its replicas, whichever answers first.
async fn open_timeline(
    table: Table,
    primary: Arc<RegionLocation>,
    replica_id: Option<u16>,
    request: pb::ScanRequest,
    limit: AttemptLimit,
) -> Called {
    let cluster = &table.connection.shared.cluster;
    let patience = table.connection.config().primary_scan_timeout();
    let call = |location: Arc<RegionLocation>| {
        let (table, limit) = (table.clone(), limit.clone());
        let request = pb::ScanRequest {
            region: Some(convert::region_specifier(&location.region)),
            ..request.clone()
        };
        async move { table.call(&location, "Scan", &request, limit).await }
    };
    let (location, answer, mut others) = first_answer(cluster, &primary, replica_id, patience, call).await;
    let scanners_of = table.clone();
    tokio::spawn(async move {
        while let Some((location, answer)) = others.next().await {
            if let Ok((answer, _)) = answer
                && !is_over(&answer)
                && let Some(id) = answer.scanner_id
            {
                close(&scanners_of, &location, id, Instant::now() + CLOSE).await;
            }
        }
    });
    (location, answer)
}

async fn close(table: &Table, location: &RegionLocation, id: u64, deadline: Instant) {
    let request = pb::ScanRequest {
        scanner_id: Some(id),
        number_of_rows: Some(0),
        close_scanner: Some(true),
        ..Default::default()
    };
    let limit = AttemptLimit::new(deadline, true);
    let _: Result<Answer, _> = table.call(location, "Scan", &request, limit).await;
}

/// Returns the failure of a call whose task has ended early.
fn lost(ended: JoinError) -> CallError {
    if ended.is_cancelled() {
        CallError::RuntimeEnded { sent: true }
    } else {
        CallError::Lost {
            sent: true,
            cause: Arc::new(io::Error::other(ended)),
        }
    }
}

/// Returns whether the server has closed the scanner, because the scan or the region has no more rows.
fn is_over(answer: &pb::ScanResponse) -> bool {
    answer.more_results == Some(false) || answer.more_results_in_region == Some(false)
}

impl Drop for ResultScanner {
    fn drop(&mut self) {
        self.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::Connection,
        cluster::Cluster,
        model::{RegionInfo, ServerName},
        wire::cell_block::Codec,
    };

    fn location() -> Arc<RegionLocation> {
        let server = ServerName::new("h", 1, 1).unwrap();
        Arc::new(RegionLocation::new(RegionInfo::meta(), server))
    }

    /// An answer with the beginning of a row, or without one, from a scanner that has come to
    /// `cursor`.
    fn answer(
        row: Option<&'static str>,
        partial: bool,
        cursor: &'static str,
    ) -> (pb::ScanResponse, CellBlockDecoder) {
        let results = row.map(|row| pb::Result {
            cell: vec![pb::Cell {
                row: Some(row.into()),
                ..Default::default()
            }],
            partial: Some(partial),
            ..Default::default()
        });
        let answer = pb::ScanResponse {
            scanner_id: Some(1),
            results: results.into_iter().collect(),
            more_results: Some(true),
            more_results_in_region: Some(true),
            heartbeat_message: Some(true),
            cursor: Some(pb::Cursor {
                row: Some(cursor.into()),
            }),
            ..Default::default()
        };
        (answer, CellBlockDecoder::new(Bytes::new(), Codec::KeyValue))
    }

    #[test]
    fn heartbeat_without_rows_gives_the_resume_row() {
        let table = Connection::new(Cluster::without_servers(), None)
            .table("t")
            .unwrap();
        let mut scanner = ResultScanner::new(table, Scan::new());
        let mut after = |row, partial, cursor| {
            scanner.take(&location(), answer(row, partial, cursor)).unwrap();
            scanner.position.clone()
        };
        assert_eq!(after(None, false, "c"), ("c".into(), true));
        // A returned row is not read again.
        assert_eq!(after(Some("d"), false, "d"), ("d".into(), false));
        assert_eq!(after(None, false, "b"), ("d".into(), false));
        // An incomplete row is read again.
        assert_eq!(after(Some("e"), true, "e"), ("d".into(), false));
    }
}
