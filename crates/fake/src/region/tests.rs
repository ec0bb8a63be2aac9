//! What a region stores and shows. Each case was found as a difference from a real HBase, or is one of
//! the rules that the toolkit rests on.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use hbase_protocol as pb;
use pb::mutation_proto::{ColumnValue, DeleteType, MutationType, column_value::QualifierValue};
use rstest::rstest;

use super::*;
use crate::cell::{Cells, Kind};

const NOW: u64 = 1_000;

fn region(attributes: &[(&str, &str)]) -> Region {
    let pair = |(key, value): &(&str, &str)| pb::BytesBytesPair {
        first: Bytes::copy_from_slice(key.as_bytes()),
        second: Bytes::copy_from_slice(value.as_bytes()),
    };
    let family = pb::ColumnFamilySchema {
        name: "f".into(),
        attributes: attributes.iter().map(pair).collect(),
        ..Default::default()
    };
    let schema = pb::TableSchema {
        column_families: vec![family],
        ..Default::default()
    };
    let none = Bytes::new;
    Region::new(&schema, none(), none(), RowOrder::Bytes, Release::V2_6).unwrap()
}

/// A mutation of one cell of the row `r`.
fn mutation(
    kind: MutationType,
    delete: Option<DeleteType>,
    qualifier: &str,
    timestamp: Option<u64>,
    value: &[u8],
) -> pb::MutationProto {
    let mut cell = QualifierValue {
        qualifier: Some(Bytes::copy_from_slice(qualifier.as_bytes())),
        value: Some(Bytes::copy_from_slice(value)),
        timestamp,
        ..Default::default()
    };
    if let Some(delete) = delete {
        cell.set_delete_type(delete);
        cell.value = None;
    }
    let mut mutation = pb::MutationProto {
        row: Some("r".into()),
        column_value: vec![ColumnValue {
            family: "f".into(),
            qualifier_value: vec![cell],
        }],
        ..Default::default()
    };
    mutation.set_mutate_type(kind);
    mutation
}

fn put(qualifier: &str, timestamp: u64, value: &str) -> pb::MutationProto {
    mutation(
        MutationType::Put,
        None,
        qualifier,
        Some(timestamp),
        value.as_bytes(),
    )
}

fn delete(delete: DeleteType, qualifier: &str, timestamp: u64) -> pb::MutationProto {
    mutation(
        MutationType::Delete,
        Some(delete),
        qualifier,
        Some(timestamp),
        b"",
    )
}

impl Region {
    fn write(&mut self, mutation: pb::MutationProto) {
        let request = pb::MutateRequest {
            mutation,
            ..Default::default()
        };
        let mut no_cells = Cells::new(Bytes::new(), false);
        self.mutate(&request, &mut no_cells, NOW).unwrap();
    }

    /// Returns qualifiers, timestamps and values of what a get of all versions shows.
    fn shown(&mut self) -> Vec<String> {
        let get = pb::Get {
            row: "r".into(),
            max_versions: Some(100),
            ..Default::default()
        };
        let read = self.get(&get, NOW).unwrap();
        let text = |cell: &Cell| {
            let (qualifier, value) = (cell.qualifier.escape_ascii(), cell.value.escape_ascii());
            format!("{qualifier}/{}={value}", cell.timestamp)
        };
        read.cells.iter().map(text).collect()
    }

    /// Returns qualifiers, timestamps and kinds of what is stored.
    fn stored(&self) -> Vec<(String, u64, Kind)> {
        let place = |cell: Cell| {
            (
                cell.qualifier.escape_ascii().to_string(),
                cell.timestamp,
                cell.kind,
            )
        };
        self.dump().into_iter().map(place).collect()
    }
}

#[test]
fn markers_mask_older_timestamps_whenever_they_are_written() {
    let mut region = region(&[("VERSIONS", "3")]);
    region.write(delete(DeleteType::DeleteMultipleVersions, "q", 5));
    region.write(put("q", 4, "masked"));
    region.write(put("q", 5, "masked"));
    region.write(put("q", 6, "shown"));
    assert_eq!(region.shown(), ["q/6=shown"]);
}

#[test]
fn later_writes_are_shown_with_new_version_behavior() {
    let mut region = region(&[("VERSIONS", "3"), ("NEW_VERSION_BEHAVIOR", "true")]);
    region.write(put("q", 4, "masked"));
    region.write(delete(DeleteType::DeleteMultipleVersions, "q", 5));
    region.write(put("q", 4, "shown"));
    assert_eq!(region.shown(), ["q/4=shown"]);
}

