//! Rows of several regions at once, in any order or in that of their keys.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{OVERDUE, ResultScanner};
use crate::{
    client::Table,
    error::{Error, ErrorKind, Result},
    model::{Row, Scan},
    rpc::CallError,
};

/// The rows of a scan, read from several regions at once, in any order or [in
/// order](Self::in_order).
///
/// Each row is returned once, also if regions move, split or merge meanwhile. Rows of one region
/// come in their order. Each call of [`next`](Self::next) ends within the table's operation timeout.
/// Dropping a call loses nothing.
///
/// If *n* regions are read at once, up to 2 *n* + 2 answers of
/// [`max_result_size`](Scan::max_result_size) are held, in order up to 3 *n* + 1. No more is read
/// while the rows are not taken.
///
/// # Limits
///
/// As for a [`ResultScanner`], rows are as of different moments. A [`limit`](Scan::limit) returns any
/// rows of the range, not the first ones, unless they are read in order.
#[derive(Debug)]
pub struct ParallelScanner {
    table: Table,
    scan: Scan,
    regions_at_once: usize,
    in_order: bool,
    reading: Option<Reading>,
    /// Rows that were not returned yet.
    ready: VecDeque<Row>,
    /// The number of rows that may still be returned.
    left: Option<u64>,
}

/// The rows of one answer after the other, from one task or several.
#[derive(Debug)]
struct Batches {
    /// A batch without rows is the last one of its task.
    receiver: mpsc::Receiver<Result<VecDeque<Row>>>,
    /// The number of tasks that have not sent their last batch.
    tasks: usize,
}

/// Parts of a scan that no task reads yet.
type Parts = Arc<Mutex<VecDeque<Scan>>>;

#[derive(Debug)]
struct Reading {
    /// The tasks that read. Dropping them cancels their calls.
    tasks: JoinSet<()>,
    parts: Parts,
    /// Rows of any region, or in order, those of each region that is being read.
    batches: VecDeque<Batches>,
    /// Whether a task ended without a last batch, with the runtime of the connection.
    is_incomplete: bool,
}

impl Table {
    /// Starts a scan that reads up to `regions_at_once` regions at the same time, at least one. Sends
    /// nothing before the first row is requested.
    ///
    /// Faster than [`scan`](Self::scan) for many rows whose order does not matter: several servers, or
    /// several handlers of one, read at the same time. With
    /// [`in_order`](ParallelScanner::in_order) it is faster if regions are small.
    ///
    /// # Errors
    ///
    /// Returns an error as [`scan`](Self::scan) does.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::{Put, Scan};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("events", &["f"], &["5"]);
    /// # let table = hbase.connect().await?.table("events")?;
    /// # for row in ["1", "2", "7"] {
    /// #     table.put(Put::new(row).cell("f", "q", "v")).await?;
    /// # }
    /// let mut scanner = table.scan_regions(Scan::new(), 4)?;
    /// let mut rows = 0;
    /// while let Some(row) = scanner.next().await? {
    ///     rows += 1;
    /// }
    /// assert_eq!(rows, 3);
    /// # Ok(()) });
    /// ```
    pub fn scan_regions(&self, scan: Scan, regions_at_once: usize) -> Result<ParallelScanner> {
        scan.check(&self.name)
            .map_err(|error| error.at_operation("scan").at_table(&self.name))?;
        Ok(ParallelScanner {
            left: scan.limit,
            table: self.clone(),
            scan,
            regions_at_once: regions_at_once.max(1),
            in_order: false,
            reading: None,
            ready: VecDeque::new(),
        })
    }
}

