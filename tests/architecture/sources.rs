//! The source files of each crate, and the uses between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::code::Code;

type ModulePath = Vec<String>;

/// A source file of a crate.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path below `src`.
    pub(crate) place: String,
    pub(crate) text: String,
    module: ModulePath,
    code: Code,
}

impl Source {
    /// The module of the crate's root that the file belongs to; `None` for `lib.rs` and `main.rs`.
    pub(crate) fn top_module(&self) -> Option<&str> {
        self.module.first().map(String::as_str)
    }

    pub(crate) fn is_test(&self) -> bool {
        self.module.iter().any(|name| name == "tests")
    }
}

/// The source files of one crate.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) files: Vec<Source>,
    by_module: BTreeMap<ModulePath, usize>,
}

impl Sources {
    /// Reads all files below `src`, except generated ones.
    pub(crate) fn read(src: &Path) -> Self {
        let (mut files, mut folders) = (Vec::new(), vec![src.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    if path.file_name().is_some_and(|name| name != "generated") {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let place = path.strip_prefix(src).unwrap().to_str().unwrap().to_owned();
                    files.push((place, fs::read_to_string(&path).unwrap()));
                }
            }
        }
        Self::new(files)
    }

    fn new(mut files: Vec<(String, String)>) -> Self {
        assert!(!files.is_empty());
        files.sort();
        let files: Vec<_> = files
            .into_iter()
            .map(|(place, text)| Source {
                module: module(&place),
                code: Code::read(&text),
                place,
                text,
            })
            .collect();
        let by_module = files
            .iter()
            .enumerate()
            .map(|(index, file)| (file.module.clone(), index))
            .collect();
        Self { files, by_module }
    }

    /// Returns each use of one file by another, as indexes of `files`. A name that a file only
    /// re-exports belongs to the file that it comes from, so `use crate::Error` is a use of the
    /// file that declares `Error`.
    ///
    /// `all` includes uses by tests, and re-exports.
    fn uses(&self, all: bool) -> BTreeSet<(usize, usize)> {
        let mut uses = BTreeSet::new();
        for (index, file) in self.files.iter().enumerate() {
            if file.is_test() && !all {
                continue;
            }
            for reference in &file.code.references {
                // A re-export is not a use by the file, unless the file itself uses the name.
                let re_export = reference.public
                    && !reference
                        .imported
                        .as_ref()
                        .is_some_and(|name| file.code.words.contains(name));
                if !all && (re_export || reference.in_tests()) {
                    continue;
                }
                if let Some(target) = self.target(index, &reference.inline, &reference.path, 0)
                    && target != index
                {
                    uses.insert((index, target));
                }
            }
        }
        uses
    }

    /// Returns the file that declares the item of a `path` in a file, or `None` for other crates
    /// and for names that do not exist.
    fn target(&self, file: usize, inline: &[String], path: &[String], depth: usize) -> Option<usize> {
        // Two files may import the same name from each other.
        if depth > 8 {
            return None;
        }
        let source = &self.files[file];
        let mut here: ModulePath = source.module.iter().chain(inline).cloned().collect();
        let mut rest = path;
        match path[0].as_str() {
            "crate" => (here, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while let Some("super") = rest.first().map(String::as_str) {
                    here.pop()?;
                    rest = &rest[1..];
                }
            }
            child if inline.is_empty() && source.code.children.iter().any(|name| name == child) => {}
            name => {
                let import = self.import(file, name).filter(|import| **import != *path)?;
                let path: Vec<_> = import.iter().chain(&path[1..]).cloned().collect();
                return self.target(file, &[], &path, depth + 1);
            }
        }
        here.extend(rest.iter().cloned());
        let known = (0..=here.len())
            .rev()
            .find(|length| self.by_module.contains_key(&here[..*length]))?;
        let target = self.by_module[&here[..known]];
        match here.get(known) {
            Some(name) if target != file || known == 0 => match self.import(target, name) {
                Some(import) => {
                    let path: Vec<_> = import.iter().chain(&here[known + 1..]).cloned().collect();
                    self.target(target, &[], &path, depth + 1)
                }
                None => Some(target),
            },
            _ => Some(target),
        }
    }

