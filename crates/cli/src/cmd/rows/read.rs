//! `hbase-txn get` and `scan`.

use std::{pin::pin, task::Poll};

use bytes::Bytes;
use clap::Args;
use futures::poll;
use hbase_txn::{
    BytesBinary, Cell, Comparator, Comparison, Filter, ResultScanner, Row, TableDescriptor,
    TableDescriptorExt, TableName,
};
use serde::Serialize;

use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output::{Lines, Shown},
    progress::Progress,
    values::{self, Column, Ranged},
};

/// Read a row
///
/// A row without cells prints nothing, and the exit status is 0. This toolkit's cells in the
/// families _txn, _version and _lock are shown only if the family is named.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn get orders xxxabc --column f:q")]
pub(crate) struct Get {
    /// Table, with its namespace if it has one
    table: TableName,
    /// Row key; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    row: Bytes,
    #[command(flatten)]
    cells: Selection,
}

/// Read rows in order
///
/// Each row is printed as soon as it is read. There is no limit by default. Rows of several regions
/// are read at different times, so a scan is not a snapshot. This toolkit's cells in the families
/// _txn, _version and _lock are shown only if the family is named.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn scan orders --prefix xxx --limit 10 --output json")]
pub(crate) struct Scan {
    /// Table, with its namespace if it has one
    table: TableName,
    #[command(flatten)]
    range: Range,
    /// In descending order: the first row is the largest
    #[arg(long)]
    reversed: bool,
    #[command(flatten)]
    cells: Selection,
}

/// The rows of a scan.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Range {
    /// First row
    #[arg(long, value_name = "ROW", value_parser = values::bytes)]
    start_row: Option<Bytes>,
    /// First row after the range
    #[arg(long, value_name = "ROW", value_parser = values::bytes)]
    stop_row: Option<Bytes>,
    /// Only rows with this prefix
    #[arg(long, value_parser = values::bytes, conflicts_with_all = ["start_row", "stop_row"])]
    prefix: Option<Bytes>,
    /// Maximum number of rows
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    limit: Option<Ranged<u64>>,
}

/// The cells of a row to read.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Selection {
    /// Only this family; may be repeated
    #[arg(long, value_name = "F", value_parser = values::bytes)]
    pub(in crate::cmd) family: Vec<Bytes>,
    /// Only this column; may be repeated
    #[arg(long, value_name = "F:Q", value_parser = values::column)]
    pub(in crate::cmd) column: Vec<Column>,
    /// Maximum number of versions of each column, newest first [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    pub(in crate::cmd) versions: Option<Ranged<u64>>,
}

impl Range {
    /// Returns whether the number of rows is limited.
    pub(in crate::cmd) fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns whether the range has rows on both sides of a key, as far as its bounds say.
    pub(in crate::cmd) fn is_divided_by(&self, key: &[u8]) -> bool {
        if let Some(prefix) = &self.prefix {
            return key.len() > prefix.len() && key.starts_with(prefix);
        }
        let is_after_start = self.start_row.as_ref().map_or(&[][..], |start| start) < key;
        let is_before_stop = |stop: &Bytes| stop.is_empty() || key < stop;
        is_after_start && self.stop_row.as_ref().is_none_or(is_before_stop)
    }

    /// Returns a scan of these cells of the rows.
    pub(in crate::cmd) fn scan(self, cells: Selection) -> Result<hbase_txn::Scan, Failure> {
        let mut scan = match self.prefix {
            Some(prefix) => hbase_txn::Scan::prefix(prefix),
            None => hbase_txn::Scan::new()
                .start_row(self.start_row.unwrap_or_default())
                .stop_row(self.stop_row.unwrap_or_default()),
        };
        if let Some(filter) = cells.filter() {
            scan = scan.filter(filter);
        }
        for family in cells.family {
            scan = scan.family(family);
        }
        for Column { family, qualifier } in cells.column {
            scan = scan.column(family, qualifier);
        }
        if let Some(versions) = cells.versions {
            scan = scan.versions(count(&versions)?);
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit.get("--limit")?);
        }
        Ok(scan)
    }
}

impl Selection {
    /// Excludes the toolkit's families if no family is named. Naming the table's own families
    /// instead would need the master, which may refuse the user.
    fn filter(&self) -> Option<Filter> {
        let other_than = |family: &'static str| {
            Filter::family(Comparison::NotEqual, Comparator::binary(family.as_bytes()))
        };
        let kept = [
            TableDescriptor::RECORD_FAMILY,
            TableDescriptor::VERSION_FAMILY,
            TableDescriptor::LOCK_FAMILY,
        ];
        let all = self.family.is_empty() && self.column.is_empty();
        all.then(|| Filter::all(kept.map(other_than)))
    }
}

