//! The Java installation on this machine.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use super::failure;
use crate::{Error, Result};

/// The limit of `java -version`, sufficient even if the machine swaps.
const VERSION_TAKES: Duration = Duration::from_secs(30);

/// The limit of one call of `keytool`.
const KEYTOOL_TAKES: Duration = Duration::from_secs(60);

const INSTALL: &str = "install a Java 17 (Debian and Ubuntu: `apt-get install openjdk-17-jdk-headless`, Fedora: \
                       `dnf install java-17-openjdk-headless`), or set JAVA_HOME to one";

/// A Java installation that HBase supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Java {
    program: PathBuf,
    major: u32,
}

impl Java {
    /// Finds the Java in `JAVA_HOME`, or otherwise in `PATH`.
    pub(super) async fn find() -> Result<Self> {
        let program = locate(env::var_os("JAVA_HOME").map(PathBuf::from))?;
        let major = version_of(&program).await?;
        if !is_supported(major) {
            return Err(
                failure(format!("HBase can't run on Java {major} ({})", program.display()))
                    .with_hint(format!("Java 8, 11 and 17 to 23 will do: {INSTALL}")),
            );
        }
        Ok(Self { program, major })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Runs this Java's `keytool` in a folder, and returns its output.
    pub(super) async fn keytool(&self, folder: &Path, arguments: &[&str]) -> Result<String> {
        let program = self.program.with_file_name("keytool");
        let failed = |why: &str| failure(format!("{} {why}", program.display()));
        let run = Command::new(&program)
            .args(["-J-XX:TieredStopAtLevel=1", "-J-XX:-UsePerfData"])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(KEYTOOL_TAKES, run)
            .await
            .map_err(|_| failed("does not end"))?
            .map_err(|error| failed("can't be run").with_source(error))?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            // It prints its errors to stdout.
            let (status, printed) = (output.status, text(&output.stdout));
            Err(failed(&format!("ended with {status} and printed {printed:?}")))
        }
    }

    /// Returns the options that HBase and Hadoop need on this Java.
    pub(super) fn options(&self) -> Vec<&'static str> {
        let mut options = Vec::new();
        if self.major >= 9 {
            // Hadoop and Netty access these packages by reflection, which Java 16 and later forbid
            // by default.
            options.extend([
                "--add-opens=java.base/java.io=ALL-UNNAMED",
                "--add-opens=java.base/java.lang=ALL-UNNAMED",
                "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
                "--add-opens=java.base/java.net=ALL-UNNAMED",
                "--add-opens=java.base/java.nio=ALL-UNNAMED",
                "--add-opens=java.base/java.util=ALL-UNNAMED",
                "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
                "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
                "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
            ]);
        }
        if self.major >= 18 {
            // Hadoop determines its user through the security manager.
            options.push("-Djava.security.manager=allow");
        }
        options
    }
}

fn is_supported(major: u32) -> bool {
    // 9, 10 and 12 to 16 are out of support. 24 and later have no security manager, which Hadoop
    // needs.
    matches!(major, 8 | 11 | 17..=23)
}

fn locate(java_home: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(home) = java_home.filter(|home| !home.as_os_str().is_empty()) {
        let program = home.join("bin/java");
        if program.is_file() {
            return Ok(program);
        }
        return Err(failure(format!(
            "JAVA_HOME is {}, but there is no bin/java in it",
            home.display()
        ))
        .with_hint(format!(
            "unset or correct JAVA_HOME; if there is no Java, {INSTALL}"
        )));
    }
    on_path("java")
        .ok_or_else(|| failure("no Java: JAVA_HOME is not set, and PATH has no java").with_hint(INSTALL))
}

/// Finds a program on `PATH`.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

async fn version_of(program: &Path) -> Result<u32> {
    let failed = |what: &str| failure(format!("{} -version {what}", program.display())).with_hint(INSTALL);
    let run = Command::new(program)
        .args(["-XX:-UsePerfData", "-version"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(VERSION_TAKES, run)
        .await
        .map_err(|_| failed("does not answer"))?
        .map_err(|error: io::Error| failed("can't be run").with_source(error))?;
    let text = String::from_utf8_lossy(&output.stderr);
    major_in(&text).ok_or_else(|| -> Error {
        let first = text.lines().next().unwrap_or_default();
        failed(&format!("ended with {} and says {first:?}", output.status))
    })
}

/// Finds the major version in the output of `java -version`: 8 in `version "1.8.0_392"`, 17 in
/// `version "17.0.15"`.
fn major_in(text: &str) -> Option<u32> {
    let quoted = text
        .lines()
        .find_map(|line| line.split_once("version \""))
        .map(|(_, rest)| rest)?;
    let mut numbers = quoted.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime", Some(17))]
    #[case("java version \"1.8.0_392\"", Some(8))]
    #[case("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"11.0.22\"", Some(11))]
    #[case("openjdk version \"25\" 2025-09-16", Some(25))]
    #[case("Error: could not find libjava.so", None)]
    #[case("", None)]
    fn reads_the_version(#[case] text: &str, #[case] major: Option<u32>) {
        assert_eq!(major_in(text), major);
    }

    #[rstest]
    #[case(7, false)]
    #[case(8, true)]
    #[case(11, true)]
    #[case(17, true)]
    #[case(21, true)]
    #[case(24, false)]
    fn knows_what_hbase_runs_on(#[case] major: u32, #[case] supported: bool) {
        assert_eq!(is_supported(major), supported);
    }

    #[test]
    fn a_wrong_java_home_is_named() {
        let error = locate(Some("/nowhere".into())).unwrap_err();
        assert!(error.to_string().contains("/nowhere") && error.hint().unwrap().contains("JAVA_HOME"));
    }

    #[test]
    fn java_8_knows_no_modules() {
        let java = |major| Java {
            program: "java".into(),
            major,
        };
        assert!(java(8).options().is_empty());
        assert!(
            java(17)
                .options()
                .iter()
                .all(|option| option.starts_with("--add-opens"))
        );
    }
}
