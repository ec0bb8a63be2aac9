//! Random operations on a few rows and columns, so that they often meet.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fastrand::Rng;
use hbase_protocol as pb;
use pb::{CompareType, mutation_proto};
use prost::Message;

/// The number of operations in a sequence.
pub(crate) const LENGTH: usize = 20;
/// The families of the table, each with settings of its own; the last one does not exist.
const FAMILIES: [&str; 5] = ["a", "b", "m", "n", "x"];
/// The family with `NEW_VERSION_BEHAVIOR`.
const BY_SEQUENCE: &[u8] = b"n";
const FILTERS: &str = "org.apache.hadoop.hbase.filter.";

/// One call.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Get(pb::Get),
    Exec(pb::MutateRowsRequest),
    Flush,
    Multi(Vec<pb::Action>, bool, Option<pb::Condition>),
    Mutate(pb::MutationProto, Option<pb::Condition>),
    Scan(pb::Scan, Paging),
}

/// What each call of a scan asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paging {
    /// The most results.
    pub(crate) results: u32,
    /// The most whole rows.
    pub(crate) rows: Option<u32>,
    /// Whether rows may be cut where an answer is full.
    pub(crate) cuts_rows: bool,
}

struct Generator<'a> {
    rng: Rng,
    prefix: &'a str,
}

/// Returns the operations of a seed on rows with a prefix.
pub(crate) fn sequence(seed: u64, prefix: &str) -> Vec<Operation> {
    let mut generator = Generator {
        rng: Rng::with_seed(seed),
        prefix,
    };
    (0..LENGTH).map(|_| generator.operation()).collect()
}

