//! Each Rust example of a page is in a file of this test, and each file has an example.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The files that do not begin with an example.
const OTHERS: [&str; 2] = ["main.rs", "pages.rs"];

fn root() -> &'static Path {
    Path::new(env!("REPOSITORY"))
}

/// Returns the files of a folder with an extension, without those of its folders.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

/// Returns the folders of a folder.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect()
}

/// Returns the pages for users, without the READMEs that are the documentation of their crate: their
/// examples are doctests.
fn pages() -> Vec<PathBuf> {
    let crates = folders(&root().join("crates"));
    let is_doctest = |folder: &Path| {
        let library = fs::read_to_string(folder.join("src/lib.rs")).unwrap_or_default();
        library.contains("include_str!(\"../README.md\")")
    };
    let readmes = crates.iter().filter(|folder| !is_doctest(folder));
    let mut pages: Vec<_> = readmes.map(|folder| folder.join("README.md")).collect();
    pages.push(root().join("README.md"));
    pages.extend(files(&root().join("docs"), "md"));
    pages.extend(files(&root().join("coprocessor"), "md"));
    pages
}

/// Returns the Rust blocks of a page, without their indentation.
///
/// # Panics
///
/// Panics on a block without a language, which rustdoc takes for Rust.
fn examples(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let (mut examples, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(language) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        assert!(!language.is_empty(), "{}: {line}", page.display());
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        let block = block.map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n");
        let block: String = block.collect();
        if language.starts_with("rust") {
            examples.push(block);
        }
    }
    examples
}

/// Returns code without its layout: pages have longer lines than rustfmt makes.
fn compact(code: &str) -> String {
    let mut code: String = code.split_whitespace().collect();
    for close in [")", "]", "}"] {
        code = code.replace(&format!(",{close}"), close);
    }
    code
}

#[test]
fn example_of_every_page_is_here() {
    let folder = root().join("tests/guides");
    let mut paths = files(&folder, "rs");
    paths.extend(folders(&folder).iter().flat_map(|folder| files(folder, "rs")));
    paths.retain(|path| OTHERS.iter().all(|other| !path.ends_with(other)));
    let mut unused: Vec<(PathBuf, String)> = paths
        .into_iter()
        .map(|path| (path.clone(), compact(&fs::read_to_string(path).unwrap())))
        .collect();
    for page in pages() {
        for example in examples(&page) {
            let code = compact(&example);
            let found = unused.iter().position(|(_, text)| text.starts_with(&code));
            let page = page.display();
            let found = found.unwrap_or_else(|| panic!("{page}: no file of tests/guides has\n{example}"));
            unused.swap_remove(found);
        }
    }
    let unused: Vec<_> = unused.iter().map(|(path, _)| path).collect();
    assert!(unused.is_empty(), "no page has the example of {unused:?}");
}
