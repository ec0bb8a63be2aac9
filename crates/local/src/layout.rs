//! The folders and files of a local cluster.

use std::{
    env, fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use super::failure;
use crate::{Error, Result};

/// The folders of all local clusters: state (data, logs, pids) and cache (jars).
///
/// # Example
///
/// ```
/// use hbase_local::Home;
///
/// let home = Home::new("/var/lib/me/state", "/var/lib/me/cache");
/// assert!(home.state().ends_with("state"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    state: PathBuf,
    cache: PathBuf,
}

impl Home {
    /// Creates a home with clusters in `state/dev/NAME` and jars in `cache/jars/VERSION`.
    pub fn new(state: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            cache: cache.into(),
        }
    }

    /// Creates the home of the user: `$XDG_STATE_HOME/hbase-txn` (or `~/.local/state/hbase-txn`)
    /// and `$XDG_CACHE_HOME/hbase-txn` (or `~/.cache/hbase-txn`).
    ///
    /// # Errors
    ///
    /// Returns an error if one of the variables is not set and `HOME` is not set either.
    pub fn from_env() -> Result<Self> {
        Ok(Self {
            state: base("XDG_STATE_HOME", ".local/state")?.join("hbase-txn"),
            cache: base("XDG_CACHE_HOME", ".cache")?.join("hbase-txn"),
        })
    }

    /// Returns the folder for the state of clusters.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the folder for downloads.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.cache
    }
}

/// The folders and files of one cluster.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Creates the layout of a cluster. Its name becomes a folder name and a part of command lines,
    /// so only plain characters are allowed.
    pub(super) fn new(home: &Home, name: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || name.starts_with(['.', '-']) {
            return Err(
                Error::invalid(format!("'{name}' is no name for a local cluster")).with_hint(
                    "take up to 64 of a-z, A-Z, 0-9, '-', '_' and '.', with neither '.' nor '-' in front",
                ),
            );
        }
        let root = home.state.join("dev").join(name);
        // Java splits class paths at ':' and expands '*'. HDFS splits lists of folders at ',' and
        // interprets them as URIs, but not consistently.
        for path in [&root, &home.cache] {
            if path
                .to_str()
                .is_none_or(|text| text.contains(|c: char| c.is_whitespace() || ":,*%".contains(c)))
            {
                return Err(failure(format!(
                    "HBase can't live in a folder of this name: {}",
                    path.display()
                ))
                .with_hint(
                    "set XDG_STATE_HOME and XDG_CACHE_HOME to folders without blanks, ':', ',', '*' and '%'",
                ));
            }
        }
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub(super) fn conf(&self) -> PathBuf {
        self.root.join("conf")
    }

    /// The configuration for clients, if they need more than the address.
    pub(super) fn client_conf(&self) -> PathBuf {
        self.root.join("client-conf")
    }

    pub(super) fn pids(&self) -> PathBuf {
        self.root.join("pids")
    }

    /// The folder of the stores for TLS.
    pub(super) fn tls(&self) -> PathBuf {
        self.root.join("tls")
    }

    /// The folder of the KDC: its configuration and that of its clients, and the keys.
    pub(super) fn kerberos(&self) -> PathBuf {
        self.root.join("kerberos")
    }

    /// The folder for files that Java, Netty and Hadoop would put into `/tmp`.
    pub(super) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(super) fn state_file(&self) -> PathBuf {
        self.root.join("state.json")
    }

    pub(super) fn lock_file(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// The file with the identity that is on the command line of every process of this cluster.
    pub(super) fn id_file(&self) -> PathBuf {
        self.root.join("id")
    }

    /// Refuses the cluster of another user: its processes are not visible as such, so it would seem to
    /// be stopped.
    pub(super) fn check_owner(&self) -> Result<()> {
        match fs::metadata(&self.root) {
            Ok(found) if found.uid() != geteuid().as_raw() => Err(failure(format!(
                "{} belongs to another user (uid {})",
                self.root.display(),
                found.uid()
            ))
            .with_hint("run the command as that user, or choose another folder with XDG_STATE_HOME")),
            _ => Ok(()),
        }
    }

    pub(super) fn create(&self) -> Result<()> {
        // Keys of servers and users are among the files. Private before anything is in it, because a
        // folder that is open stays open.
        create_folder(&self.root)?;
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&self.root, private)
            .map_err(|error| storage("can't make private", &self.root, error))?;
        for folder in [
            self.data(),
            self.logs(),
            self.conf(),
            self.pids(),
            self.temporary(),
        ] {
            create_folder(&folder)?;
        }
        Ok(())
    }
}

/// Creates a folder and its parents.
pub(super) fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| storage("can't create", folder, error))
}

/// Writes a file atomically: a reader sees the old text or the new one.
pub(super) fn write_atomically(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("new");
    fs::write(&temporary, text)
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|error| storage("can't write", path, error))
}

/// Reads a file, or returns `None` if it does not exist.
pub(super) fn read_if_present(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(storage("can't read", path, error)),
    }
}

/// Removes a file, or a folder with its contents, if it exists.
pub(super) fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(storage("can't remove", path, error)),
        _ => Ok(()),
    }
}

/// Returns the error for an unusable file or folder, with a hint for the usual reasons.
pub(super) fn storage(what: &str, path: &Path, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some disk space, or set XDG_STATE_HOME and XDG_CACHE_HOME to folders on another disk")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("set XDG_STATE_HOME and XDG_CACHE_HOME to folders that you may write")
        }
        _ => None,
    };
    let failed = failure(format!("{what} {}", path.display())).with_source(error);
    match hint {
        Some(hint) => failed.with_hint(hint),
        None => failed,
    }
}

/// Returns a base folder of the XDG specification, which ignores relative paths in the variables.
fn base(variable: &str, under_home: &str) -> Result<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(under_home)))
        .ok_or_else(|| {
            failure(format!("neither {variable} nor HOME names a folder"))
                .with_hint(format!("set {variable} to an absolute path"))
        })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("default", true)]
    #[case("ci-3.0_b", true)]
    #[case("", false)]
    #[case("..", false)]
    #[case("a/b", false)]
    #[case("-x", false)]
    #[case("a b", false)]
    #[case("ä", false)]
    fn names_stay_inside_their_folder(#[case] name: &str, #[case] fine: bool) {
        let home = Home::new("/state", "/cache");
        assert_eq!(Layout::new(&home, name).is_ok(), fine);
    }

    #[rstest]
    #[case("/a:b")]
    #[case("/a b")]
    #[case("/a%20b")]
    fn folders_that_java_would_misread_are_refused(#[case] state: &str) {
        let error = Layout::new(&Home::new(state, "/cache"), "x").unwrap_err();
        assert!(error.hint().unwrap().contains("XDG_STATE_HOME"));
    }

    #[test]
    fn a_cluster_is_private_to_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&Home::new(folder.path(), folder.path()), "x").unwrap();
        layout.check_owner().unwrap();
        create_folder(layout.root()).unwrap();
        layout.create().unwrap();
        let root = fs::metadata(layout.root()).unwrap();
        assert_eq!(root.permissions().mode() & 0o777, 0o700);
        layout.check_owner().unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(layout.root(), Some(65534), None).unwrap();
            let error = layout.check_owner().unwrap_err();
            assert!(error.to_string().contains("another user"), "{error}");
        }
    }

    #[test]
    fn a_full_disk_is_named_with_what_to_do() {
        let error = storage("can't write", Path::new("/x"), io::ErrorKind::StorageFull.into());
        assert!(error.to_string().contains("/x") && error.hint().unwrap().contains("disk space"));
    }
}
