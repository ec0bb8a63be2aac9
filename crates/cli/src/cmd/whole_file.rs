//! Atomic writes of files.

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::{Builder, NamedTempFile};

use crate::{exit::Failure, output};

/// Refuses an impossible path before the long work starts.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| Err(refused(path, why));
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return refuse("this is no file"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return refuse(&output::plain(&error)),
    }
    match path.file_name() {
        Some(_) if folder(path).is_dir() => Ok(()),
        Some(_) => refuse("there is no such folder"),
        None => refuse("this is no file"),
    }
}

/// Replaces a file atomically: a reader sees the old text or the new one, also after a crash. The file
/// keeps its permissions.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = NewFile::create(path)?;
    let written = file.temporary.write_all(text.as_bytes());
    written.map_err(|error| refused(path, &output::plain(&error)))?;
    file.replace()
}

/// The new contents of a file, in a temporary file beside it. Dropping it removes the temporary file.
#[derive(Debug)]
pub(super) struct NewFile {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl NewFile {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let created = match fs::metadata(path) {
            // The new contents are for the same readers. The permissions are set on the file, because the
            // umask would restrict those of its creation.
            Ok(found) => NamedTempFile::new_in(folder(path)).and_then(|temporary| {
                let mode = found.permissions().mode() & 0o777;
                temporary
                    .as_file()
                    .set_permissions(Permissions::from_mode(mode))?;
                Ok(temporary)
            }),
            // The permissions of an ordinary new file; temporary files are more restricted by default.
            Err(_) => Builder::new()
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(folder(path)),
        };
        Ok(Self {
            temporary: created.map_err(|error| refused(path, &output::plain(&error)))?,
            path: path.to_owned(),
        })
    }

    /// Replaces the file by these contents.
    pub(super) fn replace(self) -> Result<(), Failure> {
        let Self { path, temporary } = self;
        let synced = temporary.as_file().sync_data();
        let replaced = synced.and_then(|()| Ok(temporary.persist(&path)?));
        replaced
            .map(drop)
            .map_err(|error| refused(&path, &output::plain(&error)))
    }
}

pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::Refused(format!("writing {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        for text in ["old", "new"] {
            check(&path).unwrap();
            write(&path, text).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let usual = folder.path().join("usual");
        fs::write(&usual, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&usual));
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export.json");
        for mode in [0o600, 0o640, 0o666] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let file = NewFile::create(&path).unwrap();
            // Also before it is complete.
            for file in [file.temporary.path(), &path] {
                let found = fs::metadata(file).unwrap().permissions().mode();
                assert_eq!(found & 0o777, mode, "{}", file.display());
            }
            file.replace().unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn unwritable_paths_are_refused_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        for (path, why) in [
            (folder.path().to_owned(), "no file"),
            (folder.path().join("no/page.html"), "no such folder"),
            ("/dev/null".into(), "no file"),
        ] {
            let refusal = check(&path).unwrap_err().to_string();
            assert!(
                refusal.contains(why) && refusal.contains(path.to_str().unwrap()),
                "{refusal}"
            );
        }
    }
}