    /// Returns the path of a name that a file imports at its top level.
    fn import(&self, file: usize, name: &str) -> Option<&Vec<String>> {
        let imports = self.files[file].code.references.iter();
        imports
            .filter(|reference| reference.at_top)
            .find(|reference| reference.imported.as_deref() == Some(name))
            .map(|reference| &reference.path)
    }

    /// Returns the uses of one top module by another, each with an example.
    pub(crate) fn module_uses(&self) -> BTreeMap<(&str, &str), &str> {
        let mut uses = BTreeMap::new();
        for (from, to) in self.uses(true) {
            let (from, to) = (&self.files[from], &self.files[to]);
            if let (Some(user), Some(used)) = (from.top_module(), to.top_module())
                && user != used
            {
                uses.insert((user, used), from.place.as_str());
            }
        }
        uses
    }

    /// Returns the dependency cycles among files (strongly connected components), the largest
    /// first. Tests do not count. Neither do files that only declare modules and re-export names,
    /// as most `mod.rs` do: their names belong to other files.
    pub(crate) fn cycles(&self) -> Vec<Vec<&str>> {
        let mut reached = vec![BTreeSet::new(); self.files.len()];
        for (from, to) in self.uses(false) {
            if !self.files[from].code.only_declares && !self.files[to].code.only_declares {
                reached[from].insert(to);
            }
        }
        // The transitive closure: a few hundred files at most.
        for middle in 0..reached.len() {
            let beyond = reached[middle].clone();
            for set in &mut reached {
                if set.contains(&middle) {
                    set.extend(&beyond);
                }
            }
        }
        let mut cycles = BTreeSet::new();
        for (file, from_here) in reached.iter().enumerate() {
            let cycle: Vec<_> = from_here
                .iter()
                .filter(|other| reached[**other].contains(&file))
                .collect();
            if cycle.len() > 1 {
                cycles.insert(cycle);
            }
        }
        let mut cycles: Vec<Vec<_>> = cycles
            .into_iter()
            .map(|cycle| {
                cycle
                    .into_iter()
                    .map(|file| self.files[*file].place.as_str())
                    .collect()
            })
            .collect();
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        cycles
    }
}

/// Returns the path of a file's module: `txn/mod.rs` and `txn.rs` are `txn`; `lib.rs` and `main.rs`
/// are the root.
fn module(place: &str) -> ModulePath {
    let mut names: ModulePath = place
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if names.last().is_some_and(|name| name == "mod") || ["lib.rs", "main.rs"].contains(&place) {
        names.pop();
    }
    names
}

#[test]
fn uses_are_followed_through_re_exports() {
    let sources = Sources::new(
        [
            ("lib.rs", "mod a; mod b; pub use a::One;"),
            (
                "a/mod.rs",
                "mod one; mod two; pub use self::{one::One, two::Two};",
            ),
            (
                "a/one.rs",
                "use super::Two; pub struct One(Two); mod tests { use crate::b::Three; }",
            ),
            ("a/two.rs", "use super::one; pub struct Two; fn f(x: one::One) {}"),
            ("b.rs", "use crate::{One, a}; pub struct Three(One, a::Two);"),
        ]
        .map(|(place, text)| (place.to_owned(), text.to_owned()))
        .into(),
    );
    let named =
        |(from, to): (usize, usize)| format!("{} {}", sources.files[from].place, sources.files[to].place);
    assert_eq!(sources.cycles(), [["a/one.rs", "a/two.rs"]]);
    let uses: Vec<_> = sources.uses(false).into_iter().map(named).collect();
    assert_eq!(
        uses,
        [
            "a/one.rs a/two.rs",
            "a/two.rs a/one.rs",
            "b.rs a/mod.rs",
            "b.rs a/one.rs",
            "b.rs a/two.rs"
        ]
    );
    let uses: Vec<_> = sources.module_uses().into_keys().collect();
    assert_eq!(uses, [("a", "b"), ("b", "a")]);
}
