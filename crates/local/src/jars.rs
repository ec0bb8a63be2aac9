//! The jars of an HBase release, of the Thrift gateway and of the KDC, downloaded once with Maven.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    process::Command,
    time::{Instant, timeout_at},
};

use super::{
    HBaseVersion, Home, Progress, failure,
    java::{Java, on_path},
    layout::{create_folder, remove, storage},
    lock::FileLock,
};
use crate::{Error, Result};

/// The limit of a download.
const DOWNLOAD_TAKES: Duration = Duration::from_secs(600);

const POM: &str = include_str!("pom.xml");

const HBASE: &str = "org.apache.hbase";

/// An artifact with its runtime dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bundle {
    group: &'static str,
    artifact: &'static str,
    version: &'static str,
    megabytes: u32,
}

impl Bundle {
    /// The Thrift gateway, in the newest release whose artifacts resolve completely. Like HBase's
    /// clients, it serves clusters of all releases.
    pub(super) const THRIFT: Self = Self {
        group: HBASE,
        artifact: "hbase-thrift",
        version: "2.6.1",
        megabytes: 108,
    };

    /// Hadoop's `MiniKdc`: a KDC that keeps its principals in memory.
    pub(super) const KDC: Self = Self {
        group: "org.apache.hadoop",
        artifact: "hadoop-minikdc",
        version: "3.4.1",
        megabytes: 5,
    };

    /// HBase itself.
    pub(super) fn server(version: HBaseVersion) -> Self {
        Self {
            group: HBASE,
            artifact: "hbase-server",
            version: version.artifact(),
            megabytes: version.megabytes(),
        }
    }

    /// Returns the name of its folder.
    fn name(self) -> String {
        match self {
            Self::THRIFT => format!("thrift-{}", self.version),
            Self::KDC => format!("minikdc-{}", self.version),
            _ => self.version.to_owned(),
        }
    }
}

impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::THRIFT => write!(f, "HBase's Thrift gateway {}", self.version),
            Self::KDC => write!(f, "Hadoop's MiniKdc {}", self.version),
            _ => write!(f, "HBase {}", self.version),
        }
    }
}

/// Returns the folder with the jars of a bundle. Downloads them if they are missing.
///
/// A folder with its final name is complete: jars are copied to a temporary folder next to it,
/// which is renamed at the end. So an interrupted download is never mistaken for a complete one.
pub(super) async fn resolve(
    home: &Home,
    bundle: Bundle,
    java: &Java,
    progress: &Progress,
) -> Result<PathBuf> {
    let folder = folder_of(home, bundle);
    if folder.is_dir() {
        return Ok(folder);
    }
    let maven = on_path("mvn").ok_or_else(|| {
        failure(format!("no Maven: PATH has no mvn, and the jars of {bundle} are not there yet")).with_hint(
            "install Maven (Debian and Ubuntu: `apt-get install maven`, Fedora: `dnf install maven`); it is needed \
             once for each version",
        )
    })?;
    let deadline = Instant::now() + DOWNLOAD_TAKES;
    let parent = home.cache().join("jars");
    let lock = parent.join(format!(".{}.lock", bundle.name()));
    let _lock = FileLock::acquire(&lock, &format!("the jars of {bundle}"), deadline).await?;
    if folder.is_dir() {
        return Ok(folder);
    }
    remove_unfinished(&parent, bundle)?;
    progress(&format!(
        "downloading {bundle} with Maven, once (about {} MB)",
        bundle.megabytes
    ));
    let temporary = parent.join(format!("{}{}", unfinished(bundle), std::process::id()));
    create_folder(&temporary)?;
    let downloaded = download(&maven, java, bundle, &temporary, deadline).await;
    let moved = downloaded.and_then(|()| {
        fs::rename(temporary.join("lib"), &folder).map_err(|error| storage("can't create", &folder, error))
    });
    let cleaned = remove(&temporary);
    moved.and(cleaned)?;
    Ok(folder)
}

/// Returns the folder of a bundle's jars, which may not exist.
pub(super) fn folder_of(home: &Home, bundle: Bundle) -> PathBuf {
    home.cache().join("jars").join(bundle.name())
}

