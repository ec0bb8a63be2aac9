//! The file that records how far an import is.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use hbase_txn::client::TableName;
use serde::{Deserialize, Serialize};

use crate::{cmd::whole_file, exit::Failure, output};

/// The number of bytes at the beginning of the file that are compared.
const BEGINNING: u64 = 64 << 10;
/// The maximum size of a checkpoint; this command writes no larger one.
const MAX_SIZE: u64 = 64 << 10;

/// The state of an import. All lines before a position are imported or rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) position: Position,
    pub(super) imported: u64,
    pub(super) rejected: u64,
    /// The number of rejected lines that may have been stored all the same.
    pub(super) unknown: u64,
    pub(super) rejects: Option<RejectsState>,
}

/// A place between two lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// The number of the line before it; 0 at the beginning.
    pub(super) line: u64,
    pub(super) offset: u64,
}

/// The file of rejects, by its absolute path without links, and its size with the rejects before the
/// position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RejectsState {
    pub(super) file: PathBuf,
    pub(super) size: u64,
}

/// The contents of a checkpoint.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents<'a> {
    table: Cow<'a, str>,
    /// The options that determine the meaning of a line.
    options: Cow<'a, str>,
    file: Cow<'a, Fingerprint>,
    done: Cow<'a, State>,
}

/// The properties of a file that change if it is replaced or rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fingerprint {
    size: u64,
    /// The SHA-256 of the first 64 KiB.
    beginning: String,
}

/// A checkpoint of an import of a file into a table.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) path: PathBuf,
    source: PathBuf,
    fingerprint: Fingerprint,
    table: String,
    options: String,
}

impl Fingerprint {
    fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut beginning = Vec::new();
        file.take(BEGINNING).read_to_end(&mut beginning)?;
        let digest = hmac_sha256::Hash::hash(&beginning);
        Ok(Self {
            size,
            beginning: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }
}

impl Checkpoint {
    /// Prepares a checkpoint of an import of this file with these options.
    pub(super) fn new(
        path: PathBuf,
        source: &Path,
        table: &TableName,
        options: String,
    ) -> Result<Self, Failure> {
        let fingerprint =
            Fingerprint::of(source).map_err(|error| refused("reading", source, &output::plain(&error)))?;
        Ok(Self {
            path,
            source: source.to_owned(),
            fingerprint,
            table: table.to_string(),
            options,
        })
    }

    /// Returns the size of the imported file.
    pub(super) fn source_size(&self) -> u64 {
        self.fingerprint.size
    }

    /// Returns the state of an earlier import that has not ended, and `None` if there is none.
    ///
    /// Refuses a state of another file or table, or of other options.
    pub(super) fn read(&self) -> Result<Option<State>, Failure> {
        let path = &self.path;
        let hint = format!("delete {} to import from the beginning", path.display());
        let unreadable = |why: &str| refused("reading", path, &format!("{why}; {hint}"));
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MAX_SIZE).read_to_end(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused("reading", path, &output::plain(&error))),
        }
        let found: Contents<'_> = serde_json::from_slice(&text)
            .map_err(|error| unreadable(&format!("this is no checkpoint of an import: {error}")))?;
        if found.table != self.table {
            return Err(unreadable(&format!(
                "it is of an import into table {}, not {}",
                found.table, self.table
            )));
        }
        if found.options != self.options {
            return Err(unreadable(&format!(
                "it is of an import with {}, not with {}; repeat its options",
                found.options, self.options
            )));
        }
        let state = found.done.into_owned();
        let changed = |what: &str| {
            let source = self.source.display();
            let line = state.position.line;
            Err(Failure::Refused(format!(
                "{source} has changed since line {line} was imported: {what}; restore it, or {hint}"
            )))
        };
        let (before, now) = (found.file, &self.fingerprint);
        if before.size != now.size {
            return changed(&format!("it had {} bytes, and has {}", before.size, now.size));
        }
        if before.beginning != now.beginning {
            return changed("it begins with other lines");
        }
        Ok(Some(state))
    }

    /// Replaces the file. Its old or its new contents survive a crash.
    pub(super) fn write(&self, state: &State) -> Result<(), Failure> {
        let contents = Contents {
            table: Cow::Borrowed(&self.table),
            options: Cow::Borrowed(&self.options),
            file: Cow::Borrowed(&self.fingerprint),
            done: Cow::Borrowed(state),
        };
        let text = serde_json::to_string(&contents).map_err(io::Error::from)? + "\n";
        whole_file::write(&self.path, &text)
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(refused("removing", &self.path, &output::plain(&error)))
            }
            _ => Ok(()),
        }
    }
}

fn refused(what: &str, path: &Path, why: &str) -> Failure {
    Failure::Refused(format!("{what} {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn checkpoint(folder: &TempDir, contents: &str, table: &str) -> Checkpoint {
        with_options(folder, contents, table, "--format json")
    }

    fn with_options(folder: &TempDir, contents: &str, table: &str, options: &str) -> Checkpoint {
        let source = folder.path().join("rows.json");
        fs::write(&source, contents).unwrap();
        let path = folder.path().join("rows.json.checkpoint");
        Checkpoint::new(path, &source, &table.parse().unwrap(), options.to_owned()).unwrap()
    }

    #[test]
    fn state_is_read_back_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = checkpoint(&folder, "a\nb\n", "orders");
        assert_eq!(checkpoint.read().unwrap(), None);
        let state = State {
            position: Position { line: 1, offset: 2 },
            imported: 1,
            ..State::default()
        };
        checkpoint.write(&state).unwrap();
        assert_eq!(checkpoint.read().unwrap(), Some(state));
        checkpoint.remove().unwrap();
        checkpoint.remove().unwrap();
        assert_eq!(checkpoint.read().unwrap(), None);
    }

    #[test]
    fn another_file_or_table_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let first = checkpoint(&folder, "a\nb\n", "orders");
        first.write(&State::default()).unwrap();
        for (contents, table, why) in [
            ("a\nb\nc\n", "orders", "it had 4 bytes, and has 6"),
            ("a\nc\n", "orders", "it begins with other lines"),
            (
                "a\nb\n",
                "ns:orders",
                "an import into table orders, not ns:orders",
            ),
        ] {
            let refusal = checkpoint(&folder, contents, table)
                .read()
                .unwrap_err()
                .to_string();
            assert!(refusal.contains(why) && refusal.contains("delete "), "{refusal}");
        }
        let refusal = with_options(&folder, "a\nb\n", "orders", "--format json --skip 1").read();
        let refusal = refusal.unwrap_err().to_string();
        assert!(
            refusal
                .contains("with --format json, not with --format json --skip 1; repeat its options; delete "),
            "{refusal}"
        );
        fs::write(&first.path, "{}").unwrap();
        let refusal = first.read().unwrap_err().to_string();
        assert!(refusal.contains("no checkpoint"), "{refusal}");
    }
}
