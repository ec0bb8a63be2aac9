//! The public API of each library is what `tests/public_api/CRATE.txt` says. After an intended
//! change `UPDATE_PUBLIC_API=1 cargo test --all-features --test public_api` writes the files.
//!
//! It is read from the pages that rustdoc makes of all features: one line for each declaration,
//! field, variant, method, implementation and re-export, after the path of its item.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Where the parts of a page end that come from the declaration and its own implementations.
const INHERITED: [&str; 4] = [
    "id=\"synthetic-implementations\"",
    "id=\"blanket-implementations\"",
    "id=\"implementors\"",
    "id=\"modal\"",
];

fn cargo(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("REPOSITORY"))
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(arguments)
        .arg("--offline")
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    output.stdout
}

/// Writes the pages of the libraries; returns their folders.
fn libraries() -> Vec<PathBuf> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    // The lints of `make check` have checked the dependencies in this folder, as rustdoc needs them.
    let target = Path::new(metadata["target_directory"].as_str().unwrap()).join("lint");
    let target_dir = target.to_str().unwrap();
    cargo(&[
        "doc",
        "--quiet",
        "--no-deps",
        "--all-features",
        "--target-dir",
        target_dir,
    ]);
    let pages = target.join("doc");
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .filter(|package| package["publish"].is_null())
        .flat_map(|package| package["targets"].as_array().unwrap())
        .filter(|target| target["kind"][0] == "lib")
        .map(|target| pages.join(target["name"].as_str().unwrap()))
        .collect()
}

/// What stands between two texts, each time.
fn between<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    let starts = text.split(start).skip(1);
    starts.filter_map(move |rest| rest.split_once(end).map(|(inside, _)| inside))
}

/// HTML as text, without what folds long declarations.
fn text(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        let (name, behind) = tag.split_once('>').unwrap();
        rest = match name {
            _ if name.starts_with("summary") => behind.split_once("</summary>").unwrap().1,
            _ if name.contains("class=\"tooltip\"") => behind.split_once("</a>").unwrap().1,
            _ if name.starts_with("br") || name.starts_with("div") => {
                text.push(' ');
                behind
            }
            _ => behind,
        };
    }
    text.push_str(rest);
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(text, |text, (escaped, plain)| text.replace(escaped, plain))
}

fn one_line(html: &str) -> String {
    text(html).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of an item's page.
fn item(page: &str) -> Vec<String> {
    let end = INHERITED.iter().filter_map(|mark| page.find(mark)).min();
    let page = &page[..end.unwrap_or(page.len())];
    let declaration = between(page, "item-decl\"><code>", "</code></pre>")
        .next()
        .unwrap();
    let declaration = text(declaration);
    let mut lines: Vec<_> = declaration
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| line.contains(char::is_alphanumeric))
        .collect();
    // The methods of a trait are in its declaration.
    let own: &[&str] = if declaration.contains("pub trait ") {
        &["\"impl\""]
    } else {
        &["\"impl\"", "\"method\"", "\"associatedconstant\""]
    };
    for section in between(page, "<section id=\"", "</section>") {
        let Some((attributes, content)) = section.split_once('>') else {
            continue;
        };
        let is_own = own.iter().any(|class| attributes.ends_with(class));
        let header = between(content, "class=\"code-header\">", "</h").next();
        if let Some(header) = header.filter(|_| is_own) {
            lines.push(one_line(header));
        }
    }
    lines
}

/// The API of a library: a line for each part of an item, in the order of the items' paths.
fn api(library: &Path) -> String {
    let name = library.file_name().unwrap().to_str().unwrap();
    let read = |page: &str| fs::read_to_string(library.join(page)).unwrap();
    let listed = read("all.html");
    let pages: BTreeSet<_> = between(&listed, "<a href=\"", "\"")
        .filter(|page| page.ends_with(".html") && !page.starts_with(".."))
        .collect();
    let (mut modules, mut lines) = (BTreeSet::from([""]), BTreeSet::new());
    for page in pages {
        let (module, file) = page.rsplit_once('/').unwrap_or(("", page));
        let Some((_, item_name)) = file.trim_end_matches(".html").split_once('.') else {
            continue;
        };
        modules.insert(module);
        let path = [name, &module.replace('/', "::"), item_name]
            .join("::")
            .replace("::::", "::");
        let parts = item(&read(page)).into_iter().enumerate();
        lines.extend(parts.map(|(at, part)| (path.clone(), at, part)));
    }
    for module in modules {
        let index = read(&Path::new(module).join("index.html").to_string_lossy());
        let path = [name, &module.replace('/', "::")].join("::");
        let path = path.trim_end_matches("::").to_owned();
        let used = between(&index, "<dt id=\"reexport.", "</dt>");
        let used = used.map(|dt| one_line(between(dt, "<code>", "</code>").next().unwrap()));
        lines.extend(used.enumerate().map(|(at, line)| (path.clone(), at, line)));
    }
    lines
        .iter()
        .map(|(path, _, part)| format!("{path}: {part}\n"))
        .collect()
}

/// The lines that only one of the two has.
fn difference(before: &str, now: &str) -> Vec<String> {
    let [before_lines, now_lines] = [before, now].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = before_lines
        .difference(&now_lines)
        .map(|line| format!("- {line}"));
    let new = now_lines
        .difference(&before_lines)
        .map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

#[test]
fn public_api_is_as_recorded() {
    let update = env::var_os("UPDATE_PUBLIC_API").is_some();
    let mut changes = Vec::new();
    for library in libraries() {
        let file = format!("tests/public_api/{}.txt", library.file_name().unwrap().display());
        let file = Path::new(env!("REPOSITORY")).join(file);
        let now = api(&library);
        if update {
            fs::write(&file, &now).unwrap();
        }
        let recorded = fs::read_to_string(&file).unwrap_or_default();
        changes.extend(difference(&recorded, &now));
    }
    assert!(
        changes.is_empty(),
        "the public API has changed; if that is intended, run this test with UPDATE_PUBLIC_API=1:\n{}",
        changes.join("\n")
    );
}

#[test]
fn declarations_are_read_from_pages() {
    let page = "<pre class=\"rust item-decl\"><code>pub struct <a>A</a>&lt;T&gt; {\n    pub b: u8,\n}</code></pre>\
        <section id=\"impl-A\" class=\"impl\"><h3 class=\"code-header\">impl&lt;T&gt; A&lt;T&gt;</h3></section>\
        <section id=\"method.c\" class=\"method\"><h4 class=\"code-header\">pub fn <a>c</a>(&amp;self)\
        <div class=\"where\">where<br>T: D</div></h4></section>\
        <section id=\"method.d\" class=\"method trait-impl\"><h4 class=\"code-header\">fn d()</h4></section>\
        <h2 id=\"blanket-implementations\"></h2>\
        <section id=\"impl-E\" class=\"impl\"><h3 class=\"code-header\">impl E for A</h3></section>";
    let expected = [
        "pub struct A<T> {",
        "pub b: u8,",
        "impl<T> A<T>",
        "pub fn c(&self) where T: D",
    ];
    assert_eq!(item(page), expected);
    assert_eq!(difference("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
}
