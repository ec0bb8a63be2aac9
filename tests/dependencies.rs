//! The number of dependencies of each crate of the workspace stays small, none of the workspace's
//! crates has a build script, and what is downloaded otherwise is pinned.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

/// Returns the external crates of a normal build of this package with these arguments.
fn crates(package: &str, arguments: &[&str]) -> BTreeSet<String> {
    let output = cargo(
        &[
            "tree",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--package",
            package,
        ],
        arguments,
    );
    let crates: BTreeSet<_> = output
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        // `cargo tree` prints the folder of a crate of the workspace after its version.
        .filter(|line| !line.is_empty() && !line.contains("(/"))
        .collect();
    println!("{package} {}: {} crates", arguments.join(" "), crates.len());
    crates
}

fn cargo(arguments: &[&str], more: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("REPOSITORY"))
        .args(arguments)
        .args(more)
        .arg("--offline")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn assert_at_most(bound: usize, crates: &BTreeSet<String>) {
    assert!(crates.len() <= bound, "{} crates: {crates:#?}", crates.len());
}

/// Returns the crates that `more` has and `less` does not.
fn brought(more: &BTreeSet<String>, less: &BTreeSet<String>) -> BTreeSet<String> {
    assert!(less.is_subset(more));
    more.difference(less).cloned().collect()
}

const LEAST: &[&str] = &["--no-default-features"];

#[test]
fn keyed_lock_brings_only_tokio() {
    let names: Vec<_> = crates("hbase-keyed-lock", &[])
        .iter()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["pin-project-lite", "tokio"]);
}

#[test]
fn client_stays_small() {
    let (default, least) = (crates("hbase-client", &[]), crates("hbase-client", LEAST));
    assert_at_most(42, &least);
    assert_eq!(default, least, "ZooKeeper brings no crate");
}

#[test]
fn administration_brings_nothing_beside_the_client() {
    let client = crates("hbase-client", LEAST);
    assert_at_most(0, &brought(&crates("hbase-admin", &[]), &client));
}

#[test]
fn transactions_bring_little_beside_the_client() {
    let (default, least) = (crates("hbase-txn", &[]), crates("hbase-txn", LEAST));
    assert_at_most(43, &least);
    assert_eq!(default, least, "ZooKeeper brings no crate");
    assert_at_most(3, &brought(&least, &crates("hbase-client", LEAST)));
}

/// The generated client for the first API of HBase's gateway depends on the whole Thrift library,
/// servers included.
#[test]
fn thrift_brings_a_dozen_crates() {
    let least = crates("hbase-txn", LEAST);
    let thrift = crates("hbase-txn", &["--no-default-features", "--features", "thrift"]);
    assert_at_most(13, &brought(&thrift, &least));
}

#[test]
fn metrics_bring_only_the_facade() {
    let with = |features: &str| crates("hbase-client", &["--no-default-features", "--features", features]);
    let least = crates("hbase-client", LEAST);
    assert_at_most(3, &brought(&with("metrics"), &least));
    assert_at_most(0, &brought(&with("spans"), &least));
}

#[test]
fn compression_brings_a_crate_or_two_for_each_codec() {
    let compression = crates(
        "hbase-client",
        &["--no-default-features", "--features", "compression"],
    );
    assert_at_most(8, &brought(&compression, &crates("hbase-client", LEAST)));
}

/// Nine for TLS, and ten that decrypt PKCS12 files.
#[test]
fn tls_brings_rustls_and_the_ciphers_of_key_stores() {
    let tls = crates("hbase-client", &["--no-default-features", "--features", "tls"]);
    assert_at_most(19, &brought(&tls, &crates("hbase-client", LEAST)));
}

/// The loader of the Kerberos library, AES, and the ciphers of delegation tokens.
#[test]
fn kerberos_brings_a_dozen_crates() {
    let kerberos = crates(
        "hbase-client",
        &["--no-default-features", "--features", "kerberos"],
    );
    assert_at_most(13, &brought(&kerberos, &crates("hbase-client", LEAST)));
}

#[test]
fn table_files_bring_a_handful_of_crates() {
    let provision = crates("hbase-provision", &[]);
    assert_at_most(12, &brought(&provision, &crates("hbase-txn", LEAST)));
}

#[test]
fn local_clusters_bring_a_handful_of_crates() {
    let local = crates("hbase-local", &[]);
    assert_at_most(
        9,
        &brought(&local, &crates("hbase-client", &["--features", "kerberos,tls"])),
    );
}

#[test]
fn command_stays_small() {
    assert_at_most(114, &crates("hbase-txn-cli", &[]));
}

#[test]
fn no_crate_has_a_build_script() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"], &[])).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() >= 6);
    for package in packages {
        let targets = package["targets"].as_array().unwrap();
        let kinds = targets
            .iter()
            .flat_map(|target| target["kind"].as_array().unwrap());
        assert!(
            kinds.into_iter().all(|kind| kind != "custom-build"),
            "{}",
            package["name"]
        );
    }
}

fn read(file: impl AsRef<Path>) -> String {
    fs::read_to_string(Path::new(env!("REPOSITORY")).join(file)).unwrap()
}

#[test]
fn maven_checks_checksums_and_its_plugin_has_a_version() {
    for caller in ["crates/local/src/jars.rs", "tests/support/src/java/build.rs"] {
        assert!(read(caller).contains("\"--strict-checksums\""), "{caller}");
    }
    for pom in ["crates/local/src/pom.xml", "tests/java/pom.xml"] {
        let pom = read(pom);
        let (_, plugin) = pom
            .split_once("<artifactId>maven-dependency-plugin</artifactId>")
            .unwrap();
        assert!(plugin.trim_start().starts_with("<version>"), "{plugin}");
    }
}

#[test]
fn workflows_name_actions_by_commit_and_tools_by_version() {
    let folder = Path::new(env!("REPOSITORY")).join(".github/workflows");
    let mut actions = 0;
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            if let Some((_, action)) = line.split_once("uses: ") {
                let (_, commit) = action.split_once('@').unwrap();
                let (commit, tag) = commit.split_once(" # v").unwrap_or_else(|| panic!("{line}"));
                assert!(commit.len() == 40 && !tag.is_empty(), "{line}");
                actions += 1;
            }
            if line.contains("cargo install") {
                assert!(line.contains("--locked") && line.contains("--version "), "{line}");
            }
        }
    }
    assert!(actions >= 7, "{actions}");
}
