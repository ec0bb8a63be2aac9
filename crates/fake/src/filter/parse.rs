//! Filters as messages have them.

use hbase_protocol as pb;

use super::{
    Comparator, Filter,
    column::{ColumnCountGet, ColumnPagination, ColumnPrefix, ColumnRange, MultipleColumnPrefix, PageStart},
    column_value::{ColumnValue, SingleColumnValue},
    compare::{self, Comparison},
    dependent::DependentColumn,
    fuzzy::FuzzyRow,
    key::{FirstKeyOnly, KeyOnly, Timestamps},
    list::{All, Any},
    message::{class, decode},
    row::{InclusiveStop, MultiRowRange, Page, Prefix, RandomRow},
    wrapper::{Outermost, Skip, WhileMatch},
};
use crate::exception::{Exception, Result};

/// The most lists and wrappers inside each other.
const MAX_DEPTH: usize = 50;

/// The differences of filters between releases.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    /// A `PrefixFilter` skips rows by hints, and a list asks its filters for hints about cells that
    /// another one excludes.
    pub(crate) hints: bool,
    /// A `FuzzyRowFilter` has the masks of HBase 1, unless it says otherwise (HBASE-26537).
    pub(crate) first_masks: bool,
}

/// Returns a filter, ready for a scan or a get.
///
/// # Errors
///
/// Returns the exception of a server that cannot read the filter, or the refusal of a filter that
/// is not modelled.
pub(crate) fn parse(filter: &pb::Filter, dialect: Dialect) -> Result<Box<dyn Filter>> {
    Ok(Box::new(Outermost(inner(filter, dialect, 0)?)))
}

fn comparison(operator: pb::CompareType, comparator: &pb::Comparator) -> Result<Comparison> {
    Ok(Comparison {
        operator,
        comparator: Comparator::parse(comparator)?,
    })
}

fn compare(filter: &pb::CompareFilter) -> Result<Comparison> {
    let absent = || Exception::io("a filter without a comparator");
    comparison(
        filter.compare_op(),
        filter.comparator.as_ref().ok_or_else(absent)?,
    )
}

fn single(filter: &pb::SingleColumnValueFilter, exclude: bool) -> Result<Box<dyn Filter>> {
    Ok(Box::new(SingleColumnValue {
        family: filter.column_family.clone().unwrap_or_default(),
        qualifier: filter.column_qualifier.clone().unwrap_or_default(),
        comparison: comparison(filter.compare_op(), &filter.comparator)?,
        filter_if_missing: filter.filter_if_missing.unwrap_or(false),
        // An absent field reads as false in Java.
        latest_version_only: filter.latest_version_only.unwrap_or(false),
        exclude,
        found: false,
        matched: false,
    }))
}