impl Generator<'_> {
    /// Returns whether one of `of` cases is chosen.
    fn once_in(&mut self, of: u32) -> bool {
        self.rng.u32(..of) == 0
    }

    fn sometimes<T>(&mut self, of: u32, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.once_in(of).then(|| make(self))
    }

    fn several<T>(
        &mut self,
        numbers: std::ops::RangeInclusive<usize>,
        make: impl Fn(&mut Self) -> T,
    ) -> Vec<T> {
        (0..self.rng.usize(numbers)).map(|_| make(self)).collect()
    }

    fn operation(&mut self) -> Operation {
        match self.rng.u32(..100) {
            0..30 => {
                let mutation = self.mutation(None);
                let row = mutation.row().to_vec();
                let condition = self.sometimes(3, |all| all.condition(Some(row.into())));
                Operation::Mutate(mutation, condition)
            }
            30..60 => Operation::Exec(self.mutate_rows()),
            60..72 => self.multi(),
            72..82 => Operation::Get(self.get()),
            82..96 => {
                let paging = Paging {
                    results: self.rng.u32(1..5),
                    rows: self.sometimes(6, |all| all.rng.u32(1..4)),
                    cuts_rows: !self.once_in(4),
                };
                Operation::Scan(self.scan(), paging)
            }
            _ => Operation::Flush,
        }
    }

    fn row(&mut self) -> Bytes {
        match self.rng.u32(..40) {
            // In another region.
            0 => format!("~{}", self.prefix).into(),
            _ => format!("{}r{}", self.prefix, self.rng.u32(..3)).into(),
        }
    }

    fn family(&mut self) -> Bytes {
        match self.rng.u32(..40) {
            0 => FAMILIES[4].into(),
            _ => (*self.rng.choice(&FAMILIES[..4]).unwrap()).into(),
        }
    }

    fn qualifier(&mut self) -> Bytes {
        (*self.rng.choice(&["", "p", "q"]).unwrap()).into()
    }

    /// HBase handles the column without a name wrongly where markers count by sequence.
    fn qualifier_in(&mut self, family: &Bytes) -> Bytes {
        match &**family {
            BY_SEQUENCE => "p".into(),
            _ => self.qualifier(),
        }
    }

    fn value(&mut self) -> Bytes {
        match self.rng.u32(..5) {
            0 => Bytes::new(),
            1 => Bytes::copy_from_slice(&self.rng.i64(-2..3).to_be_bytes()),
            _ => (*self.rng.choice(&["1", "2", "x", "xy"]).unwrap()).into(),
        }
    }

    /// A timestamp, or none for the server's time.
    fn timestamp(&mut self) -> Option<u64> {
        self.rng.bool().then(|| self.rng.u64(1..6))
    }

    fn time_range(&mut self) -> pb::TimeRange {
        let from = self.rng.u64(0..4);
        let to = from + self.rng.u64(1..4);
        // The fake refuses a range without ends.
        let (has_from, has_to) = [(true, true), (true, false), (false, true)][self.rng.usize(..3)];
        pb::TimeRange {
            from: has_from.then_some(from),
            to: has_to.then_some(to),
        }
    }

    fn mutation(&mut self, row: Option<Bytes>) -> pb::MutationProto {
        use mutation_proto::MutationType::{Append, Delete, Increment, Put};
        let kind = match self.rng.u32(..10) {
            0..5 => Put,
            5..8 => Delete,
            8 => Increment,
            _ => Append,
        };
        let columns = match kind {
            Delete => self.several(0..=2, |all| all.deleted_columns()),
            _ => self.several(1..=2, |all| all.written_columns(kind)),
        };
        let mut mutation = pb::MutationProto {
            row: Some(row.unwrap_or_else(|| self.row())),
            column_value: once_each(columns),
            timestamp: self.sometimes(6, Self::timestamp).flatten(),
            ..Default::default()
        };
        mutation.set_mutate_type(kind);
        if matches!(kind, Increment | Append) {
            mutation.timestamp = None;
            mutation.time_range = self.sometimes(8, Self::time_range);
            if self.once_in(6) {
                mutation.attribute.push(attribute("_rr_", &[0]));
            }
        } else if kind == Put && self.once_in(10) {
            mutation
                .attribute
                .push(attribute("_ttl", &3_600_000_u64.to_be_bytes()));
        }
        mutation
    }

    fn written_columns(&mut self, kind: mutation_proto::MutationType) -> mutation_proto::ColumnValue {
        let family = self.family();
        let qualifier_value = self.several(1..=2, |all| {
            let (value, timestamp) = match kind {
                mutation_proto::MutationType::Increment => {
                    let amount = all.rng.i64(-2..3).to_be_bytes();
                    (
                        Bytes::copy_from_slice(&amount),
                        all.sometimes(4, Self::timestamp).flatten(),
                    )
                }
                mutation_proto::MutationType::Append => {
                    (all.value(), all.sometimes(4, Self::timestamp).flatten())
                }
                _ => (all.value(), all.timestamp()),
            };
            mutation_proto::column_value::QualifierValue {
                qualifier: Some(all.qualifier_in(&family)),
                value: Some(value),
                timestamp,
                ..Default::default()
            }
        });
        mutation_proto::ColumnValue {
            family,
            qualifier_value,
        }
    }

    fn deleted_columns(&mut self) -> mutation_proto::ColumnValue {
        use mutation_proto::DeleteType::{
            DeleteFamily, DeleteFamilyVersion, DeleteMultipleVersions, DeleteOneVersion,
        };
        let family = self.family();
        let qualifier_value = self.several(1..=2, |all| {
            let scope = *all
                .rng
                .choice(&[
                    DeleteFamily,
                    DeleteFamilyVersion,
                    DeleteMultipleVersions,
                    DeleteOneVersion,
                ])
                .unwrap();
            let scope = match (scope, &*family) {
                // The fake refuses these.
                (DeleteFamilyVersion, BY_SEQUENCE) => DeleteFamily,
                (DeleteOneVersion, BY_SEQUENCE) => DeleteMultipleVersions,
                (scope, _) => scope,
            };
            let of_family = matches!(scope, DeleteFamily | DeleteFamilyVersion);
            let mut deleted = mutation_proto::column_value::QualifierValue {
                qualifier: (!of_family).then(|| all.qualifier_in(&family)),
                timestamp: all.timestamp(),
                ..Default::default()
            };
            deleted.set_delete_type(scope);
            deleted
        });
        mutation_proto::ColumnValue {
            family,
            qualifier_value,
        }
    }

    fn mutate_rows(&mut self) -> pb::MutateRowsRequest {
        pb::MutateRowsRequest {
            mutation_request: self.several(0..=3, |all| all.mutation(None)),
            condition: if self.once_in(2) {
                self.several(1..=3, |all| all.condition(None))
            } else {
                Vec::new()
            },
            ..Default::default()
        }
    }

    fn multi(&mut self) -> Operation {
        let row = self.once_in(3).then(|| self.row());
        let condition = match row.clone() {
            Some(row) => self.sometimes(2, |all| all.condition(Some(row))),
            None => None,
        };
        let atomic = condition.is_some() || self.rng.bool();
        let count = self.rng.u32(1..4);
        let actions: Vec<_> = (0..count)
            .map(|index| {
                let get = (!atomic || self.once_in(30)) && self.once_in(3);
                pb::Action {
                    index: Some(index),
                    mutation: (!get).then(|| self.mutation(row.clone())),
                    get: get.then(|| self.get()),
                    ..Default::default()
                }
            })
            .collect();
        let actions = if atomic { actions } else { one_step_each(actions) };
        Operation::Multi(actions, atomic, condition)
    }

    fn condition(&mut self, row: Option<Bytes>) -> pb::Condition {
        let mut condition = pb::Condition {
            row: row.unwrap_or_else(|| self.row()),
            time_range: self.sometimes(8, Self::time_range),
            ..Default::default()
        };
        if self.once_in(3) {
            condition.filter = Some(self.filter());
            return condition;
        }
        condition.family = Some(self.family());
        condition.qualifier = Some(self.qualifier());
        condition.comparator = Some(self.comparator());
        condition.set_compare_type(self.operator());
        condition
    }

    fn operator(&mut self) -> CompareType {
        use CompareType::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        *self
            .rng
            .choice(&[Equal, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual])
            .unwrap()
    }

    fn comparator(&mut self) -> pb::Comparator {
        let comparable = pb::ByteArrayComparable {
            value: Some(self.value()),
        };
        match self.rng.u32(..9) {
            0 => comparator(
                "BinaryPrefixComparator",
                &pb::BinaryPrefixComparator { comparable },
            ),
            1 => comparator("NullComparator", &pb::NullComparator {}),
            2 => comparator(
                "SubstringComparator",
                &pb::SubstringComparator { substr: "x".into() },
            ),
            3 => comparator(
                "RegexStringComparator",
                &pb::RegexStringComparator {
                    pattern: "^x.?$".into(),
                    pattern_flags: 32,
                    charset: "ISO-8859-1".into(),
                    engine: None,
                },
            ),
            _ => comparator("BinaryComparator", &pb::BinaryComparator { comparable }),
        }
    }

    fn compare(&mut self) -> pb::CompareFilter {
        let mut compare = pb::CompareFilter {
            comparator: Some(self.comparator()),
            ..Default::default()
        };
        compare.set_compare_op(self.operator());
        compare
    }

    fn single_column_value(&mut self) -> pb::SingleColumnValueFilter {
        let mut value = pb::SingleColumnValueFilter {
            column_family: Some(self.family()),
            column_qualifier: Some(self.qualifier()),
            comparator: self.comparator(),
            filter_if_missing: self.once_in(2).then_some(true),
            latest_version_only: self.once_in(3).then_some(false),
            ..Default::default()
        };
        value.set_compare_op(self.operator());
        value
    }

    fn filter(&mut self) -> pb::Filter {
        match self.rng.u32(..16) {
            13..16 => self.other_filter(),
            0 => filter(
                "ValueFilter",
                &pb::ValueFilter {
                    compare_filter: self.compare(),
                },
            ),
            1 => filter(
                "QualifierFilter",
                &pb::QualifierFilter {
                    compare_filter: self.compare(),
                },
            ),
            2 => filter(
                "FamilyFilter",
                &pb::FamilyFilter {
                    compare_filter: self.compare(),
                },
            ),
            3 => filter("FirstKeyOnlyFilter", &pb::FirstKeyOnlyFilter {}),
            4 => filter(
                "KeyOnlyFilter",
                &pb::KeyOnlyFilter {
                    len_as_val: self.rng.bool(),
                },
            ),
            5 | 6 => {
                let value = self.single_column_value();
                filter("SingleColumnValueFilter", &value)
            }
            7 => {
                let mut value = pb::ColumnValueFilter {
                    family: self.family(),
                    qualifier: self.qualifier(),
                    comparator: self.comparator(),
                    ..Default::default()
                };
                value.set_compare_op(self.operator());
                filter("ColumnValueFilter", &value)
            }
            8 => filter(
                "ColumnPrefixFilter",
                &pb::ColumnPrefixFilter { prefix: "p".into() },
            ),
            9 => filter(
                "PageFilter",
                &pb::PageFilter {
                    page_size: self.rng.i64(1..3),
                },
            ),
            _ => {
                let mut list = pb::FilterList {
                    filters: self.several(1..=2, Self::filter),
                    ..Default::default()
                };
                list.set_operator(if self.rng.bool() {
                    pb::filter_list::Operator::MustPassAll
                } else {
                    pb::filter_list::Operator::MustPassOne
                });
                filter("FilterList", &list)
            }
        }
    }

    /// The filters that are used more rarely.
    fn other_filter(&mut self) -> pb::Filter {
        match self.rng.u32(..13) {
            10 => {
                let mut dependent = pb::DependentColumnFilter {
                    compare_filter: self.compare(),
                    column_family: Some(self.family()),
                    column_qualifier: Some(self.qualifier()),
                    drop_dependent_column: self.sometimes(2, |all| all.rng.bool()),
                };
                if self.once_in(2) {
                    dependent.compare_filter = pb::CompareFilter {
                        compare_op: CompareType::NoOp.into(),
                        comparator: None,
                    };
                }
                filter("DependentColumnFilter", &dependent)
            }
            11 => {
                let is_mask_v2 = self.sometimes(2, |all| all.rng.bool());
                let keys = self.several(1..=2, |all| {
                    let first = all.row();
                    // Unprocessed, or processed by that version.
                    let processed = if is_mask_v2 == Some(true) { 2 } else { 0 };
                    let (fixed, any) = *all.rng.choice(&[(0, 1), (0xff, processed)]).unwrap();
                    let mut second = vec![fixed; first.len()];
                    *second.last_mut().unwrap() = any;
                    (first, second.into())
                });
                let fuzzy_keys_data = keys
                    .into_iter()
                    .map(|(first, second)| pb::BytesBytesPair { first, second })
                    .collect();
                filter(
                    "FuzzyRowFilter",
                    &pb::FuzzyRowFilter {
                        fuzzy_keys_data,
                        is_mask_v2,
                    },
                )
            }
            0 => {
                let mut compare = self.compare();
                let comparable = pb::ByteArrayComparable {
                    value: Some(self.row()),
                };
                let comparator = comparator("BinaryComparator", &pb::BinaryComparator { comparable });
                compare.comparator = Some(comparator);
                let compare_filter = compare;
                filter("RowFilter", &pb::RowFilter { compare_filter })
            }
            1 => {
                let prefix = Some(self.row());
                filter("PrefixFilter", &pb::PrefixFilter { prefix })
            }
            2 => filter(
                "ColumnPaginationFilter",
                &pb::ColumnPaginationFilter {
                    limit: self.rng.i32(1..3),
                    offset: self.sometimes(2, |all| all.rng.i32(0..2)),
                    column_offset: None,
                },
            ),
            3 => filter(
                "ColumnRangeFilter",
                &pb::ColumnRangeFilter {
                    min_column: self.sometimes(2, Self::qualifier),
                    min_column_inclusive: Some(self.rng.bool()),
                    max_column: self.sometimes(2, Self::qualifier),
                    max_column_inclusive: Some(self.rng.bool()),
                },
            ),
            4 => filter(
                "MultipleColumnPrefixFilter",
                &pb::MultipleColumnPrefixFilter {
                    sorted_prefixes: vec!["p".into(), "q".into()],
                },
            ),
            5 => filter(
                "TimestampsFilter",
                &pb::TimestampsFilter {
                    timestamps: self.several(1..=2, |all| all.rng.i64(1..6)),
                    can_hint: self.sometimes(2, |all| all.rng.bool()),
                },
            ),
            6 => filter(
                "ColumnCountGetFilter",
                &pb::ColumnCountGetFilter {
                    limit: self.rng.i32(1..3),
                },
            ),
            7 => filter(
                "InclusiveStopFilter",
                &pb::InclusiveStopFilter {
                    stop_row_key: Some(self.row()),
                },
            ),
            8 => {
                let inner = self.filter();
                filter("SkipFilter", &pb::SkipFilter { filter: inner })
            }
            9 => {
                let inner = self.filter();
                filter("WhileMatchFilter", &pb::WhileMatchFilter { filter: inner })
            }
            _ => {
                let value = self.single_column_value();
                filter(
                    "SingleColumnValueExcludeFilter",
                    &pb::SingleColumnValueExcludeFilter {
                        single_column_value_filter: value,
                    },
                )
            }
        }
    }

    fn columns(&mut self) -> Vec<pb::Column> {
        if self.once_in(2) {
            Vec::new()
        } else {
            self.several(1..=2, |all| pb::Column {
                family: all.family(),
                qualifier: if all.once_in(2) {
                    Vec::new()
                } else {
                    all.several(1..=2, Self::qualifier)
                },
            })
        }
    }

    fn get(&mut self) -> pb::Get {
        pb::Get {
            row: self.row(),
            column: self.columns(),
            filter: self.sometimes(3, Self::filter),
            time_range: self.sometimes(5, Self::time_range),
            max_versions: Some(self.rng.u32(1..4)),
            existence_only: self.sometimes(8, |_| true),
            store_limit: self.sometimes(10, |all| all.rng.u32(1..3)),
            store_offset: self.sometimes(12, |all| all.rng.u32(0..2)),
            ..Default::default()
        }
    }

    fn scan(&mut self) -> pb::Scan {
        let (low, high) = (format!("{}r", self.prefix), format!("{}s", self.prefix));
        let reversed = self.once_in(4);
        let (start, stop) = if reversed { (high, low) } else { (low, high) };
        pb::Scan {
            column: self.columns(),
            start_row: Some(start.into()),
            stop_row: Some(stop.into()),
            batch_size: self.sometimes(8, |all| all.rng.u32(1..3)),
            filter: self.sometimes(3, Self::filter),
            time_range: self.sometimes(5, Self::time_range),
            max_versions: Some(self.rng.u32(1..4)),
            reversed: reversed.then_some(true),
            attribute: if self.once_in(4) {
                vec![attribute("_raw_", &[0xff])]
            } else {
                Vec::new()
            },
            store_limit: self.sometimes(12, |all| all.rng.u32(1..3)),
            store_offset: self.sometimes(12, |all| all.rng.u32(0..2)),
            max_result_size: self.sometimes(4, |all| all.rng.u64(1..400)),
            load_column_families_on_demand: self.sometimes(6, |all| all.rng.bool()),
            ..Default::default()
        }
    }
}

