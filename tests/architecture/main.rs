//! The crates and modules keep to the tables in `docs/architecture.md`, source files are short, the
//! lowest modules use no sockets and tasks, clocks and randomness come from the environment, no
//! library names a command of the CLI, dependency cycles among files do not grow, and the pages on
//! compatibility name tests that exist.

#![allow(clippy::unwrap_used)]

mod code;
mod named_tests;
mod sources;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use self::sources::Sources;

/// Modules that only handle values and bytes, in all crates.
const WITHOUT_IO: [&str; 3] = ["error", "model", "wire"];

/// The crates whose clocks and randomness a test can replace, and their modules that use the
/// system's: the gateway has no connection. `lock/state.rs` has public functions without one.
const WITH_ENVIRONMENT: [&str; 5] = [
    "hbase-admin",
    "hbase-client",
    "hbase-provision",
    "hbase-security",
    "hbase-txn",
];
const OF_SYSTEM: [&str; 2] = ["environment", "thrift"];

/// The goal: no dependency cycle has more than two files.
const MAX_CYCLE: usize = 2;

/// The sizes of today's cycles that are larger than the goal, in descending order: no crate may
/// have a larger cycle of that rank. `file_cycles_do_not_grow` prints the cycles with
/// `--nocapture`; lower a number when its cycle shrinks.
const CYCLES: [(&str, &[usize]); 6] = [
    ("hbase-client", &[]),
    ("hbase-keyed-lock", &[]),
    ("hbase-local", &[]),
    ("hbase-provision", &[]),
    ("hbase-txn", &[]),
    ("hbase-txn-cli", &[]),
];

type Names = BTreeSet<String>;

/// A row of a table: names that may import each other, and the names that all of them may import.
type Row = (Vec<String>, Names);

fn page() -> String {
    fs::read_to_string(root().join("docs/architecture.md")).unwrap()
}

/// Returns the rows of the table whose header begins with this cell, in order.
fn table(page: &str, first_cell: &str) -> Option<Vec<Row>> {
    let quoted =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let head = format!("| {first_cell} |");
    let mut lines = page.lines().skip_while(|line| !line.starts_with(&head));
    lines.next()?;
    let rows = lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let (names, imports) = line.trim_matches('|').split_once('|').unwrap();
            (quoted(names), quoted(imports).into_iter().collect())
        });
    Some(rows.collect())
}

/// Returns the names that each name may import according to these rows.
fn allowed(rows: &[Row]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut allowed = BTreeMap::new();
    for (names, imports) in rows {
        for name in names {
            allowed.insert(
                name.as_str(),
                names.iter().chain(imports).map(String::as_str).collect(),
            );
        }
    }
    allowed
}

/// A published crate of the workspace.
struct Package {
    name: String,
    folder: PathBuf,
    /// The crates of the workspace that it depends on, except those of its tests.
    dependencies: Names,
}

impl Package {
    fn sources(&self) -> Sources {
        Sources::read(&self.folder.join("src"))
    }
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |package: &Value| package["name"].as_str().unwrap().to_owned();
    let own: Names = packages.iter().map(name).collect();
    packages
        .iter()
        .filter(|package| package["publish"].is_null())
        .map(|package| Package {
            name: name(package),
            folder: Path::new(package["manifest_path"].as_str().unwrap())
                .parent()
                .unwrap()
                .to_owned(),
            dependencies: package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(name)
                .filter(|dependency| own.contains(dependency))
                .collect(),
        })
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("REPOSITORY"))
}

fn assert_none(what: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{what}:\n{}", violations.join("\n"));
}

#[test]
fn crates_depend_on_what_the_table_allows() {
    let page = page();
    let rows = table(&page, "crate").unwrap();
    let allowed = allowed(&rows);
    let packages = packages();
    let names: BTreeSet<_> = packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(allowed.keys().copied().collect::<BTreeSet<_>>(), names);
    let mut violations = Vec::new();
    for package in &packages {
        for dependency in &package.dependencies {
            if !allowed[package.name.as_str()].contains(dependency.as_str()) {
                violations.push(format!("{} depends on {dependency}", package.name));
            }
        }
    }
    assert_none("dependencies that the table does not allow", &violations);
}

#[test]
fn modules_import_what_the_tables_allow() {
    let (page, mut violations, mut tables) = (page(), Vec::new(), 0);
    for package in packages() {
        let Some(rows) = table(&page, &format!("module of `{}`", package.name)) else {
            continue;
        };
        tables += 1;
        let (allowed, sources) = (allowed(&rows), package.sources());
        let modules: BTreeSet<_> = sources
            .files
            .iter()
            .filter_map(|file| file.top_module())
            .collect();
        let listed: BTreeSet<_> = allowed.keys().copied().collect();
        for module in modules.symmetric_difference(&listed) {
            violations.push(format!(
                "{}: {module} is only in the code or only in the table",
                package.name
            ));
        }
        for ((user, used), place) in sources.module_uses() {
            if allowed.get(user).is_some_and(|allowed| !allowed.contains(used)) {
                violations.push(format!("{}: {place} imports crate::{used}", package.name));
            }
        }
    }
    assert!(tables >= 4, "{tables} tables of modules");
    assert_none("imports that the tables do not allow", &violations);
}

