//! The lines for HBase's shell: they state what the library states. There is no HBase shell among the jars that tests run on, so
//! they are read, not run.

use std::collections::{BTreeMap, BTreeSet};

use hbase_txn::{FamilyDescriptor, PartitionRule, TableDescriptor};

use crate::guides::blocks;

/// What a line says about a table: pairs as `'key' => 'value'` or `KEY => 'value'`, and families with theirs.
#[derive(Debug)]
pub(crate) struct ShellLine {
    pub(crate) command: String,
    pub(crate) table: String,
    text: String,
}

/// The commands of HBase's shell that the guides use.
const COMMANDS: [&str; 10] = [
    "alter",
    "clone_snapshot",
    "create",
    "disable",
    "enable",
    "grant",
    "revoke",
    "snapshot",
    "user_permission",
    "split",
];

pub(crate) fn lines() -> Vec<ShellLine> {
    let blocks = blocks("ruby");
    let lines = blocks.iter().flat_map(|block| block.text.lines());
    lines
        .map(|line| {
            let (command, arguments) = line.split_once(' ').unwrap();
            ShellLine {
                command: command.to_owned(),
                table: quoted(arguments).unwrap(),
                text: line.to_owned(),
            }
        })
        .collect()
}

/// The first text in quotes.
fn quoted(text: &str) -> Option<String> {
    text.split('\'').nth(1).map(str::to_owned)
}

impl ShellLine {
    /// What stands in the braces behind `METADATA =>`.
    pub(crate) fn metadata(&self) -> BTreeMap<String, String> {
        let Some((_, behind)) = self.text.split_once("METADATA => {") else {
            return BTreeMap::new();
        };
        pairs(behind.split('}').next().unwrap())
    }

    /// The families in braces, with their attributes.
    pub(crate) fn families(&self) -> Vec<FamilyDescriptor> {
        let braces = self.text.split("{NAME => ").skip(1);
        braces
            .map(|brace| {
                let text = brace.split('}').next().unwrap();
                let family = FamilyDescriptor::new(quoted(text).unwrap());
                let (_, attributes) = text.split_once(',').unwrap_or((text, ""));
                pairs(attributes)
                    .into_iter()
                    .fold(family, |family, (key, value)| family.with_attribute(key, value))
            })
            .collect()
    }
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once("=>"));
    pairs
        .map(|(key, value)| (key.trim().trim_matches('\'').to_owned(), quoted(value).unwrap()))
        .collect()
}

pub(crate) fn attributes(descriptor: &TableDescriptor) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let attributes = descriptor.attributes.iter();
    attributes.map(|(key, value)| (text(key), text(value))).collect()
}

#[test]
fn every_line_is_a_command_with_all_its_quotes_and_braces() {
    let commands = BTreeSet::from(COMMANDS);
    for line in lines() {
        assert!(commands.contains(line.command.as_str()), "{line:?}");
        assert_eq!(line.text.matches('\'').count() % 2, 0, "{line:?}");
        for (open, close) in [('{', '}'), ('[', ']')] {
            assert_eq!(
                line.text.matches(open).count(),
                line.text.matches(close).count(),
                "{line:?}"
            );
        }
    }
}

#[test]
fn a_table_that_is_made_in_the_shell_is_as_the_library_would_make_it() {
    let rules = [
        ("orders_by_length", PartitionRule::prefix_length(3).unwrap()),
        ("orders_by_delimiter", PartitionRule::delimiter("/").unwrap()),
    ];
    let lines = lines();
    for (name, rule) in rules {
        let line = lines
            .iter()
            .find(|line| line.command == "create" && line.table == name)
            .unwrap();
        let wanted = TableDescriptor::new(name.parse().unwrap())
            .with_partition_rule(&rule)
            .with_multi_row_mutation_endpoint()
            .with_record_family()
            .with_family(FamilyDescriptor::new("f"));
        assert_eq!(line.metadata(), attributes(&wanted), "{name}");
        let families = line.families().into_iter();
        let stated = families.fold(
            TableDescriptor::new(name.parse().unwrap()),
            TableDescriptor::with_family,
        );
        assert_eq!(stated.families, wanted.families, "{name}");
    }
}
