//! `hbase-txn get` and `scan`.

use std::{io, pin::pin, task::Poll};

use bytes::Bytes;
use clap::Args;
use futures::poll;
use hbase_txn::{
    TableDescriptorExt,
    client::{
        BytesBinary, Cell, CellKind, Comparator, Comparison, Filter, ReadFilter, ResultScanner, Row,
        TableDescriptor, TableName,
    },
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    cell_types::ValueTypes,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output::{self, Lines, Shown},
    progress::Progress,
    value_type::ValueType,
    values::{self, Ranged, TypedColumn},
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
    /// Also deleted cells and delete markers that no compaction has removed, with all versions
    #[arg(long, conflicts_with_all = ["column", "versions", "all_versions"])]
    raw: bool,
    /// Print only the number of rows; table count reads several regions at once
    #[arg(long)]
    count: bool,
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
    /// Only this column; may be repeated. F:Q:toLong shows its values as numbers, as do toInt, toShort,
    /// toDouble, toFloat and toBoolean; other bytes are shown as bytes
    #[arg(long, value_name = "F:Q[:TYPE]", value_parser = values::typed_column)]
    pub(in crate::cmd) column: Vec<TypedColumn>,
    /// Only cells that pass this filter of HBase's filter language
    #[arg(long, value_name = "FILTER")]
    pub(in crate::cmd) filter: Option<ReadFilter>,
    /// Type of the values in all columns without a type of their own, such as toLong
    #[arg(long, value_name = "TYPE", value_parser = ValueType::named)]
    pub(in crate::cmd) formatter: Option<ValueType>,
    /// Maximum number of versions of each column, newest first [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    versions: Option<Ranged<u64>>,
    /// All versions of each column
    #[arg(long, conflicts_with = "versions")]
    all_versions: bool,
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
    pub(in crate::cmd) fn scan(self, cells: Selection) -> Result<hbase_txn::client::Scan, Failure> {
        let mut scan = match self.prefix {
            Some(prefix) => hbase_txn::client::Scan::prefix(prefix),
            None => hbase_txn::client::Scan::new()
                .start_row(self.start_row.unwrap_or_default())
                .stop_row(self.stop_row.unwrap_or_default()),
        };
        let versions = cells.versions()?;
        if let Some(filter) = cells.filter() {
            scan = scan.filter(filter);
        }
        for family in cells.family {
            scan = scan.family(family);
        }
        for TypedColumn { column, .. } in cells.column {
            scan = scan.column(column.family, column.qualifier);
        }
        if let Some(versions) = versions {
            scan = scan.versions(versions);
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit.get("--limit")?);
        }
        Ok(scan)
    }
}

impl Selection {
    /// Returns the types of the values.
    pub(in crate::cmd) fn value_types(&self) -> ValueTypes {
        let typed = |typed: &TypedColumn| Some((typed.column.clone(), typed.value_type?));
        ValueTypes::new(self.column.iter().filter_map(typed).collect(), self.formatter)
    }

    /// Returns the number of versions of each column, if an option sets it.
    pub(in crate::cmd) fn versions(&self) -> Result<Option<u32>, Failure> {
        /// HBase accepts a Java int.
        const ALL: u32 = i32::MAX as u32;
        if self.all_versions {
            return Ok(Some(ALL));
        }
        let Some(versions) = &self.versions else {
            return Ok(None);
        };
        let versions = versions.get("--versions")?;
        Ok(Some(
            u32::try_from(versions).map_or(ALL, |versions| versions.min(ALL)),
        ))
    }

    /// Returns the filter of the user, and excludes the toolkit's families if no family is named. Naming
    /// the table's own families instead would need the master, which may refuse the user.
    fn filter(&self) -> Option<ReadFilter> {
        let other_than = |family: &'static str| {
            Filter::family(Comparison::NotEqual, Comparator::binary(family.as_bytes()))
        };
        let kept = [
            TableDescriptor::RECORD_FAMILY,
            TableDescriptor::VERSION_FAMILY,
            TableDescriptor::LOCK_FAMILY,
        ];
        let all = self.family.is_empty() && self.column.is_empty();
        let without_kept = all.then(|| ReadFilter::from(Filter::all(kept.map(other_than))));
        match (without_kept, self.filter.clone()) {
            (Some(without_kept), Some(filter)) => Some(ReadFilter::all([without_kept, filter])),
            (without_kept, filter) => without_kept.or(filter),
        }
    }
}

