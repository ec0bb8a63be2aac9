//! The types of the values of cells, by column.

use hbase_txn::client::{BytesBinary, Cell};
use serde_json::Value;

use crate::{value_type::ValueType, values::Column};

/// The types of the values of a read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueTypes {
    columns: Vec<(Column, ValueType)>,
    /// The type in all other columns.
    others: Option<ValueType>,
}

impl ValueTypes {
    pub(crate) fn new(columns: Vec<(Column, ValueType)>, others: Option<ValueType>) -> Self {
        Self { columns, others }
    }

    /// Adds the type of a column.
    pub(crate) fn add(&mut self, column: Column, value_type: ValueType) {
        self.columns.push((column, value_type));
    }

    /// Returns the types of counters, whatever their columns.
    pub(crate) fn counters() -> Self {
        Self::new(Vec::new(), Some(ValueType::Long))
    }

    /// Decodes a cell's value. Returns `None` for a value without a type, or with other bytes than its type has.
    pub(crate) fn decode(&self, cell: &Cell) -> Option<(ValueType, Value)> {
        let is_of = |column: &Column| column.family == cell.family && column.qualifier == cell.qualifier;
        let of_column = self.columns.iter().find(|(column, _)| is_of(column));
        let value_type = of_column.map(|(_, value_type)| *value_type).or(self.others)?;
        Some((value_type, value_type.decode(&cell.value)?))
    }

    /// Formats a cell's value for people.
    pub(crate) fn text(&self, cell: &Cell) -> String {
        match self.decode(cell) {
            Some((_, value)) => value.to_string(),
            None => BytesBinary(&cell.value).to_string(),
        }
    }
}
