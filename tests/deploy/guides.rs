//! The guides, and the blocks in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// In the order in which somebody would follow them.
const GUIDES: [&str; 7] = [
    "coprocessor/README.md",
    "coprocessor/table-attributes.md",
    "coprocessor/deployment.md",
    "coprocessor/security.md",
    "coprocessor/upgrade.md",
    "docs/operating.md",
    "docs/migrating.md",
];

/// What is between two fences.
#[derive(Debug)]
pub(crate) struct Block {
    /// The guide, and the line of the first fence.
    pub(crate) place: String,
    pub(crate) text: String,
}

/// A file of this project.
pub(crate) fn path(file: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

pub(crate) fn read(file: impl AsRef<Path>) -> String {
    let path = path(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of all guides that are in this language, which there must be.
pub(crate) fn blocks(language: &str) -> Vec<Block> {
    let blocks: Vec<Block> = GUIDES
        .iter()
        .flat_map(|guide| blocks_of(guide, language))
        .collect();
    assert!(!blocks.is_empty(), "no block in {language}");
    blocks
}

fn blocks_of(guide: &str, language: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<(bool, usize, Block)>);
    for (number, line) in (1..).zip(read(guide).lines()) {
        let fence = line.trim_start().strip_prefix("```");
        open = match (fence, open) {
            (None, None) => None,
            (None, Some((wanted, indent, mut block))) => {
                block.text.push_str(line.get(indent..).unwrap_or_default());
                block.text.push('\n');
                Some((wanted, indent, block))
            }
            (Some(named), None) => {
                let block = Block {
                    place: format!("{guide}:{number}"),
                    text: String::new(),
                };
                Some((named == language, line.len() - line.trim_start().len(), block))
            }
            (Some(_), Some((wanted, _, block))) => {
                blocks.extend(wanted.then_some(block));
                None
            }
        };
    }
    assert!(open.is_none(), "{guide}: a block is never closed");
    blocks
}