#[test]
fn no_table_has_a_cycle() {
    let page = page();
    let mut heads: Vec<_> = packages()
        .iter()
        .map(|package| format!("module of `{}`", package.name))
        .collect();
    heads.push("crate".to_owned());
    for head in heads {
        let mut above = Names::new();
        for (names, imports) in table(&page, &head).unwrap_or_default() {
            let below: Vec<_> = imports.difference(&above).collect();
            assert!(
                below.is_empty(),
                "{head}: {names:?} may import {below:?}, which are not above"
            );
            for name in names {
                assert!(above.insert(name.clone()), "{head}: {name} has two rows");
            }
        }
    }
}

#[test]
fn file_cycles_do_not_grow() {
    let mut violations = Vec::new();
    for package in packages() {
        let bounds = CYCLES.iter().find(|(name, _)| *name == package.name);
        let bounds = bounds.map_or(&[][..], |(_, bounds)| bounds);
        let sources = package.sources();
        let cycles = sources.cycles();
        let largest = cycles.first().map_or(1, Vec::len);
        println!(
            "{}: {} cycles in {} files, the largest of {largest}",
            package.name,
            cycles.len(),
            sources.files.len()
        );
        for (rank, cycle) in cycles.iter().enumerate() {
            println!("    {}: {}", cycle.len(), cycle.join(" "));
            let bound = bounds.get(rank).copied().unwrap_or(MAX_CYCLE);
            if cycle.len() > bound {
                violations.push(format!(
                    "{}: {} files instead of {bound}: {}",
                    package.name,
                    cycle.len(),
                    cycle.join(" ")
                ));
            }
        }
    }
    assert_none("cycles of files that are larger than before", &violations);
}

#[test]
fn values_and_bytes_know_no_sockets_tasks_or_clocks() {
    let mut violations = Vec::new();
    for package in packages() {
        for file in package.sources().files {
            if file
                .top_module()
                .is_some_and(|module| WITHOUT_IO.contains(&module))
            {
                let code = code::tokens(&file.text).concat();
                for word in ["tokio", "std::net", "Instant::now", "SystemTime::now"] {
                    if code.contains(word) {
                        violations.push(format!("{}: {}: {word}", package.name, file.place));
                    }
                }
            }
        }
    }
    assert_none("I/O in modules that have none", &violations);
}

#[test]
fn clocks_and_randomness_come_from_the_environment() {
    let mut violations = Vec::new();
    for package in packages() {
        if !WITH_ENVIRONMENT.contains(&&*package.name) {
            continue;
        }
        for file in package.sources().files {
            let is_system = file
                .top_module()
                .is_some_and(|module| OF_SYSTEM.contains(&module));
            if is_system || file.place == "lock/state.rs" || file.is_test() {
                continue;
            }
            let code = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let code = code::tokens(code).concat();
            for word in ["SystemTime::now", "std::time::Instant", "getrandom::"] {
                if code.contains(word) {
                    violations.push(format!("{}: {}: {word}", package.name, file.place));
                }
            }
        }
    }
    assert_none("clocks and randomness beside the environment", &violations);
}

#[test]
fn libraries_name_no_commands() {
    let mut violations = Vec::new();
    for package in packages() {
        for file in package.sources().files {
            // The command itself, and the commands that findings contain.
            let names_commands = package.name == "hbase-txn-cli"
                || (&*package.name, &*file.place) == ("hbase-provision", "command.rs");
            if names_commands || file.is_test() {
                continue;
            }
            let code = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let is_command = |literal: &&str| {
                let mut named = ["hbase-txn ", "`dev "]
                    .into_iter()
                    .flat_map(|command| literal.split(command).skip(1));
                named.any(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
            };
            for literal in code::literals(code).filter(is_command) {
                violations.push(format!("{}: {}: {literal}", package.name, file.place));
            }
        }
    }
    assert_none("commands of hbase-txn in texts of libraries", &violations);
}

#[test]
fn tables_are_read_by_their_first_cell() {
    let page = "| crate | may |\n|---|---|\n| `a` | |\n\n| module of `a` | may |\n|---|---|\n| `b` | |\n| `c` `d` | `b` |\n";
    let rows = table(page, "module of `a`").unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(allowed(&rows)["c"], BTreeSet::from(["b", "c", "d"]));
    assert_eq!(table(page, "crate").unwrap()[0].0, ["a"]);
    assert_eq!(table(page, "module of `b`"), None);
}
