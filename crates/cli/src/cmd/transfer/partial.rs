//! An export that is not complete: `FILE.partial`, and the checkpoint beside it.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{
    file_lock::{FileLock, beside},
    part::Part,
};
use crate::{cmd::whole_file::folder, exit::Failure, output};

/// The maximum size of a checkpoint.
const MAX_SIZE: u64 = 1 << 30;

/// How far an export is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// The table and the options that determine the rows and their form.
    pub(super) request: String,
    /// The size of the file with these rows.
    pub(super) size: u64,
    pub(super) rows: u64,
    /// The number of cells that are exported without their access rules.
    pub(super) without_access_rules: u64,
    /// `None` for parts that are complete. Empty before the first row.
    pub(super) parts: Vec<Option<Part>>,
}

/// The file of an export that is not complete. It replaces the target at the end.
#[derive(Debug)]
pub(super) struct Partial {
    target: PathBuf,
    path: PathBuf,
    checkpoint: PathBuf,
    file: File,
    _lock: FileLock,
}

impl Partial {
    /// Opens the file of an earlier export of this request that has stopped, or creates one.
    pub(super) fn open(target: &Path, request: String, is_resumed: bool) -> Result<(Self, State), Failure> {
        let path = beside(target, "partial");
        let checkpoint = beside(&path, "checkpoint");
        let lock = FileLock::acquire(&path, "")?;
        let state = match read(&checkpoint)? {
            Some(state) => check(state, &request, target, &checkpoint, is_resumed)?,
            None => State {
                request,
                ..State::default()
            },
        };
        let open = || {
            if state.parts.is_empty() {
                create(target, &path)
            } else {
                reopen(&path, state.size)
            }
        };
        let file = open().map_err(|error| failed("writing", &path, &error))?;
        let partial = Self {
            target: target.to_owned(),
            path,
            checkpoint,
            file,
            _lock: lock,
        };
        Ok((partial, state))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a handle for writing.
    pub(super) fn writer(&self) -> Result<File, Failure> {
        let file = self.file.try_clone();
        file.map_err(|error| failed("writing", &self.path, &error))
    }

    /// Records how far the export is. All its rows must have been written to the file.
    pub(super) fn write_checkpoint(&self, state: &mut State) -> Result<(), Failure> {
        let written = self.file.sync_data().and_then(|()| {
            state.size = self.file.metadata()?.len();
            // Row keys are for the readers of the export alone: a temporary file has no other readers.
            let mut temporary = NamedTempFile::new_in(folder(&self.checkpoint))?;
            temporary.write_all(serde_json::to_string(&state)?.as_bytes())?;
            temporary.as_file().sync_data()?;
            Ok(temporary.persist(&self.checkpoint)?)
        });
        written
            .map(drop)
            .map_err(|error| failed("writing", &self.checkpoint, &error))
    }

    pub(super) fn has_checkpoint(&self) -> bool {
        self.checkpoint.exists()
    }

    /// Replaces the target by the file.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let replaced = self.file.sync_data();
        let replaced = replaced.and_then(|()| fs::rename(&self.path, &self.target));
        replaced.map_err(|error| failed("writing", &self.target, &error))?;
        remove(&self.checkpoint)
    }

    /// Removes the file and its checkpoint.
    pub(super) fn discard(self) -> Result<(), Failure> {
        remove(&self.checkpoint)?;
        remove(&self.path)
    }
}

/// Checks that this is how far the same export is.
fn check(
    state: State,
    request: &str,
    target: &Path,
    checkpoint: &Path,
    is_resumed: bool,
) -> Result<State, Failure> {
    let hint = format!("delete {} to export from the beginning", checkpoint.display());
    let (target, rows) = (target.display(), state.rows);
    if !is_resumed {
        return Err(Failure::Refused(format!(
            "an export to {target} has stopped after {rows} rows; add --resume to continue there, or {hint}"
        )));
    }
    if state.request != request {
        return Err(Failure::Refused(format!(
            "the export to {target} that has stopped is of another table or has other options; repeat its command, or {hint}"
        )));
    }
    Ok(state)
}

fn read(path: &Path) -> Result<Option<State>, Failure> {
    let mut text = Vec::new();
    match File::open(path).and_then(|file| file.take(MAX_SIZE).read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("reading", path, &error)),
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        Failure::Refused(format!(
            "reading {}: this is no checkpoint of an export: {error}; delete it to export from the beginning",
            path.display()
        ))
    })
}

/// Creates the file, for the readers of the target if there is one.
fn create(target: &Path, path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    options.append(true).create_new(true);
    let Ok(found) = fs::metadata(target) else {
        return options.open(path);
    };
    let file = NamedTempFile::new_in(folder(path))?.persist_noclobber(path)?;
    // Set on the file, because the umask would restrict those of its creation.
    file.set_permissions(Permissions::from_mode(found.permissions().mode() & 0o777))?;
    drop(file);
    File::options().append(true).open(path)
}

/// Opens the file, and removes what was written behind its checkpoint.
fn reopen(path: &Path, size: u64) -> io::Result<File> {
    let file = File::options().append(true).open(path)?;
    let found = file.metadata()?.len();
    if found < size {
        let why = format!(
            "it has {found} bytes, and had {size}; delete its checkpoint to export from the beginning"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    file.set_len(size)?;
    Ok(file)
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("removing", path, &error)),
        _ => Ok(()),
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("{what} {}: {}", path.display(), output::plain(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_continues_behind_its_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("rows.json");
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o600)).unwrap();
        let open = |request: &str, is_resumed| Partial::open(&target, request.to_owned(), is_resumed);
        let (partial, mut state) = open("orders", true).unwrap();
        let mut file = partial.writer().unwrap();
        file.write_all(b"a\n").unwrap();
        (state.rows, state.parts) = (1, Part::between([]).into_iter().map(Some).collect());
        partial.write_checkpoint(&mut state).unwrap();
        file.write_all(b"b\n").unwrap();
        let refusal = open("orders", true).unwrap_err().to_string();
        assert!(refusal.contains("is writing"), "{refusal}");
        drop(partial);
        for (request, is_resumed, why) in [
            ("orders", false, "has stopped after 1 rows; add --resume"),
            ("visitors", true, "of another table or has other options"),
        ] {
            let refusal = open(request, is_resumed).unwrap_err().to_string();
            assert!(refusal.contains(why), "{refusal}");
        }
        let (partial, read) = open("orders", true).unwrap();
        assert_eq!(read, state);
        for path in [&partial.path, &partial.checkpoint] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        partial.writer().unwrap().write_all(b"c\n").unwrap();
        partial.finish().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "a\nc\n");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn file_that_lost_its_end_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("rows.json");
        let (partial, mut state) = Partial::open(&target, String::new(), false).unwrap();
        partial.writer().unwrap().write_all(b"a\n").unwrap();
        state.parts = vec![None];
        partial.write_checkpoint(&mut state).unwrap();
        partial.file.set_len(1).unwrap();
        drop(partial);
        let refusal = Partial::open(&target, String::new(), true)
            .unwrap_err()
            .to_string();
        assert!(refusal.contains("it has 1 bytes, and had 2"), "{refusal}");
    }
}
