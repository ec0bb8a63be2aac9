//! Rows of several regions at once, in any order.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};

use super::ResultScanner;
use crate::{
    client::Table,
    error::Result,
    model::{Row, Scan},
    rpc::CallError,
};

/// The rows of a scan, read from several regions at once, in any order.
///
/// Each row is returned once, also if regions move, split or merge meanwhile. Rows of one region
/// come in their order. Each call of [`next`](Self::next) ends within the table's operation timeout.
/// Dropping a call loses nothing.
///
/// If *n* regions are read at once, up to 2 *n* + 2 answers of
/// [`max_result_size`](Scan::max_result_size) are held. No more is read while the rows are not taken.
///
/// # Limits
///
/// As for a [`ResultScanner`], rows are as of different moments. A [`limit`](Scan::limit) returns any
/// rows of the range, not the first ones.
#[derive(Debug)]
pub struct ParallelScanner {
    table: Table,
    scan: Scan,
    regions_at_once: usize,
    reading: Option<Reading>,
    /// Rows that were not returned yet.
    ready: VecDeque<Row>,
    /// The number of rows that may still be returned.
    left: Option<u64>,
}

/// The tasks that read. Dropping them cancels their calls.
#[derive(Debug)]
struct Reading {
    tasks: JoinSet<()>,
    rows: mpsc::Receiver<Result<VecDeque<Row>>>,
}

impl Table {
    /// Starts a scan that reads up to `regions_at_once` regions at the same time, at least one. Sends
    /// nothing before the first row is requested.
    ///
    /// Faster than [`scan`](Self::scan) for many rows whose order does not matter: several servers, or
    /// several handlers of one, read at the same time.
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
        scan.check()
            .map_err(|error| error.at_operation("scan").at_table(&self.name))?;
        Ok(ParallelScanner {
            left: scan.limit,
            table: self.clone(),
            scan,
            regions_at_once: regions_at_once.max(1),
            reading: None,
            ready: VecDeque::new(),
        })
    }
}

impl ParallelScanner {
    /// Returns the next row of any region, or `None` at the end of the scan.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Table::get`] does. The scan can continue after an error.
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    pub async fn next(&mut self) -> Result<Option<Row>> {
        while self.left != Some(0) {
            if let Some(row) = self.ready.pop_front() {
                if let Some(left) = &mut self.left {
                    *left -= 1;
                }
                return Ok(Some(row));
            }
            if self.reading.is_none() {
                self.reading = Some(self.begin().await?);
            }
            let Some(reading) = &mut self.reading else { break };
            match reading.rows.recv().await {
                Some(rows) => self.ready = rows?,
                None => return reading.ended(&self.table).await,
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
    async fn begin(&self) -> Result<Reading> {
        let cluster = &self.table.connection.shared.cluster;
        let regions = cluster
            .regions_of(&self.table.name, self.table.deadline())
            .await?;
        let starts = regions.into_iter().map(|region| region.region.start_key);
        let parts = self.scan.split_at(starts.collect());
        let (sender, rows) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        let readers = parts.len().min(self.regions_at_once);
        let parts = Arc::new(Mutex::new(VecDeque::from(parts)));
        for _ in 0..readers {
            tasks.spawn(read(self.table.clone(), Arc::clone(&parts), sender.clone()));
        }
        Ok(Reading { tasks, rows })
    }
}

impl Reading {
    /// Returns the end of the scan, or an error if a task ended early.
    async fn ended(&mut self, table: &Table) -> Result<Option<Row>> {
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(|ended: JoinError| {
                let cause = Arc::new(io::Error::other(ended));
                CallError::Lost { sent: true, cause }
                    .into_error()
                    .at_operation("scan")
                    .at_table(&table.name)
            })?;
        }
        Ok(None)
    }
}

/// Reads parts until none is left, or the scanner is dropped.
async fn read(table: Table, parts: Arc<Mutex<VecDeque<Scan>>>, sender: mpsc::Sender<Result<VecDeque<Row>>>) {
    loop {
        let part = parts.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(part) = part else { return };
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
}

impl Scan {
    /// Splits the scan at the keys that are inside its range.
    fn split_at(&self, keys: BTreeSet<Bytes>) -> Vec<Self> {
        let mut parts = vec![self.clone()];
        for key in keys {
            let is_behind = match self.include_stop {
                true => key > self.stop,
                false => key >= self.stop,
            };
            if key <= self.start || !self.stop.is_empty() && is_behind {
                continue;
            }
            if let Some(last) = parts.last_mut() {
                last.stop = key.clone();
                last.include_stop = false;
            }
            parts.push(Self {
                start: key,
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
    fn parts_cover_the_range_once(#[case] scan: Scan, #[case] expected: &[&str]) {
        let keys = ["", "b", "d", "b"].map(Bytes::from).into_iter().collect();
        let text = |part: &Scan| {
            let end = if part.include_stop { "!" } else { "" };
            let text = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
            format!("{}-{}{end}", text(&part.start), text(&part.stop))
        };
        let parts: Vec<_> = scan.split_at(keys).iter().map(text).collect();
        assert_eq!(parts, expected);
    }
}
