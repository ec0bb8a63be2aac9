//! `src/` stays in layers: the table in `docs/architecture.md` is the law. And what else can be said of the sources
//! by reading them: they are short, and the lowest layers know nothing of sockets and tasks.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// No source file is longer; a file that wants to be is two.
const LONGEST: usize = 700;

/// Layers that only handle values and bytes.
const WITHOUT_IO: [&str; 3] = ["error", "model", "wire"];

type Names = BTreeSet<String>;

/// The rows of the import table, in their order: a layer and what it may import.
fn law(page: &str) -> Vec<(String, Names)> {
    let quoted =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    page.lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let (layer, imports) = line.trim_matches('|').split_once('|').unwrap();
            (quoted(layer).remove(0), quoted(imports).into_iter().collect())
        })
        .collect()
}

/// A source file: its layer, its place below `src/`, and its text without comments.
struct Source {
    layer: String,
    place: PathBuf,
    code: String,
    lines: usize,
}

fn sources(root: &Path) -> Vec<Source> {
    let (src, mut found, mut folders) = (root.join("src"), Vec::new(), vec![root.join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "generated") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let place = path.strip_prefix(&src).unwrap().to_owned();
                let first = place.iter().next().unwrap().to_str().unwrap();
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source {
                    layer: first.trim_end_matches(".rs").to_owned(),
                    code: without_comments(&text),
                    lines: text.lines().count(),
                    place,
                });
            }
        }
    }
    assert!(!found.is_empty());
    found
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap());
    code.flat_map(|line| [line, "\n"]).collect()
}

fn word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The first words of a list in braces, as in `use crate::{a, b::{c, d}}`; of anything else its own first word.
fn heads(path: &str) -> Vec<&str> {
    let path = path.trim_start();
    let Some(list) = path.strip_prefix('{') else {
        return vec![word(path)];
    };
    let (mut heads, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                heads.push(word(&list[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    heads
}

/// What a file names of the crate's root.
fn imports(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("crate::")
        .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        .flat_map(|(at, found)| heads(&code[at + found.len()..]))
        .filter(|name| !name.is_empty())
}

/// The layer behind each name that `lib.rs` hands on, so that no import takes the way round over the root.
fn handed_on(lib: &str) -> BTreeMap<&str, &str> {
    let mut names = BTreeMap::new();
    for (at, found) in lib.match_indices("use ") {
        let path = lib[at + found.len()..].split(';').next().unwrap();
        let path = path.trim().trim_start_matches("crate::");
        let layer = word(path);
        for name in path
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|name| *name != layer)
        {
            names.insert(name, layer);
        }
    }
    names
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn assert_none(what: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{what}:\n{}", violations.join("\n"));
}

#[test]
fn layers_import_only_what_the_table_allows() {
    let law: BTreeMap<String, Names> = law(&fs::read_to_string(root().join("docs/architecture.md")).unwrap())
        .into_iter()
        .collect();
    let lib = without_comments(&fs::read_to_string(root().join("src/lib.rs")).unwrap());
    let handed_on = handed_on(&lib);
    let mut violations = Vec::new();
    for source in sources(root()) {
        if ["lib", "bin"].contains(&source.layer.as_str()) {
            continue;
        }
        let Some(allowed) = law.get(&source.layer) else {
            violations.push(format!("{} is in no row of the table", source.place.display()));
            continue;
        };
        for name in imports(&source.code) {
            let layer = if law.contains_key(name) {
                name
            } else {
                handed_on.get(name).copied().unwrap_or(name)
            };
            if law.contains_key(layer) && layer != source.layer && !allowed.contains(layer) {
                violations.push(format!(
                    "{} imports crate::{name}, of layer {layer}",
                    source.place.display()
                ));
            }
        }
    }
    assert_none("imports that the table does not allow", &violations);
}

#[test]
fn the_table_has_no_cycle() {
    let mut above = Names::new();
    for (layer, imports) in law(&fs::read_to_string(root().join("docs/architecture.md")).unwrap()) {
        let below: Vec<_> = imports.difference(&above).collect();
        assert!(
            below.is_empty(),
            "{layer} may import {below:?}, which do not stand above it"
        );
        assert!(above.insert(layer.clone()), "{layer} has two rows");
    }
    assert!(!above.is_empty(), "no table");
}

#[test]
fn no_source_file_is_long() {
    let long: Vec<String> = sources(root())
        .iter()
        .filter(|source| source.lines > LONGEST)
        .map(|source| format!("{}: {} lines", source.place.display(), source.lines))
        .collect();
    assert_none("files longer than a sitting", &long);
}

#[test]
fn values_and_bytes_know_no_sockets_tasks_or_clocks() {
    let mut violations = Vec::new();
    for source in sources(root()) {
        if WITHOUT_IO.contains(&source.layer.as_str()) {
            for word in ["tokio", "std::net", "Instant::now", "SystemTime::now"] {
                if source.code.contains(word) {
                    violations.push(format!("{}: {word}", source.place.display()));
                }
            }
        }
    }
    assert_none("I/O in layers that have none", &violations);
}

#[test]
fn imports_are_found_in_every_form() {
    let code = without_comments(
        "use crate::{a, b::{c, d}, e::F as G}; // crate::no\nlet x = crate::h::i(); use mycrate::no; pub(in crate::j) fn f() {}\n\
         use crate::{\n    k::L,\n    m,\n};",
    );
    let found: Vec<_> = imports(&code).filter(|name| !name.is_empty()).collect();
    assert_eq!(found, ["a", "b", "e", "h", "j", "k", "m"]);
    assert_eq!(handed_on("pub use a::{B, c::D}; pub use e::F;")["D"], "a");
    assert_eq!(
        law("| layer | may |\n|---|---|\n| `a` | |\n| `b` | `a` |").len(),
        2
    );
}