fn inner(filter: &pb::Filter, dialect: Dialect, depth: usize) -> Result<Box<dyn Filter>> {
    if depth > MAX_DEPTH {
        return Err(Exception::not_modelled("filters so deep in each other"));
    }
    let bytes = filter.serialized_filter.clone().unwrap_or_default();
    let name = class(&filter.name)?;
    Ok(match name {
        "SingleColumnValueFilter" => single(&decode(&bytes, name)?, false)?,
        "SingleColumnValueExcludeFilter" => {
            let message: pb::SingleColumnValueExcludeFilter = decode(&bytes, name)?;
            single(&message.single_column_value_filter, true)?
        }
        "ColumnValueFilter" => {
            let message: pb::ColumnValueFilter = decode(&bytes, name)?;
            Box::new(ColumnValue {
                family: message.family.clone(),
                qualifier: message.qualifier.clone(),
                comparison: comparison(message.compare_op(), &message.comparator)?,
                found: false,
            })
        }
        "RowFilter" => {
            let pb::RowFilter { compare_filter } = decode(&bytes, name)?;
            Box::new(compare::Row {
                comparison: compare(&compare_filter)?,
                excluded: false,
            })
        }
        "FamilyFilter" => {
            let pb::FamilyFilter { compare_filter } = decode(&bytes, name)?;
            Box::new(compare::Family(compare(&compare_filter)?))
        }
        "QualifierFilter" => {
            let pb::QualifierFilter { compare_filter } = decode(&bytes, name)?;
            Box::new(compare::Qualifier(compare(&compare_filter)?))
        }
        "ValueFilter" => {
            let pb::ValueFilter { compare_filter } = decode(&bytes, name)?;
            Box::new(compare::Value(compare(&compare_filter)?))
        }
        "DependentColumnFilter" => {
            let message: pb::DependentColumnFilter = decode(&bytes, name)?;
            let compared = &message.compare_filter;
            let comparison = compared
                .comparator
                .as_ref()
                .map(|comparator| comparison(compared.compare_op(), comparator));
            Box::new(DependentColumn {
                comparison: comparison.transpose()?,
                family: message.column_family.unwrap_or_default(),
                qualifier: message.column_qualifier.unwrap_or_default(),
                drop_column: message.drop_dependent_column.unwrap_or(false),
                timestamps: Default::default(),
            })
        }
        "FuzzyRowFilter" => Box::new(FuzzyRow::new(decode(&bytes, name)?, dialect.first_masks)?),
        "FilterList" => {
            let message: pb::FilterList = decode(&bytes, name)?;
            let filters: Vec<_> = message
                .filters
                .iter()
                .map(|filter| inner(filter, dialect, depth + 1))
                .collect::<Result<_>>()?;
            match message.operator() {
                pb::filter_list::Operator::MustPassAll => Box::new(All {
                    filters,
                    asks_for_hints: dialect.hints,
                    reversed: false,
                }),
                pb::filter_list::Operator::MustPassOne => Box::new(Any {
                    members: filters.into_iter().map(Into::into).collect(),
                    reversed: false,
                }),
            }
        }
        "PrefixFilter" => {
            let pb::PrefixFilter { prefix } = decode(&bytes, name)?;
            Box::new(Prefix::new(prefix, dialect.hints))
        }
        "ColumnPrefixFilter" => {
            let pb::ColumnPrefixFilter { prefix } = decode(&bytes, name)?;
            Box::new(ColumnPrefix(prefix))
        }
        "MultipleColumnPrefixFilter" => {
            let pb::MultipleColumnPrefixFilter { sorted_prefixes } = decode(&bytes, name)?;
            Box::new(MultipleColumnPrefix(sorted_prefixes.into_iter().collect()))
        }
        "ColumnRangeFilter" => {
            let message: pb::ColumnRangeFilter = decode(&bytes, name)?;
            Box::new(ColumnRange {
                min_inclusive: message.min_column_inclusive.unwrap_or(false),
                max_inclusive: message.max_column_inclusive.unwrap_or(false),
                min: message.min_column,
                max: message.max_column,
            })
        }
        "MultiRowRangeFilter" => {
            let pb::MultiRowRangeFilter { row_range_list } = decode(&bytes, name)?;
            Box::new(MultiRowRange::new(row_range_list).map_err(Exception::io)?)
        }
        "KeyOnlyFilter" => {
            let pb::KeyOnlyFilter { len_as_val } = decode(&bytes, name)?;
            Box::new(KeyOnly {
                length_as_value: len_as_val,
            })
        }
        "FirstKeyOnlyFilter" => {
            let pb::FirstKeyOnlyFilter {} = decode(&bytes, name)?;
            Box::new(FirstKeyOnly::default())
        }
        "PageFilter" => {
            let pb::PageFilter { page_size } = decode(&bytes, name)?;
            Box::new(Page {
                size: page_size,
                accepted: 0,
            })
        }
        "ColumnCountGetFilter" => {
            let pb::ColumnCountGetFilter { limit } = decode(&bytes, name)?;
            Box::new(ColumnCountGet { limit, count: 0 })
        }
        "ColumnPaginationFilter" => {
            let message: pb::ColumnPaginationFilter = decode(&bytes, name)?;
            let start = match message.column_offset {
                Some(column) => PageStart::Qualifier(column),
                None => PageStart::Count(message.offset.unwrap_or(0)),
            };
            Box::new(ColumnPagination {
                limit: message.limit,
                start,
                count: 0,
            })
        }
        "InclusiveStopFilter" => {
            let pb::InclusiveStopFilter { stop_row_key } = decode(&bytes, name)?;
            Box::new(InclusiveStop {
                stop_row: stop_row_key.unwrap_or_default(),
                reversed: false,
                done: false,
            })
        }
        "TimestampsFilter" => {
            let pb::TimestampsFilter { timestamps, can_hint } = decode(&bytes, name)?;
            Box::new(Timestamps {
                timestamps: timestamps
                    .into_iter()
                    .filter_map(|time| time.try_into().ok())
                    .collect(),
                can_hint: can_hint.unwrap_or(false),
            })
        }
        "RandomRowFilter" => {
            let pb::RandomRowFilter { chance } = decode(&bytes, name)?;
            Box::new(RandomRow {
                chance,
                excluded: false,
            })
        }
        "SkipFilter" => {
            let pb::SkipFilter { filter } = decode(&bytes, name)?;
            Box::new(Skip {
                filter: inner(&filter, dialect, depth + 1)?,
                excluded: false,
            })
        }
        "WhileMatchFilter" => {
            let pb::WhileMatchFilter { filter } = decode(&bytes, name)?;
            Box::new(WhileMatch {
                filter: inner(&filter, dialect, depth + 1)?,
                done: false,
            })
        }
        other => return Err(Exception::not_modelled(format!("filter {other}"))),
    })
}