/// A marker of the unnamed column hides that column only, and lies among the markers of the family.
#[test]
fn marker_of_the_unnamed_column_does_not_end_the_familys_markers() {
    let mut region = region(&[]);
    region.write(put("p", 3, "masked"));
    region.write(put("q", 8, "shown"));
    region.write(delete(DeleteType::DeleteMultipleVersions, "", 9));
    region.write(delete(DeleteType::DeleteFamily, "", 4));
    assert_eq!(region.shown(), ["q/8=shown"]);
}

#[test]
fn surplus_version_of_the_unnamed_column_does_not_end_the_familys_markers() {
    let mut region = region(&[("VERSIONS", "1")]);
    region.write(put("", 9, "shown"));
    region.write(put("", 8, "surplus"));
    region.write(put("q", 3, "masked"));
    region.write(delete(DeleteType::DeleteFamily, "", 4));
    assert_eq!(region.shown(), ["/9=shown"]);
}

/// HBase passes the rest of a column by when it has found a masked cell in it.
#[test]
fn flush_drops_markers_under_masked_cells() {
    let mut region = region(&[]);
    region.write(put("q", 6, "v"));
    region.write(delete(DeleteType::DeleteMultipleVersions, "q", 2));
    region.write(delete(DeleteType::DeleteMultipleVersions, "z", 2));
    region.write(delete(DeleteType::DeleteFamily, "", 9));
    region.flush(NOW).unwrap();
    assert_eq!(
        region.stored(),
        [
            (String::new(), 9, Kind::DeleteFamily),
            ("z".to_owned(), 2, Kind::DeleteColumn),
        ]
    );
}

#[test]
fn put_under_a_marker_comes_back_with_a_major_compaction() {
    let mut region = region(&[]);
    region.write(delete(DeleteType::DeleteMultipleVersions, "q", 5));
    region.flush(NOW).unwrap();
    region.compact(true, NOW).unwrap();
    region.write(put("q", 4, "back"));
    assert_eq!(region.shown(), ["q/4=back"]);
}

#[rstest]
#[case::memory(Release::V2_4, false, false)]
#[case::flush(Release::V2_6, true, false)]
#[case::compaction(Release::V2_6, true, true)]
fn open_scanner_sees_versions_that_later_ones_replace(
    #[case] release: Release,
    #[case] flushes: bool,
    #[case] compacts: bool,
) {
    let mut region = region(&[("VERSIONS", "1")]);
    region.release = release;
    let one = 1_u64.to_be_bytes();
    let increment = || mutation(MutationType::Increment, None, "q", None, &one);
    region.write(increment());
    let mut scanner = region.open_scanner(&pb::Scan::default(), NOW).unwrap();
    region.write(increment());
    region.write(increment());
    if flushes {
        region.flush(NOW).unwrap();
    }
    if compacts {
        region.compact(true, NOW).unwrap();
    }
    let call = Call {
        results: 1,
        ..Call::default()
    };
    let batch = region.next(&mut scanner, call).unwrap();
    assert_eq!(batch.rows[0].0[0].value, one[..]);
    drop(scanner);
    region.write(increment());
    region.flush(NOW).unwrap();
    region.compact(true, NOW).unwrap();
    assert_eq!(region.stored().len(), 1);
}

#[test]
fn scan_that_a_compaction_meets_within_a_row_ends() {
    let mut region = region(&[]);
    for qualifier in ["a", "b"] {
        region.write(delete(DeleteType::DeleteMultipleVersions, qualifier, 5));
    }
    let raw = pb::NameBytesPair {
        name: "_raw_".into(),
        value: Some([0xff][..].into()),
    };
    let scan = pb::Scan {
        attribute: vec![raw],
        max_result_size: Some(1),
        ..Default::default()
    };
    let mut scanner = region.open_scanner(&scan, NOW).unwrap();
    let call = || Call {
        results: 10,
        cuts_rows: true,
        ..Call::default()
    };
    let batch = region.next(&mut scanner, call()).unwrap();
    assert_eq!((batch.rows.len(), batch.rows[0].1), (1, true));
    region.flush(NOW).unwrap();
    region.compact(true, NOW).unwrap();
    assert!(region.stored().is_empty());
    let batch = region.next(&mut scanner, call()).unwrap();
    assert!(batch.rows.is_empty() && !batch.more_in_region);
}