impl ParallelScanner {
    /// Returns the rows in the order of their keys. While those of one region are returned, the next
    /// regions are read up to a few answers of [`max_result_size`](Scan::max_result_size) each, so
    /// only of small regions is everything read at the same time.
    #[must_use]
    pub const fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Returns the next row of any region, or in order the next one of all, or `None` at the end of
    /// the scan.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Table::get`] does. The scan can continue after an error, unless the runtime
    /// of the connection has ended: then all further calls return [`Closed`](crate::ErrorKind::Closed).
    pub async fn next(&mut self) -> Result<Option<Row>> {
        let mut deadline = None;
        while self.left != Some(0) {
            if let Some(row) = self.ready.pop_front() {
                if let Some(left) = &mut self.left {
                    *left -= 1;
                }
                return Ok(Some(row));
            }
            let deadline = *deadline.get_or_insert_with(|| self.table.deadline());
            if self.reading.is_none() {
                self.reading = Some(self.begin(deadline).await?);
            }
            let Some(reading) = &mut self.reading else { break };
            if reading.is_incomplete {
                return Err(incomplete(&self.table));
            }
            let Some(batches) = reading.batches.front_mut() else {
                return Ok(None);
            };
            // A task that reads reports more, if it fails in time.
            match timeout_at(deadline + OVERDUE, batches.receiver.recv()).await {
                Ok(Some(Ok(rows))) if rows.is_empty() => {
                    batches.tasks -= 1;
                    if batches.tasks == 0 {
                        reading.batches.pop_front();
                        reading.read_next(&self.table);
                    }
                }
                Ok(Some(rows)) => self.ready = rows?,
                Ok(None) => reading.is_incomplete = true,
                Err(_) => return Err(late(&self.table)),
            }
        }
        self.reading = None;
        self.ready.clear();
        Ok(None)
    }

    /// Converts the scan into a stream of rows.
    pub fn into_stream(self) -> impl Stream<Item = Result<Row>> + Send {
        stream::try_unfold(self, |mut scanner| async move {
            Ok(scanner.next().await?.map(|row| (row, scanner)))
        })
    }

    /// Starts the tasks, each of which reads one region after the other.
    async fn begin(&self, deadline: Instant) -> Result<Reading> {
        let cluster = &self.table.connection.shared.cluster;
        let (start, stop) = self.scan.rows();
        let regions = cluster
            .regions_in(&self.table.name, &start, &stop, deadline)
            .await?;
        let starts = regions.into_iter().map(|region| region.region.start_key);
        let parts = self.scan.split_at(starts.collect());
        let readers = parts.len().min(self.regions_at_once);
        let mut reading = Reading {
            tasks: JoinSet::new(),
            parts: Arc::new(Mutex::new(parts.into())),
            batches: VecDeque::new(),
            is_incomplete: false,
        };
        if self.in_order {
            for _ in 0..readers {
                reading.read_next(&self.table);
            }
        } else {
            let parts = Arc::clone(&reading.parts);
            reading.start(readers, &parts, &self.table);
        }
        Ok(reading)
    }
}

impl Reading {
    /// Starts a task that reads the next part alone, if there is one.
    fn read_next(&mut self, table: &Table) {
        if let Some(part) = next_part(&self.parts) {
            self.start(1, &Arc::new(Mutex::new([part].into())), table);
        }
    }

    /// Starts tasks that read these parts.
    fn start(&mut self, tasks: usize, parts: &Parts, table: &Table) {
        // Frees the tasks that have ended.
        while self.tasks.try_join_next().is_some() {}
        let (sender, receiver) = mpsc::channel(1);
        self.batches.push_back(Batches { receiver, tasks });
        for _ in 0..tasks {
            self.tasks.spawn_on(
                read(table.clone(), Arc::clone(parts), sender.clone()),
                table.runtime(),
            );
        }
    }
}

fn incomplete(table: &Table) -> Error {
    CallError::RuntimeEnded { sent: true }
        .into_error()
        .at_operation("scan")
        .at_table(&table.name)
}

fn late(table: &Table) -> Error {
    Error::new(
        ErrorKind::DeadlineExceeded,
        "the regions that are read had no rows in time",
    )
    .with_retryable(true)
    .at_operation("scan")
    .at_table(&table.name)
}

