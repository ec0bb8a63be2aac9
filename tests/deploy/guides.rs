//! The guides, and the blocks in them.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// In the order in which a reader would follow them.
pub(crate) const GUIDES: [&str; 10] = [
    "coprocessor/README.md",
    "coprocessor/table-attributes.md",
    "coprocessor/deployment.md",
    "coprocessor/upgrade.md",
    "docs/provisioning.md",
    "docs/importing.md",
    "docs/operating.md",
    "docs/auditing.md",
    "docs/skew.md",
    "docs/migrating.md",
];

/// The language of a block, which determines its test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// `sh`: run unchanged.
    Shell,
    /// `ruby`: lines for HBase's shell, performed through the library (`shell_lines`).
    HBaseShell,
    /// `console`: lines with a `$` are run, or listed with a reason not to (`console`).
    Console,
    /// `toml`: a table file, which is written for the commands after it.
    TableFile,
    /// `text`: the output of the commands before it.
    Output,
    /// `json`: lines of a plan, compared with a real plan.
    Json,
    /// `yaml`: parsed, and compared with the settings.
    Yaml,
    /// `rust`: run by `tests/guides`.
    Rust,
}

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) guide: &'static str,
    /// The line of the opening fence.
    line: usize,
    pub(crate) language: Language,
    pub(crate) text: String,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.guide, self.line)
    }
}

/// A file of this project.
pub(crate) fn path(file: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("REPOSITORY")).join(file)
}

pub(crate) fn read(file: impl AsRef<Path>) -> String {
    let path = path(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the blocks of all guides in this language. Fails if there are none.
pub(crate) fn blocks(language: Language) -> Vec<Block> {
    let blocks: Vec<Block> = GUIDES.iter().flat_map(|guide| blocks_of(guide)).collect();
    let blocks: Vec<Block> = blocks
        .into_iter()
        .filter(|block| block.language == language)
        .collect();
    assert!(!blocks.is_empty(), "no block is {language:?}");
    blocks
}

/// Returns all blocks of a guide. Fails on a block in a language without a test.
pub(crate) fn blocks_of(guide: &'static str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<(usize, Block)>);
    for (line, text) in (1..).zip(read(guide).lines()) {
        let fence = text.trim_start().strip_prefix("```");
        open = match (fence, open) {
            (None, None) => {
                let indented = text.starts_with("    ") && !text.trim_start().starts_with(['-', '|']);
                assert!(
                    !indented,
                    "{guide}:{line}: a block without fences, which nothing uses"
                );
                None
            }
            (None, Some((indent, mut block))) => {
                block.text.push_str(text.get(indent..).unwrap_or_default());
                block.text.push('\n');
                Some((indent, block))
            }
            (Some(named), None) => {
                let block = Block {
                    guide,
                    line,
                    language: language(named)
                        .unwrap_or_else(|| panic!("{guide}:{line}: nothing uses blocks in {named:?}")),
                    text: String::new(),
                };
                Some((text.len() - text.trim_start().len(), block))
            }
            (Some(_), Some((_, block))) => {
                blocks.push(block);
                None
            }
        };
    }
    assert!(open.is_none(), "{guide}: a block is never closed");
    blocks
}

fn language(named: &str) -> Option<Language> {
    Some(match named {
        "sh" => Language::Shell,
        "ruby" => Language::HBaseShell,
        "console" => Language::Console,
        "toml" => Language::TableFile,
        "text" => Language::Output,
        "json" => Language::Json,
        "yaml" => Language::Yaml,
        "rust" => Language::Rust,
        _ => return None,
    })
}

#[test]
fn every_block_is_of_a_language_that_something_uses() {
    let blocks: Vec<Block> = GUIDES.iter().flat_map(|guide| blocks_of(guide)).collect();
    assert!(blocks.len() > 40, "{}", blocks.len());
    for (language, guides) in [
        // Languages that `on_servers` does not run, and the guides that may have them.
        (Language::Yaml, &["coprocessor/deployment.md"][..]),
        (Language::Json, &["docs/provisioning.md"]),
    ] {
        for block in blocks.iter().filter(|block| block.language == language) {
            assert!(guides.contains(&block.guide), "{block}: nothing looks at it");
        }
    }
}
