//! File locks, so that only one command at a time changes a cluster or the jars of a version.

use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use tokio::time::Instant;

use super::{
    failure,
    layout::{create_folder, storage},
    wait,
};
use crate::Result;

/// A held file lock. The kernel releases it when its holder ends for any reason.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock until the deadline.
    pub(super) async fn acquire(path: &Path, what: &str, deadline: Instant) -> Result<Self> {
        wait::try_until(deadline, || Self::try_acquire(path))
            .await?
            .ok_or_else(|| {
                failure(format!("another command still works on {what}"))
                    .at_stage("waiting for the lock")
                    .with_hint(format!(
                        "wait for it and try again, or give more time with --timeout; it holds {}",
                        path.display()
                    ))
            })
    }

    /// Acquires the lock if it is free.
    pub(super) fn try_acquire(path: &Path) -> Result<Option<Self>> {
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        let failed = |error| storage("can't lock", path, error);
        let file = match File::options().create(true).append(true).open(path) {
            // The folder was deleted in the meantime; the caller tries again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // The previous holder may have deleted the file with its folder. A lock on a deleted file
        // excludes no other process.
        let held = file.metadata().map_err(failed)?;
        let same =
            std::fs::metadata(path).is_ok_and(|named| named.ino() == held.ino() && named.dev() == held.dev());
        Ok(same.then_some(Self { _file: file }))
    }

    /// Whether the lock is currently held.
    pub(super) fn is_held(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_second_waits_for_the_first_but_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = FileLock::try_acquire(&path).unwrap().unwrap();
        assert!(FileLock::is_held(&path));
        let deadline = Instant::now() + Duration::from_millis(100);
        let error = FileLock::acquire(&path, "cluster x", deadline).await.unwrap_err();
        assert!(error.to_string().contains("cluster x"), "{error}");
        drop(first);
        // A process that another test starts has the file until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(10);
        assert!(wait::until(deadline, || !FileLock::is_held(&path)).await);
        FileLock::acquire(&path, "cluster x", deadline).await.unwrap();
    }

    #[test]
    fn a_deleted_lock_file_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let old = FileLock::try_acquire(&path).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        let new = FileLock::try_acquire(&path).unwrap();
        assert!(new.is_some());
        drop(old);
        assert!(FileLock::is_held(&path));
    }
}
