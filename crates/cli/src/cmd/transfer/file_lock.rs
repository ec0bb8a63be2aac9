//! Locks of the files that an import or an export writes, so that no other process writes them at the
//! same time.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process,
};

use super::rejects::real;
use crate::{exit::Failure, output};

/// A held lock of a file: an exclusive lock of `FILE.lock` beside it, which contains the id of this process.
///
/// The kernel releases the lock when the process ends for any reason. A file that is left then is locked
/// again by the next process.
#[derive(Debug)]
pub(super) struct FileLock {
    path: PathBuf,
    /// Locked as long as it is open.
    _file: File,
}

impl FileLock {
    /// Locks a file, which need not exist. The hint follows the advice to wait for another holder.
    pub(super) fn acquire(locked: &Path, hint: &str) -> Result<Self, Failure> {
        let in_context = |error: io::Error| {
            Failure::Refused(format!("locking {}: {}", locked.display(), output::plain(&error)))
        };
        let path = beside(&real(locked).map_err(in_context)?, "lock");
        loop {
            let file = File::options()
                .read(true)
                .append(true)
                .create(true)
                .open(&path)
                .map_err(in_context)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(held(locked, &file, hint)),
                Err(TryLockError::Error(error)) => return Err(in_context(error)),
            }
            // The previous holder may have removed the file. A lock of a removed file excludes no other
            // process.
            if !is_same(&path, &file).map_err(in_context)? {
                continue;
            }
            let named = file.set_len(0).and_then(|()| write!(&file, "{}", process::id()));
            named.map_err(in_context)?;
            return Ok(Self { path, _file: file });
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Removed while it is locked, so that no other process holds it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the path with an extension behind its own.
pub(super) fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn is_same(path: &Path, file: &File) -> io::Result<bool> {
    let held = file.metadata()?;
    Ok(fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())))
}

fn held(locked: &Path, file: &File, hint: &str) -> Failure {
    let mut text = String::new();
    let read = file.take(20).read_to_string(&mut text);
    let holder = match (read, text.parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        _ => "another process".to_owned(),
    };
    Failure::Refused(format!(
        "{holder} is writing {}; wait for it{hint}",
        locked.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_locked_once_and_the_holder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.rejects");
        let first = FileLock::acquire(&path, "").unwrap();
        let spelt_otherwise = folder.path().join(".").join("rows.rejects");
        let refusal = FileLock::acquire(&spelt_otherwise, ", or not")
            .unwrap_err()
            .to_string();
        let holder = format!("process {} is writing", process::id());
        assert!(
            refusal.starts_with(&holder) && refusal.ends_with("wait for it, or not"),
            "{refusal}"
        );
        drop(first);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        // A process that was killed leaves the file.
        fs::write(folder.path().join("rows.rejects.lock"), "4711").unwrap();
        let lock = FileLock::acquire(&path, "").unwrap();
        let text = fs::read_to_string(&lock.path).unwrap();
        assert_eq!(text, process::id().to_string());
    }

    #[test]
    fn lock_of_a_removed_file_excludes_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.rejects");
        let old = FileLock::acquire(&path, "").unwrap();
        fs::remove_file(&old.path).unwrap();
        let new = FileLock::acquire(&path, "").unwrap();
        assert!(new.path.exists());
    }
}
