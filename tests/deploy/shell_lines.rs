//! The lines for HBase's shell. The jars for tests have no such shell, so the lines are parsed
//! here, and performed through the library. A line that can't be parsed is a failure.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_txn::{
    admin::Admin,
    client::{FamilyDescriptor, TableDescriptor, TableName},
};

use crate::guides::{Block, Language, blocks};

/// Commands that are parsed but not performed, with the reasons.
const NOT_DONE: [(&str, &str); 2] = [
    ("snapshot", "it would be left behind"),
    ("clone_snapshot", "its snapshot is not taken"),
];

/// A Ruby value, as far as these lines use them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    List(Vec<Self>),
    /// Keys are words, such as `NAME`, or texts.
    Hash(BTreeMap<String, Self>),
}

/// A command with its arguments.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    command: String,
    arguments: Vec<Value>,
}

impl Value {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }

    fn hash(&self) -> &BTreeMap<String, Self> {
        match self {
            Self::Hash(hash) => hash,
            other => panic!("{other:?} is no hash"),
        }
    }

    fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            other => panic!("{other:?} is no list"),
        }
    }
}

/// The unparsed rest of a line.
struct Reader<'l>(&'l str);

impl Reader<'_> {
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.0.trim_start();
        self.0 = rest.strip_prefix(token).unwrap_or(rest);
        self.0.len() < rest.len()
    }

    fn must(&mut self, token: &str) {
        assert!(self.takes(token), "{token:?} is expected before {:?}", self.0);
    }

    fn word(&mut self) -> String {
        let rest = self.0.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        assert!(!word.is_empty(), "a word is expected before {rest:?}");
        self.0 = rest;
        word.to_owned()
    }

    /// A text in single quotes, without quotes or backslashes in it.
    fn text(&mut self) -> String {
        self.must("'");
        let (text, rest) = self
            .0
            .split_once('\'')
            .unwrap_or_else(|| panic!("no end of '{}", self.0));
        assert!(!text.contains('\\'), "{text}");
        self.0 = rest;
        text.to_owned()
    }

    fn value(&mut self) -> Value {
        if self.takes("[") {
            let mut list = vec![self.value()];
            while self.takes(",") {
                list.push(self.value());
            }
            self.must("]");
            return Value::List(list);
        }
        if self.takes("{") {
            let key = self.key();
            let hash = self.pairs(key);
            self.must("}");
            return hash;
        }
        Value::Text(self.text())
    }

    fn key(&mut self) -> String {
        if self.0.trim_start().starts_with('\'') {
            self.text()
        } else {
            self.word()
        }
    }

    /// Parses a hash whose first key was parsed already.
    fn pairs(&mut self, key: String) -> Value {
        let mut hash = BTreeMap::new();
        let mut key = Some(key);
        while let Some(name) = key {
            self.must("=>");
            let value = self.value();
            assert!(
                hash.insert(name.clone(), value).is_none(),
                "{name} is given twice"
            );
            key = self.takes(",").then(|| self.key());
        }
        Value::Hash(hash)
    }

    /// Parses a line. Pairs without braces are one argument, the last.
    fn line(mut self) -> Line {
        let command = self.word();
        let mut arguments = Vec::new();
        loop {
            if self.0.trim_start().starts_with(|c: char| c.is_ascii_uppercase()) {
                let key = self.word();
                arguments.push(self.pairs(key));
            } else {
                arguments.push(self.value());
            }
            if !self.takes(",") {
                break;
            }
        }
        assert_eq!(self.0.trim(), "", "what is this behind {command}?");
        Line { command, arguments }
    }
}

fn lines(block: &Block) -> Vec<Line> {
    block.text.lines().map(|line| Reader(line).line()).collect()
}

/// Returns the name of the table on which the lines for the shell are performed, in place of the
/// guide's table.
pub(crate) fn stand_in(table: &str, label: &str) -> TableName {
    format!("{table}_{label}").parse().unwrap()
}

fn family(hash: &BTreeMap<String, Value>) -> FamilyDescriptor {
    let attributes = hash.iter().filter(|(key, _)| *key != "NAME");
    attributes.fold(
        FamilyDescriptor::new(hash["NAME"].text().to_owned()),
        |family, (key, value)| family.with_attribute(key.clone(), value.text().to_owned()),
    )
}

