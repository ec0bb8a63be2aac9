//! The number of crates that users get with the library stays small, and none of ours runs at build time.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, path::Path, process::Command};

/// The crates of a normal build with these features, without this package itself.
fn crates(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "tree",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--offline",
        ])
        .args(features)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .filter(|line| !line.is_empty() && !line.starts_with("hbase-txn "))
        .collect()
}

#[test]
fn the_library_stays_small() {
    let (default, least) = (crates(&[]), crates(&["--no-default-features"]));
    println!(
        "default features: {} crates; without: {}",
        default.len(),
        least.len()
    );
    assert!(default.len() <= 115, "{} crates: {default:#?}", default.len());
    assert!(least.len() <= 45, "{} crates: {least:#?}", least.len());
    assert!(least.is_subset(&default));
}

/// The one generated client for Thrift's first API brings Thrift's whole library, servers included.
#[test]
fn the_gateways_client_brings_a_dozen_crates() {
    let least = crates(&["--no-default-features"]);
    let thrift = crates(&["--no-default-features", "--features", "thrift"]);
    let brought: BTreeSet<_> = thrift.difference(&least).collect();
    assert!(brought.len() <= 13, "{} crates: {brought:#?}", brought.len());
}

#[test]
fn table_files_bring_a_handful_of_crates() {
    let least = crates(&["--no-default-features"]);
    let provision = crates(&["--no-default-features", "--features", "provision"]);
    let brought: BTreeSet<_> = provision.difference(&least).collect();
    assert!(brought.len() <= 8, "{} crates: {brought:#?}", brought.len());
}

#[test]
fn there_is_no_build_script() {
    assert!(!Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs").exists());
}
