//! Conditions: of single rows, and of several rows at once, which compare differently.

use std::cmp::Ordering;

use bytes::Bytes;
use hbase_protocol as pb;
use pb::CompareType;

use super::{
    Region,
    read::{Query, time_range},
};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
    filter::{self, Comparator},
};

/// A condition on one row, ready to be evaluated.
pub(super) struct Condition<'a> {
    row: &'a Bytes,
    query: Query,
    test: Test<'a>,
}

enum Test<'a> {
    /// The row has a cell that passes.
    Filter(&'a pb::Filter),
    Compare(CompareType, Comparator),
}

impl<'a> Condition<'a> {
    pub(super) fn read(region: &Region, condition: &'a pb::Condition) -> Result<Self> {
        let pb::Condition {
            row,
            family,
            qualifier,
            compare_type: _,
            comparator,
            time_range: range,
            filter,
            query_metrics_enabled,
        } = condition;
        if query_metrics_enabled == &Some(true) {
            return Err(Exception::not_modelled("query metrics"));
        }
        let range = time_range(range.as_ref())?;
        if let Some(filter) = filter {
            return Ok(Self {
                row,
                query: Query::newest(region, None, range),
                test: Test::Filter(filter),
            });
        }
        let (family, qualifier) = (
            family.clone().unwrap_or_default(),
            qualifier.clone().unwrap_or_default(),
        );
        let comparator = comparator
            .as_ref()
            .ok_or_else(|| Exception::io("a condition without a comparator"))?;
        Ok(Self {
            row,
            query: Query::newest(region, Some((&family, &qualifier)), range),
            test: Test::Compare(condition.compare_type(), Comparator::parse(comparator)?),
        })
    }

    /// Returns the cells that the condition is about.
    fn cells(&self, region: &Region, now: u64) -> Result<Vec<Cell>> {
        let filter = match &self.test {
            Test::Filter(filter) => Some(filter::parse(filter, region.release.filters())?),
            Test::Compare(..) => None,
        };
        region.read_row(&self.query, self.row, now, filter, false)
    }

    /// Evaluates a condition of a call for several rows.
    pub(super) fn holds_for_rows(&self, region: &Region, now: u64) -> Result<bool> {
        let cells = self.cells(region, now)?;
        let Test::Compare(operator, comparator) = &self.test else {
            return Ok(!cells.is_empty());
        };
        let is_null = comparator.value().is_none_or(Bytes::is_empty);
        Ok(match (cells.first(), is_null) {
            (None, is_null) => is_null,
            (Some(cell), true) => cell.value.is_empty(),
            (Some(cell), false) => holds(*operator, comparator.compare(&cell.value)?),
        })
    }

    /// Evaluates a condition of a call for one row. Returns the timestamp of the cell that it read
    /// if it holds.
    pub(super) fn holds_for_row(&self, region: &Region, now: u64) -> Result<Option<u64>> {
        let cells = self.cells(region, now)?;
        let first = cells.first();
        let timestamp = first.map_or(0, |cell| cell.timestamp);
        let Test::Compare(operator, comparator) = &self.test else {
            return Ok(first.map(|_| timestamp));
        };
        let negated = *operator == CompareType::NotEqual;
        // Only the bytes of a comparator count.
        let value = comparator.value().filter(|value| !value.is_empty());
        let holds = match (first, value) {
            (None, None) => !negated,
            (None, Some(_)) => false,
            (Some(cell), None) => cell.value.is_empty() != negated,
            (Some(cell), Some(value)) => holds(*operator, value[..].cmp(&cell.value[..])),
        };
        Ok(holds.then_some(timestamp))
    }
}

/// Returns whether the order of the given and the stored value satisfies an operator.
fn holds(operator: CompareType, order: Ordering) -> bool {
    match operator {
        CompareType::Less => order.is_lt(),
        CompareType::LessOrEqual => order.is_le(),
        CompareType::Equal => order.is_eq(),
        CompareType::NotEqual => order.is_ne(),
        CompareType::GreaterOrEqual => order.is_ge(),
        CompareType::Greater => order.is_gt(),
        CompareType::NoOp => false,
    }
}