fn with_metadata(descriptor: TableDescriptor, metadata: &Value) -> TableDescriptor {
    metadata
        .hash()
        .iter()
        .fold(descriptor, |descriptor, (key, value)| {
            descriptor.with_attribute(key.clone(), value.text().to_owned())
        })
}

/// Performs the lines on stand-ins for their tables. A table that is altered and does not exist is
/// created as a plain one. Returns the names of the tables that are now fit for transactions.
pub(crate) async fn perform(admin: &Admin, block: &Block, label: &str) -> Vec<String> {
    let mut fit = Vec::new();
    for line in lines(block) {
        if NOT_DONE.iter().any(|(command, _)| *command == line.command) {
            continue;
        }
        let (table, arguments) = line.arguments.split_first().unwrap();
        let (table, name) = (table.text(), stand_in(table.text(), label));
        if line.command == "create" {
            create(admin, name, arguments).await;
            fit.push(table.to_owned());
            continue;
        }
        if !admin.exists(&name).await.unwrap() {
            let plain = TableDescriptor::from(name.clone()).with_family(FamilyDescriptor::new("f"));
            admin.create_table(&plain, &[]).await.unwrap();
        }
        match (line.command.as_str(), arguments) {
            ("disable", []) => admin.disable_table(&name).await.unwrap(),
            ("enable", []) => admin.enable_table(&name).await.unwrap(),
            ("alter", [Value::Hash(change)]) => {
                let keys: Vec<&str> = change.keys().map(String::as_str).collect();
                let mut descriptor = admin.descriptor(&name).await.unwrap();
                match keys[..] {
                    ["METADATA"] => {
                        descriptor = with_metadata(descriptor, &change["METADATA"]);
                        fit.push(table.to_owned());
                    }
                    ["METHOD", "NAME"] => {
                        assert_eq!(change["METHOD"].text(), "table_att_unset", "{block}");
                        let attribute = change["NAME"].text().as_bytes();
                        let removed = descriptor.attributes.remove(attribute);
                        assert!(removed.is_some(), "{block}: the table has no such attribute");
                    }
                    _ => descriptor = descriptor.with_family(family(change)),
                }
                admin.modify_table(&descriptor).await.unwrap();
            }
            _ => panic!("{block}: nothing does {line:?}, and nothing says why"),
        }
    }
    fit.dedup();
    fit
}

/// The arguments are families, and one hash with attributes and boundaries.
async fn create(admin: &Admin, name: TableName, arguments: &[Value]) {
    let (mut descriptor, mut splits) = (TableDescriptor::from(name), Vec::new());
    for argument in arguments {
        let hash = argument.hash();
        if hash.contains_key("NAME") {
            descriptor = descriptor.with_family(family(hash));
            continue;
        }
        for (key, value) in hash {
            match key.as_str() {
                "METADATA" => descriptor = with_metadata(descriptor, value),
                "SPLITS" => {
                    let keys = value.list().iter();
                    splits.extend(keys.map(|key| Bytes::from(key.text().to_owned())));
                }
                _ => panic!("nothing knows {key} of create"),
            }
        }
    }
    admin.create_table(&descriptor, &splits).await.unwrap();
}

#[test]
fn every_line_can_be_read() {
    let blocks = blocks(Language::HBaseShell);
    let commands: Vec<String> = blocks.iter().flat_map(lines).map(|line| line.command).collect();
    for (command, why) in NOT_DONE {
        assert!(
            commands.iter().any(|used| used == command),
            "no line has {command} any more ({why})"
        );
    }
}

#[test]
fn only_command_lines_are_extracted() {
    let read = |text: &'static str| std::panic::catch_unwind(|| Reader(text).line());
    for wrong in [
        "alter 'a', {NAME => 'f'",
        "alter 'a', {NAME => 'f', NAME => 'g'}",
        "alter 'a' METADATA => {'k' => 'v'}",
        "alter 'a', METADATA => {'k' = 'v'}",
        "disable 'a",
        "disable 'a' 'b'",
        "create",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let line = read("alter 'a', METHOD => 'm', NAME => 'k'").unwrap();
    assert_eq!((line.command.as_str(), line.arguments.len()), ("alter", 2));
}
