//! The tests that the pages on compatibility name exist.

use std::{fs, path::Path};

use super::{assert_none, root};

const PAGES: [&str; 2] = ["docs/compatibility.md", "docs/compatibility-cases.md"];

/// Returns the paths of tests or of their modules in backticks, such as `suite::scans`: those that
/// begin with a folder of `tests`.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let quoted = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(|text| {
        text.split_once("::")
            .is_some_and(|(binary, _)| root().join("tests").join(binary).is_dir())
    })
}

/// Whether this is the path of a module of `tests`, or of a test in one.
fn exists(path: &str) -> bool {
    let mut segments = path.split("::").peekable();
    let mut folder = root().join("tests");
    folder.push(segments.next().unwrap_or_default());
    let mut file = folder.join("main.rs");
    while let Some(segment) = segments.next() {
        let below = folder.join(segment);
        let module = [below.with_extension("rs"), below.join("mod.rs")];
        match module.into_iter().find(|module| module.is_file()) {
            Some(module) => (folder, file) = (below, module),
            None => return segments.peek().is_none() && has_test(&file, segment),
        }
    }
    true
}

/// Whether the file has a test function of this name.
fn has_test(file: &Path, name: &str) -> bool {
    let text = fs::read_to_string(file).unwrap();
    let declared = format!("fn {name}(");
    let lines: Vec<_> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains(&declared));
    at.is_some_and(|at| {
        let before = lines[..at].iter().rev();
        let mut attributes = before.take_while(|line| !matches!(line.trim(), "" | "}"));
        attributes
            .any(|line| line.contains("#[test]") || line.contains("::test]") || line.contains("::test("))
    })
}

#[test]
fn tests_that_the_pages_on_compatibility_name_exist() {
    let mut missing = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let names: Vec<_> = named(&text).collect();
        assert!(names.len() > 10, "{page} names {} tests", names.len());
        for name in names {
            if !exists(name) {
                missing.push(format!("{page}: {name}"));
            }
        }
    }
    assert_none("tests that pages name and that do not exist", &missing);
}

#[test]
fn paths_of_tests_are_found_and_others_are_not() {
    let page = "| `architecture::named_tests` | `Put::new`, `nowhere::a` and\n`architecture::code::none`";
    assert_eq!(
        named(page).collect::<Vec<_>>(),
        ["architecture::named_tests", "architecture::code::none"]
    );
    for found in [
        "architecture::named_tests",
        "architecture::no_table_has_a_cycle",
        "architecture::named_tests::paths_of_tests_are_found_and_others_are_not",
    ] {
        assert!(exists(found), "{found}");
    }
    for other in [
        "architecture::none",
        "architecture::none::no_table_has_a_cycle",
        "architecture::named_tests::exists",
        "architecture::no_table_has_a_cycle::below",
    ] {
        assert!(!exists(other), "{other}");
    }
}