impl Get {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let (value_types, versions) = (self.cells.value_types(), self.cells.versions()?);
        let mut get = hbase_txn::client::Get::new(self.row);
        if let Some(filter) = self.cells.filter() {
            get = get.filter(filter);
        }
        for family in self.cells.family {
            get = get.family(family);
        }
        for TypedColumn { column, .. } in self.cells.column {
            get = get.column(column.family, column.qualifier);
        }
        if let Some(versions) = versions {
            get = get.versions(versions);
        }
        let table = global.connect().await?.table(self.table)?;
        match table.get(get).await? {
            Some(row) => print_row(&row, &value_types, global.output),
            None => Ok(Exit::Done),
        }
    }
}

pub(super) fn print_row(row: &Row, value_types: &ValueTypes, format: Format) -> Outcome {
    let mut lines = Lines::new();
    write(&mut lines, row, value_types, format)?;
    lines.flush()?;
    Ok(Exit::Done)
}

impl Scan {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let value_types = self.cells.value_types();
        let scan = self.range.scan(self.cells)?;
        let scan = if self.reversed { scan.reversed() } else { scan };
        let scan = if self.raw { scan.raw() } else { scan };
        let table = global.connect().await?.table(self.table)?;
        let name = table.name().clone();
        let mut scanner = table.scan(scan)?;
        let mut lines = Lines::new();
        let progress = Progress::beside_output();
        let form = if self.count {
            None
        } else {
            Some((&value_types, global.output))
        };
        let printed = print(&mut scanner, &mut lines, form, progress.as_ref()).await;
        if let Some(progress) = progress {
            progress.finish();
        }
        // Rows that were read are printed even if an error follows.
        let flushed = lines.flush();
        let rows = printed?;
        flushed?;
        if self.count {
            print_count(&name, rows, global.output)?;
        }
        Ok(Exit::Done)
    }
}

/// Prints the rows in this form, if any, and returns their number.
async fn print(
    scanner: &mut ResultScanner,
    lines: &mut Lines,
    form: Option<(&ValueTypes, Format)>,
    progress: Option<&Progress>,
) -> Result<u64, Failure> {
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
            return Ok(rows);
        };
        if let Some((value_types, format)) = form {
            write(lines, &row, value_types, format)?;
        }
        rows += 1;
    }
}

#[derive(Serialize)]
struct CountObject {
    table: String,
    rows: u64,
}

/// Prints the number of rows of a table.
pub(in crate::cmd) fn print_count(table: &TableName, rows: u64, format: Format) -> io::Result<()> {
    let table = table.to_string();
    match format {
        Format::Json => output::json(&CountObject { table, rows }),
        Format::Table => output::line(&format!("{table}: {rows} rows")),
    }
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
    value: ShownValue<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_type: Option<&'static str>,
    /// The kind of a delete marker.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

/// A value: a number or a boolean if its column has a type, else bytes.
#[derive(Serialize)]
#[serde(untagged)]
enum ShownValue<'a> {
    Typed(Value),
    Bytes(Shown<'a>),
}

impl<'a> RowObject<'a> {
    pub(in crate::cmd) fn new(row: &'a Row, value_types: &ValueTypes) -> Self {
        Self::of(row.key(), row.cells(), value_types)
    }

    /// Creates the object of some cells of a row.
    pub(in crate::cmd) fn of(key: &'a [u8], cells: &'a [Cell], value_types: &ValueTypes) -> Self {
        let cells = cells.iter().map(|cell| {
            let (value, value_type) = match value_types.decode(cell) {
                Some((value_type, value)) => (ShownValue::Typed(value), Some(value_type.name())),
                None => (ShownValue::Bytes(Shown(&cell.value)), None),
            };
            CellObject {
                family: Shown(&cell.family),
                qualifier: Shown(&cell.qualifier),
                timestamp: Some(cell.timestamp),
                ttl_ms: cell.expires_at().map(|end| end.saturating_sub(cell.timestamp)),
                value,
                value_type,
                kind: marker(cell),
            }
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

fn write(lines: &mut Lines, row: &Row, value_types: &ValueTypes, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        lines.json(&RowObject::new(row, value_types))?;
        return Ok(());
    }
    for cell in row.cells() {
        lines.line(format_args!(
            "{}  {}:{}  {}  {}",
            BytesBinary(row.key()),
            BytesBinary(&cell.family),
            BytesBinary(&cell.qualifier),
            cell.timestamp,
            marker(cell).map_or_else(|| value_types.text(cell), |kind| format!("type={kind}"))
        ))?;
    }
    Ok(())
}

/// Returns the kind of a delete marker, as HBase names it.
fn marker(cell: &Cell) -> Option<String> {
    (cell.kind != CellKind::Put).then(|| format!("{:?}", cell.kind))
}
