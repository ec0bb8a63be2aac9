//! `hbase-txn put` and `delete`. They print nothing on success.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use clap::Args;
use hbase_txn::client::{BytesBinary, TableName};

use super::reserved::Reserved;
use crate::{
    durations,
    exit::{Exit, Failure, Outcome},
    global::Global,
    values::{self, CellValue, Part, Ranged},
};

/// Write cells of a row, all or none
///
/// Nothing is printed. Exit status 4: the answer was lost, and the cells may have been written.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn put orders xxxabc f:status=paid f:total:toLong=1250 --ttl 1h")]
pub(crate) struct Put {
    /// Table, with its namespace if it has one
    table: TableName,
    /// Row key; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    row: Bytes,
    /// Cells; \xNN is a byte. F:Q:toLong=5 writes a number of eight bytes; there are also toInt, toShort,
    /// toDouble, toFloat and toBoolean
    #[arg(value_name = "F:Q[:TYPE]=VALUE", required = true, value_parser = values::cell)]
    cells: Vec<CellValue>,
    /// Lifetime of the cells, from their timestamp on
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    ttl: Option<Ranged<Duration>>,
    /// Timestamp of the cells, in milliseconds since 1970 [default: the server's time]
    #[arg(long, value_name = "MILLIS", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    timestamp: Option<Ranged<u64>>,
    #[command(flatten)]
    reserved: Reserved,
}

/// Delete a row, or families and columns of it
///
/// Nothing is printed. Exit status 4: the answer was lost, and the cells may have been deleted.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn delete orders xxxabc f:status")]
pub(crate) struct Delete {
    /// Table, with its namespace if it has one
    table: TableName,
    /// Row key; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    row: Bytes,
    /// Family F or column F:Q, with all versions [default: the whole row]
    #[arg(value_name = "F[:Q]", value_parser = values::part)]
    parts: Vec<Part>,
    /// Only cells stamped at or before this time, in milliseconds since 1970 [default: the server's
    /// time]
    #[arg(long, value_name = "MILLIS", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    timestamp: Option<Ranged<u64>>,
    #[command(flatten)]
    reserved: Reserved,
}

impl Put {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        self.refuse_a_cell_twice()?;
        let mut put = hbase_txn::client::Put::new(self.row.clone());
        for CellValue { column, value } in self.cells {
            put = put.cell(column.family, column.qualifier, value);
        }
        if let Some(ttl) = self.ttl {
            put = put.ttl(ttl.get("--ttl")?);
        }
        if let Some(timestamp) = self.timestamp {
            put = put.timestamp(timestamp.get("--timestamp")?);
        }
        let connection = global.connect().await?;
        let table = self.reserved.table(&connection, self.table, &self.row).await?;
        table.put(put).await?;
        Ok(Exit::Done)
    }
}

impl Put {
    /// Refuses two values for one cell: the server would silently keep only one.
    fn refuse_a_cell_twice(&self) -> Result<(), Failure> {
        let mut seen = HashSet::new();
        match self.cells.iter().find(|cell| !seen.insert(&cell.column)) {
            None => Ok(()),
            Some(CellValue { column, .. }) => Err(Failure::Refused(format!(
                "put, table {}, row {}: cell {}:{} is put twice; leave one of the two out",
                self.table,
                BytesBinary(&self.row),
                BytesBinary(&column.family),
                BytesBinary(&column.qualifier)
            ))),
        }
    }
}

impl Delete {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let mut delete = hbase_txn::client::Delete::new(self.row.clone());
        for Part { family, qualifier } in self.parts {
            delete = match qualifier {
                Some(qualifier) => delete.column(family, qualifier),
                None => delete.family(family),
            };
        }
        if let Some(timestamp) = self.timestamp {
            delete = delete.timestamp(timestamp.get("--timestamp")?);
        }
        let connection = global.connect().await?;
        let table = self.reserved.table(&connection, self.table, &self.row).await?;
        table.delete(delete).await?;
        Ok(Exit::Done)
    }
}