/// Leaves out mutations of rows that an earlier step has changed: increments and appends are a step
/// each, and the puts and deletes between them another one. Steps that happen to be in one
/// millisecond replace each other's cells, and others do not.
fn one_step_each(actions: Vec<pb::Action>) -> Vec<pb::Action> {
    use mutation_proto::MutationType::{Append, Increment};
    let mut steps: BTreeMap<Bytes, usize> = BTreeMap::new();
    let mut step = 0;
    let mut is_first_of_step = |action: &pb::Action| {
        let Some(mutation) = &action.mutation else {
            return true;
        };
        let is_addition = matches!(mutation.mutate_type(), Increment | Append);
        step += usize::from(is_addition);
        let of_row = *steps.entry(mutation.row().to_vec().into()).or_insert(step);
        let is_first = of_row == step;
        step += usize::from(is_addition);
        is_first
    };
    actions
        .into_iter()
        .filter(|action| is_first_of_step(action))
        .collect()
}

/// Leaves out columns that a mutation has named before: HBase stores cells with equal keys, of which
/// `NEW_VERSION_BEHAVIOR` then makes any sense.
fn once_each(mut columns: Vec<mutation_proto::ColumnValue>) -> Vec<mutation_proto::ColumnValue> {
    let mut named = BTreeSet::new();
    for column in &mut columns {
        let family = column.family.clone();
        column
            .qualifier_value
            .retain(|value| named.insert((family.clone(), value.qualifier.clone())));
    }
    columns.retain(|column| !column.qualifier_value.is_empty());
    columns
}

/// Returns a scan of everything under a prefix, delete markers included.
pub(crate) fn everything(prefix: &str) -> Operation {
    let scan = pb::Scan {
        start_row: Some(format!("{prefix}r").into()),
        stop_row: Some(format!("{prefix}s").into()),
        max_versions: Some(1_000),
        attribute: vec![attribute("_raw_", &[0xff])],
        ..Default::default()
    };
    let paging = Paging {
        results: 1_000,
        rows: None,
        cuts_rows: true,
    };
    Operation::Scan(scan, paging)
}

fn attribute(name: &str, value: &[u8]) -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: name.into(),
        value: Some(Bytes::copy_from_slice(value)),
    }
}

fn filter(name: &str, message: &impl Message) -> pb::Filter {
    pb::Filter {
        name: format!("{FILTERS}{name}"),
        serialized_filter: Some(message.encode_to_vec().into()),
    }
}

fn comparator(name: &str, message: &impl Message) -> pb::Comparator {
    pb::Comparator {
        name: format!("{FILTERS}{name}"),
        serialized_comparator: Some(message.encode_to_vec().into()),
    }
}
