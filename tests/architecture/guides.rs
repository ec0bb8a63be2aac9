//! All Rust examples of the guides are compiled.

use std::fs;

use crate::root;

/// Returns the pages of `docs/` with Rust examples that no crate's documentation includes.
fn not_compiled() -> Vec<String> {
    let library = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let pages = fs::read_dir(root().join("docs")).unwrap();
    pages
        .map(|page| page.unwrap().path())
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .filter(|page| {
            let text = fs::read_to_string(page).unwrap();
            let name = page.file_name().unwrap().to_str().unwrap();
            let has_examples = text.lines().any(|line| line.trim_start().starts_with("```rust"));
            let is_included = library.contains(&format!("include_str!(\"../docs/{name}\")"));
            (has_examples && !is_included) || text.contains("```rust,ignore")
        })
        .map(|page| page.display().to_string())
        .collect()
}

#[test]
fn examples_of_all_guides_are_compiled() {
    assert_eq!(not_compiled(), Vec::<String>::new());
}