fn next_part(parts: &Parts) -> Option<Scan> {
    parts.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// Reads parts until none is left, and sends a batch without rows at the end. Stops when the scanner is
/// dropped.
async fn read(table: Table, parts: Parts, sender: mpsc::Sender<Result<VecDeque<Row>>>) {
    while let Some(part) = next_part(&parts) {
        let mut scanner = ResultScanner::new(table.clone(), part);
        loop {
            let rows = scanner.next_rows().await;
            if rows.as_ref().is_ok_and(VecDeque::is_empty) {
                break;
            }
            if sender.send(rows).await.is_err() {
                return;
            }
        }
    }
    let _ = sender.send(Ok(VecDeque::new())).await;
}

impl Scan {
    /// Returns the first row in the order of keys, and a row behind the last one.
    fn rows(&self) -> (Bytes, Bytes) {
        let (first, last) = if self.reversed {
            (&self.stop, &self.start)
        } else {
            (&self.start, &self.stop)
        };
        let behind = if last.is_empty() {
            Bytes::new()
        } else {
            [last, &b"\0"[..]].concat().into()
        };
        (first.clone(), behind)
    }

    /// Splits the scan at the keys that are inside its range, each the first row of a region.
    fn split_at(&self, keys: BTreeSet<Bytes>) -> Vec<Self> {
        let mut parts = vec![self.clone()];
        let keys: Vec<Bytes> = if self.reversed {
            keys.into_iter().rev().collect()
        } else {
            keys.into_iter().collect()
        };
        for key in keys {
            let is_before_start = if self.reversed {
                !self.start.is_empty() && (key > self.start || key == self.start && !self.include_start)
            } else {
                key <= self.start
            };
            if is_before_start || !self.goes_beyond(&key) {
                continue;
            }
            if let Some(last) = parts.last_mut() {
                last.stop = key.clone();
                last.include_stop = self.reversed;
            }
            parts.push(Self {
                start: key,
                include_start: !self.reversed,
                ..self.clone()
            });
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::all(Scan::new(), &["-b", "b-d", "d-"])]
    #[case::from_a_boundary(Scan::new().start_row("b"), &["b-d", "d-"])]
    #[case::to_a_boundary(Scan::new().stop_row("d"), &["-b", "b-d"])]
    #[case::with_a_boundary(Scan::new().stop_row_inclusive("d"), &["-b", "b-d", "d-d!"])]
    #[case::inside_of_a_region(Scan::new().start_row("b1").stop_row_inclusive("c"), &["b1-c!"])]
    #[case::over_a_boundary(Scan::prefix("b"), &["b-c"])]
    #[case::after_a_boundary(Scan::new().start_row_exclusive("b"), &["!b-d", "d-"])]
    #[case::down(Scan::new().reversed(), &["-d!", "!d-b!", "!b-"])]
    #[case::down_from_a_boundary(Scan::new().start_row("d").reversed(), &["d-d!", "!d-b!", "!b-"])]
    #[case::down_from_before_a_boundary(Scan::new().start_row_exclusive("d").reversed(), &["!d-b!", "!b-"])]
    #[case::down_to_a_boundary(Scan::new().stop_row_inclusive("b").reversed(), &["-d!", "!d-b!"])]
    #[case::down_to_after_a_boundary(Scan::new().stop_row("b").reversed(), &["-d!", "!d-b"])]
    #[case::down_a_prefix(Scan::prefix("b").reversed(), &["!c-b!"])]
    fn parts_cover_the_range_once(#[case] scan: Scan, #[case] expected: &[&str]) {
        let keys = ["", "b", "d", "b"].map(Bytes::from).into_iter().collect();
        let text = |part: &Scan| {
            let begin = if part.include_start { "" } else { "!" };
            let end = if part.include_stop { "!" } else { "" };
            let text = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
            format!("{begin}{}-{}{end}", text(&part.start), text(&part.stop))
        };
        let parts: Vec<_> = scan.split_at(keys).iter().map(text).collect();
        assert_eq!(parts, expected);
    }
}
