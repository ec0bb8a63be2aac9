//! Every public method of the types that change rows, locks and latches is drawn by a scenario, or has
//! a reason in `drawn.txt`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The types, and what a file contains that makes a value of each.
const TYPES: [(&str, &str); 15] = [
    ("Barrier", ".barrier("),
    ("Batch", ".batch()"),
    ("CrossPartitions", "CrossPartitions"),
    ("CrossTransaction", "CrossTransaction"),
    ("DoubleBarrier", ".double_barrier("),
    ("Election", "Election"),
    ("Latch", ".latch("),
    ("LockManager", "lock"),
    ("PartitionedTable", "able"),
    ("ReadWriteLock", "ReadWriteLock"),
    ("Semaphore", "Semaphore"),
    ("Table", "able"),
    ("Transaction", ".transaction("),
    ("UpdateView", "view"),
    ("Writer", ".writer("),
];

fn read(file: &str) -> String {
    let path = Path::new(env!("REPOSITORY")).join("tests").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the public methods of the types, as `Type::method`.
fn methods() -> BTreeSet<String> {
    let listing = read("public_api/hbase_txn.txt");
    let method = |line: &str| {
        let (path, declaration) = line.split_once(": ")?;
        let name = path.rsplit("::").next()?;
        TYPES.iter().find(|(known, _)| *known == name)?;
        let rest = declaration.strip_prefix("pub ")?;
        let rest = rest.strip_prefix("const ").unwrap_or(rest);
        let rest = rest.strip_prefix("async ").unwrap_or(rest);
        let method = rest.strip_prefix("fn ")?.split(['(', '<']).next()?;
        Some(format!("{name}::{method}"))
    };
    listing.lines().filter_map(method).collect()
}

/// Returns the file or the reason of each method.
fn table() -> BTreeMap<String, String> {
    let text = read("simulation/drawn.txt");
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut table = BTreeMap::new();
    for line in lines {
        let (method, rest) = line
            .split_once(' ')
            .unwrap_or_else(|| panic!("neither a file nor a reason: {line}"));
        let replaced = table.insert(method.to_owned(), rest.to_owned());
        assert!(replaced.is_none(), "{method} is listed twice");
    }
    table
}

#[test]
fn every_public_method_is_drawn_or_has_a_reason() {
    let (methods, table) = (methods(), table());
    assert!(methods.len() > 100, "the listing was not understood: {methods:?}");
    let missing: Vec<_> = methods
        .iter()
        .filter(|method| !table.contains_key(*method))
        .collect();
    assert!(
        missing.is_empty(),
        "neither drawn nor listed with a reason in tests/simulation/drawn.txt: {missing:#?}"
    );
    let mut wrong = Vec::new();
    for (method, rest) in &table {
        if !methods.contains(method) {
            wrong.push(format!("{method} does not exist"));
        } else if let Some(reason) = rest.strip_prefix('-') {
            if reason.trim().is_empty() {
                wrong.push(format!("{method} has no reason"));
            }
        } else if !is_called(method, &read(&format!("{rest}.rs"))) {
            wrong.push(format!("{rest}.rs does not call {method}"));
        }
    }
    assert!(wrong.is_empty(), "tests/simulation/drawn.txt: {wrong:#?}");
}

/// Returns whether a scenario calls a method, and makes a value of its type.
fn is_called(method: &str, scenario: &str) -> bool {
    let (owner, name) = method.split_once("::").unwrap();
    let (_, makes) = TYPES.iter().find(|(known, _)| *known == owner).unwrap();
    let calls = [format!(".{name}("), format!(".{name}::<"), format!("{method}(")];
    scenario.contains(makes) && calls.iter().any(|call| scenario.contains(call))
}
