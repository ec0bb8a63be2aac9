//! `hbase-txn increment` and `append`. They print the new values.

use bytes::Bytes;
use clap::Args;
use hbase_txn::{Row, TableName};

use super::{read::print_row, reserved::Reserved};
use crate::{
    exit::Outcome,
    global::{Format, Global},
    output,
    values::{self, CellValue, Column},
};

/// Of a change that was sent again, because an answer was lost.
const UNKNOWN: &str = "applied, but the answer has no values: read them";

/// Add to counters of a row, all or none, and print their new values
///
/// A counter is a number of eight bytes, such as \x00\x00\x00\x00\x00\x00\x00\x01. Exit status 4: the
/// answer was lost, and the amounts may have been added.
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
fn print_new(row: &Row, format: Format) -> Outcome {
    if row.cells().is_empty() {
        output::complain(UNKNOWN);
    }
    print_row(row, format)
}

impl Increment {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let amounts = self.amounts.into_iter();
        let increment = amounts.fold(
            hbase_txn::Increment::new(self.row.clone()),
            |all, Amount { column, by }| all.column(column.family, column.qualifier, by),
        );
        let connection = global.connect().await?;
        let table = self.reserved.table(&connection, self.table, &self.row).await?;
        print_new(&table.increment(increment).await?, global.output)
    }
}

impl Append {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let cells = self.cells.into_iter();
        let append = cells.fold(
            hbase_txn::Append::new(self.row.clone()),
            |all, CellValue { column, value }| all.cell(column.family, column.qualifier, value),
        );
        let connection = global.connect().await?;
        let table = self.reserved.table(&connection, self.table, &self.row).await?;
        print_new(&table.append(append).await?, global.output)
    }
}
