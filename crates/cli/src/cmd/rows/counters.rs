//! `hbase-txn increment` and `append`. They print the new values.

use bytes::Bytes;
use clap::Args;
use hbase_client::{Error, Table};
use hbase_txn::client::{BytesBinary, Get, Row, TableName};

use super::{read::print_row, reserved::Reserved};
use crate::{
    cell_types::ValueTypes,
    exit::{Failure, Outcome},
    global::{Format, Global},
    hints, output,
    values::{self, CellValue, Column},
};

/// Of a change that was sent again, because an answer was lost.
const UNKNOWN: &str = "applied, but the answer has no values: read them";

/// Add to counters of a row, all or none, and print their new values
///
/// A counter is a number of eight bytes: put sets it by F:Q:toLong=5, and get shows it by --column
/// F:Q:toLong. Exit status 4: the answer was lost, and the amounts may have been added.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn increment orders xxxabc f:visits=1")]
pub(crate) struct Increment {
    /// Table, with its namespace if it has one
    table: TableName,
    /// Row key; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    row: Bytes,
    /// Counters, with what is added to them
    #[arg(value_name = "F:Q=AMOUNT", required = true, allow_negative_numbers = true, value_parser = amount)]
    amounts: Vec<Amount>,
    #[command(flatten)]
    reserved: Reserved,
}

/// Append to values of a row, all or none, and print the new values
///
/// Exit status 4: the answer was lost, and the values may have been appended.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn append orders xxxabc f:log=paid;")]
pub(crate) struct Append {
    /// Table, with its namespace if it has one
    table: TableName,
    /// Row key; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    row: Bytes,
    /// Columns, with what is appended to their values; \xNN is a byte
    #[arg(value_name = "F:Q=VALUE", required = true, value_parser = values::cell)]
    cells: Vec<CellValue>,
    #[command(flatten)]
    reserved: Reserved,
}

/// A counter, and what is added to it.
#[derive(Clone, Debug)]
struct Amount {
    column: Column,
    by: i64,
}

fn amount(text: &str) -> Result<Amount, String> {
    let refusal = || "an amount is written F:Q=NUMBER".to_owned();
    let (column, by) = text.split_once('=').ok_or_else(refusal)?;
    Ok(Amount {
        column: values::column(column)?,
        by: by.parse().map_err(|_| refusal())?,
    })
}

/// Prints the new values, if the answer has them.
fn print_new(row: &Row, value_types: &ValueTypes, format: Format) -> Outcome {
    if row.cells().is_empty() {
        output::complain(UNKNOWN);
    }
    print_row(row, value_types, format)
}

impl Increment {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let columns: Vec<Column> = self.amounts.iter().map(|amount| amount.column.clone()).collect();
        let amounts = self.amounts.into_iter();
        let increment = amounts.fold(
            hbase_txn::client::Increment::new(self.row.clone()),
            |all, Amount { column, by }| all.column(column.family, column.qualifier, by),
        );
        let connection = global.connect().await?;
        let table = self.reserved.table(&connection, self.table, &self.row).await?;
        match table.increment(increment).await {
            Ok(row) => print_new(&row, &ValueTypes::counters(), global.output),
            Err(error) => Err(not_added(error, &table, self.row, &columns).await),
        }
    }
}

/// Names the column of the increment that is not a counter, because HBase's error has neither its name nor
/// its value.
async fn not_added(error: Error, table: &Table, row: Bytes, columns: &[Column]) -> Failure {
    if !hints::is_no_counter(error.remote()) {
        return error.into();
    }
    let get = columns.iter().fold(Get::new(row), |get, column| {
        get.column(column.family.clone(), column.qualifier.clone())
    });
    let found = table.get(get).await.ok().flatten();
    let odd = found
        .iter()
        .flat_map(Row::cells)
        .find(|cell| cell.value.len() != 8);
    odd.map_or_else(
        || error.into(),
        |cell| {
            Failure::Refused(format!(
                "table {}: {} {}:{} holds {}, not an 8-byte counter; nothing was added",
                table.name(),
                BytesBinary(&cell.row),
                BytesBinary(&cell.family),
                BytesBinary(&cell.qualifier),
                output::counted(cell.value.len(), "byte")
            ))
        },
    )
}

impl Append {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let cells = self.cells.into_iter();
        let append = cells.fold(
            hbase_txn::client::Append::new(self.row.clone()),
            |all, CellValue { column, value }| all.cell(column.family, column.qualifier, value),
        );
        let connection = global.connect().await?;
        let table = self.reserved.table(&connection, self.table, &self.row).await?;
        let row = table.append(append).await?;
        print_new(&row, &ValueTypes::default(), global.output)
    }
}