impl Get {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let mut get = hbase_txn::Get::new(self.row);
        if let Some(filter) = self.cells.filter() {
            get = get.filter(filter);
        }
        for family in self.cells.family {
            get = get.family(family);
        }
        for Column { family, qualifier } in self.cells.column {
            get = get.column(family, qualifier);
        }
        if let Some(versions) = self.cells.versions {
            get = get.versions(count(&versions)?);
        }
        let table = global.connect().await?.table(self.table)?;
        match table.get(get).await? {
            Some(row) => print_row(&row, global.output),
            None => Ok(Exit::Done),
        }
    }
}

pub(super) fn print_row(row: &Row, format: Format) -> Outcome {
    let mut lines = Lines::new();
    write(&mut lines, row, format)?;
    lines.flush()?;
    Ok(Exit::Done)
}

impl Scan {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let scan = self.range.scan(self.cells)?;
        let scan = if self.reversed { scan.reversed() } else { scan };
        let table = global.connect().await?.table(self.table)?;
        let mut scanner = table.scan(scan)?;
        let mut lines = Lines::new();
        let progress = Progress::beside_output();
        let printed = print(&mut scanner, &mut lines, global.output, progress.as_ref()).await;
        if let Some(progress) = progress {
            progress.finish();
        }
        // Rows that were read are printed even if an error follows.
        let flushed = lines.flush();
        printed?;
        flushed?;
        Ok(Exit::Done)
    }
}

async fn print(
    scanner: &mut ResultScanner,
    lines: &mut Lines,
    format: Format,
    progress: Option<&Progress>,
) -> Result<(), Failure> {
    let mut rows = 0_u64;
    loop {
        let mut next = pin!(scanner.next());
        let next = match poll!(next.as_mut()) {
            Poll::Ready(next) => next,
            Poll::Pending => {
                // Rows that have arrived are printed before others are fetched.
                lines.flush()?;
                if let Some(progress) = progress {
                    progress.step(&format!("{rows} rows"));
                }
                next.await
            }
        };
        let Some(row) = next? else {
            return Ok(());
        };
        write(lines, &row, format)?;
        rows += 1;
    }
}

/// HBase accepts a Java int.
fn count(versions: &Ranged<u64>) -> Result<u32, Failure> {
    const MOST: u32 = i32::MAX as u32;
    let versions = versions.get("--versions")?;
    Ok(u32::try_from(versions).map_or(MOST, |versions| versions.min(MOST)))
}

/// A row in JSON. The keys and their order are fixed.
#[derive(Serialize)]
pub(in crate::cmd) struct RowObject<'a> {
    row: Shown<'a>,
    cells: Vec<CellObject<'a>>,
}

#[derive(Serialize)]
struct CellObject<'a> {
    family: Shown<'a>,
    qualifier: Shown<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<u64>,
    /// The lifetime from the timestamp on, if it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    value: Shown<'a>,
}

impl<'a> RowObject<'a> {
    pub(in crate::cmd) fn new(row: &'a Row) -> Self {
        Self::of(row.key(), row.cells())
    }

    /// Creates the object of some cells of a row.
    pub(in crate::cmd) fn of(key: &'a [u8], cells: &'a [Cell]) -> Self {
        let cells = cells.iter().map(|cell| CellObject {
            family: Shown(&cell.family),
            qualifier: Shown(&cell.qualifier),
            timestamp: Some(cell.timestamp),
            ttl_ms: cell.expires_at().map(|end| end.saturating_sub(cell.timestamp)),
            value: Shown(&cell.value),
        });
        Self {
            row: Shown(key),
            cells: cells.collect(),
        }
    }

    /// Leaves the timestamps out.
    pub(in crate::cmd) fn without_timestamps(mut self) -> Self {
        for cell in &mut self.cells {
            cell.timestamp = None;
        }
        self
    }
}

fn write(lines: &mut Lines, row: &Row, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        lines.json(&RowObject::new(row))?;
        return Ok(());
    }
    for cell in row.cells() {
        lines.line(format_args!(
            "{}  {}:{}  {}  {}",
            BytesBinary(row.key()),
            BytesBinary(&cell.family),
            BytesBinary(&cell.qualifier),
            cell.timestamp,
            BytesBinary(&cell.value)
        ))?;
    }
    Ok(())
}
