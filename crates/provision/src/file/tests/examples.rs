//! The files of `schemas/tables`.

use hbase_txn::TableDescriptorExt;
use std::{fs, path::PathBuf};

use super::*;

pub(super) fn folder() -> PathBuf {
    PathBuf::from(env!("REPOSITORY")).join("schemas/tables")
}

/// The examples, with their paths.
pub(super) fn all() -> Vec<(PathBuf, TableFile)> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| (path.clone(), TableFile::read(&path).unwrap()))
        .collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

#[test]
fn all_can_be_read_and_no_two_describe_one_table() {
    let examples = all();
    let mut names: Vec<_> = examples.iter().map(|(_, file)| file.name().to_string()).collect();
    names.dedup();
    names.sort();
    let expected = [
        "D_LTCH_orders",
        "accounts",
        "dlm_locks",
        "orders",
        "readings",
        "saas:documents",
    ];
    assert_eq!(names, expected);
}

#[test]
fn each_names_the_schema_for_editors() {
    for (path, _) in all() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("#:schema table.schema.json\n"),
            "{}",
            path.display()
        );
    }
    assert!(folder().join("table.schema.json").exists());
}

#[test]
fn those_for_transactions_can_be_opened_for_them() {
    for (path, file) in all() {
        let descriptor = file.descriptor();
        let rule = PartitionRule::from_descriptor(&descriptor).unwrap();
        assert_eq!(Some(&rule), file.partition_rule(), "{}", path.display());
        if file.kind() == TableKind::Transactions {
            assert!(descriptor.names_multi_row_mutation_endpoint());
            assert!(descriptor.replay_window().unwrap().is_some());
            assert!(
                file.split_keys()
                    .iter()
                    .all(|key| rule.partition_cut_by(key).is_none())
            );
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = TableFile::read("no/such.toml".as_ref()).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidConfig);
    assert!(
        error
            .to_string()
            .contains("table file no/such.toml can't be read"),
        "{error}"
    );
}