async fn download(maven: &Path, java: &Java, bundle: Bundle, folder: &Path, deadline: Instant) -> Result<()> {
    let pom = folder.join("pom.xml");
    fs::write(&pom, POM).map_err(|error| storage("can't write", &pom, error))?;
    let library = folder.join("lib");
    let mut command = Command::new(maven);
    command
        .current_dir(folder)
        // By default Maven only warns of a file whose checksum is wrong.
        .args(["-q", "-B", "--strict-checksums", "-Dstyle.color=never", "-f"])
        .arg(&pom)
        .arg(format!("-Dbundle.group={}", bundle.group))
        .arg(format!("-Dbundle.artifact={}", bundle.artifact))
        .arg(format!("-Dbundle.version={}", bundle.version))
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", library.display()))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    // Maven's script searches for Java itself, and could find another one, or none.
    if let Some(java_home) = java
        .program()
        .canonicalize()
        .ok()
        .as_deref()
        .and_then(|java| java.parent()?.parent())
    {
        command.env("JAVA_HOME", java_home);
    }
    let output = timeout_at(deadline, command.output())
        .await
        .map_err(|_| {
            failure(format!(
                "Maven did not finish within {} s",
                DOWNLOAD_TAKES.as_secs()
            ))
            .at_stage(format!("downloading {bundle}"))
            .with_hint(
                "look at the network and at Maven's settings.xml, and try again: what is complete is kept",
            )
        })?
        .map_err(|error| failure(format!("can't run {}", maven.display())).with_source(error))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        return Err(maven_failed(bundle, &String::from_utf8_lossy(&said)));
    }
    let jar = library.join(format!("{}-{}.jar", bundle.artifact, bundle.version));
    if !jar.is_file() {
        return Err(failure(format!("Maven ended well but left no {}", jar.display())));
    }
    Ok(())
}

fn maven_failed(bundle: Bundle, said: &str) -> Error {
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("ERROR") || line.contains("No space left"))
        .take(5)
        .collect();
    let lines = if lines.is_empty() {
        said.lines().take(5).collect()
    } else {
        lines
    };
    let error = failure(format!(
        "Maven can't resolve {bundle}; it says:\n  {}\n",
        lines.join("\n  ")
    ))
    .at_stage(format!("downloading {bundle}"));
    if said.contains("No space left") {
        error.with_hint("free some disk space, or set XDG_CACHE_HOME to a folder on another disk")
    } else {
        error.with_hint(
            "try `mvn -version`, and look at the network, the proxy and the mirrors in Maven's settings.xml",
        )
    }
}

fn unfinished(bundle: Bundle) -> String {
    format!(".{}.unfinished-", bundle.name())
}

/// Removes the leftovers of interrupted downloads. The lock is held, so no download is in progress.
fn remove_unfinished(parent: &Path, bundle: Bundle) -> Result<()> {
    let entries = fs::read_dir(parent).map_err(|error| storage("can't read", parent, error))?;
    for entry in entries.flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(&unfinished(bundle))
        {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mavens_own_words_are_shown_with_what_to_do() {
        let said =
            "[INFO] x\n[ERROR] Could not transfer artifact a:b:jar:1: No space left on device\n[ERROR] \n";
        let error = maven_failed(Bundle::server(HBaseVersion::V2_6), said);
        assert!(error.to_string().contains("Could not transfer artifact"));
        assert!(error.hint().unwrap().contains("disk space"));
        let error = maven_failed(Bundle::server(HBaseVersion::V2_6), "[ERROR] Unknown host");
        assert!(error.hint().unwrap().contains("settings.xml"));
    }

    #[test]
    fn only_unfinished_downloads_of_the_same_version_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let names = [".2.4.18.unfinished-7", ".2.5.13-hadoop3.unfinished-7", "2.4.18"];
        for name in names {
            fs::create_dir_all(folder.path().join(name).join("lib")).unwrap();
        }
        remove_unfinished(folder.path(), Bundle::server(HBaseVersion::V2_4)).unwrap();
        assert_eq!(
            names.map(|name| folder.path().join(name).exists()),
            [false, true, true]
        );
    }
}