#[test]
fn compactions_that_a_table_forbids_are_ignored() {
    let mut region = region(&[]);
    let never = pb::BytesBytesPair {
        first: "COMPACTION_ENABLED".into(),
        second: "false".into(),
    };
    let schema = pb::TableSchema {
        attributes: vec![never],
        column_families: vec![pb::ColumnFamilySchema {
            name: "f".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    region.reopen(&schema, Nonces::default()).unwrap();
    region.write(delete(DeleteType::DeleteMultipleVersions, "q", 5));
    region.flush(NOW).unwrap();
    region.compact(true, NOW).unwrap();
    assert_eq!(region.stored().len(), 1);
}

/// An increment without an older value keeps its own time; others are later than the old one.
#[rstest]
#[case::alone(None, 7)]
#[case::over_an_old_value(Some(5_000), 5_001)]
fn increments_have_times(#[case] old: Option<u64>, #[case] expected: u64) {
    let mut region = region(&[]);
    if let Some(old) = old {
        let value = 1_i64.to_be_bytes();
        region.write(mutation(MutationType::Put, None, "q", Some(old), &value));
    }
    let amount = 2_i64.to_be_bytes();
    region.write(mutation(MutationType::Increment, None, "q", Some(7), &amount));
    assert_eq!(region.stored()[0].1, expected);
}

/// Java sends no indexes with the mutations of one row.
#[test]
fn results_of_an_atomic_call_have_their_places_as_indexes() {
    let action = |qualifier| pb::Action {
        mutation: Some(put(qualifier, 1, "v")),
        ..Default::default()
    };
    let actions = pb::RegionAction {
        atomic: Some(true),
        action: vec![action("a"), action("b")],
        ..Default::default()
    };
    let mut no_cells = Cells::new(Bytes::new(), false);
    let answer = region(&[]).multi(&actions, 0, &mut no_cells, NOW).unwrap();
    let indexes: Vec<_> = answer.actions.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, [0, 1]);
}

#[test]
fn crash_loses_what_is_not_logged() {
    let mut region = region(&[]);
    let mut unlogged = put("a", 1, "v");
    unlogged.set_durability(pb::mutation_proto::Durability::SkipWal);
    region.write(unlogged);
    region.write(put("b", 1, "v"));
    region.crash(|| true);
    assert_eq!(region.shown(), ["b/1=v"]);
}

#[rstest]
#[case("FilterAllFilter")]
#[case("FirstKeyValueMatchingQualifiersFilter")]
fn filters_that_are_not_modelled_are_refused_by_name(#[case] name: &str) {
    let mut region = region(&[]);
    let get = pb::Get {
        row: "r".into(),
        filter: Some(pb::Filter {
            name: format!("org.apache.hadoop.hbase.filter.{name}"),
            serialized_filter: Some(Bytes::new()),
        }),
        ..Default::default()
    };
    let refusal = region.get(&get, NOW).unwrap_err();
    assert!(
        refusal.is_not_modelled() && refusal.message.contains(name),
        "{refusal:?}"
    );
}

#[test]
fn scan_whose_time_is_over_answers_with_a_part_and_goes_on() {
    let mut region = region(&[]);
    for qualifier in ["a", "b", "c"] {
        region.write(put(qualifier, 1, "x"));
    }
    let scan = pb::Scan {
        need_cursor_result: Some(true),
        ..Default::default()
    };
    let mut scanner = region.open_scanner(&scan, NOW).unwrap();
    let mut next = |cells_in_time| {
        let call = Call {
            results: 10,
            rows: None,
            cuts_rows: true,
            cells_in_time,
        };
        region.next(&mut scanner, call).unwrap()
    };
    let nothing = next(Some(0));
    assert!(nothing.is_heartbeat && nothing.rows.is_empty() && nothing.more_in_region);
    let part = next(Some(2));
    let (cells, is_partial) = &part.rows[0];
    assert_eq!((cells.len(), *is_partial, part.is_heartbeat), (2, true, true));
    assert_eq!(part.cursor.as_deref(), Some(&b"r"[..]));
    let rest = next(None);
    let (cells, is_partial) = &rest.rows[0];
    assert_eq!((cells.len(), *is_partial, rest.is_heartbeat), (1, false, false));
    assert!(!rest.more_in_region);
}

#[test]
fn raw_scan_that_hangs_hbase_is_refused() {
    let mut region = region(&[]);
    region.write(put("", 5, "x"));
    region.write(put("q", 7, "x"));
    region.flush(NOW).unwrap();
    region.write(delete(DeleteType::DeleteOneVersion, "", 5));
    region.write(put("q", 8, "x"));
    let scan = pb::Scan {
        attribute: vec![pb::NameBytesPair {
            name: "_raw_".to_owned(),
            value: Some(Bytes::from_static(&[0xff])),
        }],
        time_range: Some(pb::TimeRange {
            from: Some(6),
            to: None,
        }),
        ..Default::default()
    };
    let mut scanner = region.open_scanner(&scan, NOW).unwrap();
    let call = Call {
        results: 10,
        ..Default::default()
    };
    let refusal = region.next(&mut scanner, call).unwrap_err();
    assert!(refusal.is_not_modelled(), "{refusal}");
}
