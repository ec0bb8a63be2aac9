//! Causes of a server's death, from its log, and their fixes.

use std::{fs, path::Path, time::Duration};

use super::{failure, layout::Layout, logs::end_of, role::Role, state::State};
use crate::Error;

/// The maximum number of log lines in an error.
const SHOWN: usize = 8;

/// The maximum length of such a line. Classes and addresses are at its beginning.
const WIDTH: usize = 300;

/// Servers of HBase log it with the reason, before they end themselves.
const ABORTING: &str = "***** ABORTING ";

/// The result of searching a log for the reason why a server ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Diagnosis {
    pub(super) cause: Cause,
    lines: Vec<String>,
}

/// Causes that require an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    PortTaken,
    DiskFull,
    NoMemory,
    NoPermission,
    WrongJava,
    DamagedData,
    Unknown,
}

impl Diagnosis {
    pub(super) fn of_log(log: &Path) -> Self {
        Self::of(&String::from_utf8_lossy(&fs::read(log).unwrap_or_default()))
    }

    pub(super) fn of(log: &str) -> Self {
        let mut diagnosis = Self::of_complaints(log);
        if diagnosis.lines.is_empty() {
            // Without errors in the log, its last lines are the only information.
            let last = log.lines().rev().filter(|line| !line.trim().is_empty()).take(3);
            diagnosis.lines = last.map(shortened).collect();
            diagnosis.lines.reverse();
        }
        diagnosis
    }

    /// Searches the log for errors.
    fn of_complaints(log: &str) -> Self {
        let complaints: Vec<&str> = log.lines().filter(|line| is_complaint(line)).collect();
        // A known cause may be in any line, even in a warning.
        let (cause, named) = Cause::KNOWN
            .into_iter()
            .find_map(|(cause, signs)| {
                let line = log
                    .lines()
                    .find(|line| signs.iter().any(|sign| line.contains(sign)))?;
                Some((cause, Some(line)))
            })
            .unwrap_or((Cause::Unknown, None));
        let mut shown: Vec<String> = Vec::new();
        for line in named.into_iter().chain(complaints) {
            let line = shortened(line);
            if !shown.contains(&line) {
                shown.push(line);
            }
        }
        shown.truncate(SHOWN);
        Self { cause, lines: shown }
    }

    /// Converts it to the error of a server, with the relevant lines of its log.
    pub(super) fn into_error(self, what: &str, log: &Path) -> Error {
        let mut text = what.to_owned();
        if self.lines.is_empty() {
            text.push_str(", and its log is empty");
        } else {
            text.push_str("; its log has:\n  ");
            text.push_str(&self.lines.join("\n  "));
            text.push('\n');
        }
        let hint = match self.cause {
            Cause::Unknown => format!("the whole log is {}", log.display()),
            cause => format!("{}; the whole log is {}", cause.hint(), log.display()),
        };
        failure(text).with_hint(hint)
    }
}

impl Cause {
    /// The causes and their patterns in a log, the most specific first.
    const KNOWN: [(Self, &[&str]); 6] = [
        (
            Self::DiskFull,
            &["No space left on device", "Disk quota exceeded"],
        ),
        (
            Self::PortTaken,
            &["Address already in use", "Port in use:", "BindException"],
        ),
        (
            Self::NoMemory,
            &[
                "OutOfMemoryError",
                "Could not reserve enough space",
                "insufficient memory for the Java Runtime",
                "Cannot allocate memory",
                "unable to create native thread",
            ],
        ),
        (
            Self::WrongJava,
            &[
                "UnsupportedClassVersionError",
                "Unrecognized option:",
                "Unrecognized VM option",
                "Could not create the Java Virtual Machine",
            ],
        ),
        (
            Self::NoPermission,
            &[
                "(Permission denied)",
                "AccessDeniedException",
                "Read-only file system",
            ],
        ),
        (
            Self::DamagedData,
            &[
                "InconsistentFSStateException",
                "Incompatible clusterIDs",
                "FileSystemVersionException",
                "CorruptHFileException",
                "NameNode is not formatted",
            ],
        ),
    ];

    fn hint(self) -> &'static str {
        match self {
            Self::PortTaken => {
                "another process took the port; `ss -ltnp` shows it, and the next start uses other ports"
            }
            Self::DiskFull => {
                "free some disk space, or set XDG_STATE_HOME to a folder on another disk, then start it again"
            }
            Self::NoMemory => {
                "free some memory: standalone needs about 500 MB, and each region server as much"
            }
            Self::NoPermission => "a file belongs to another user: was it started as another user before?",
            Self::WrongJava => "set JAVA_HOME to a Java 17 or 11",
            Self::DamagedData => "its data can't be used any more; delete the cluster",
            Self::Unknown => "",
        }
    }
}

/// Returns the error of a process that ended unexpectedly.
pub(super) fn died(layout: &Layout, role: Role) -> (Cause, Error) {
    let log = log_of(layout, role);
    let diagnosis = Diagnosis::of_log(&log);
    let cause = diagnosis.cause;
    (
        cause,
        diagnosis.into_error(&format!("the {role} process ended while HBase started"), &log),
    )
}

/// Returns the error of a boot that did not finish in time.
pub(super) fn late(log: &Path, what: &str, timeout: Duration) -> Error {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let diagnosis = Diagnosis::of_complaints(&text);
    let what = format!("{what} within {timeout:?}; allow more time");
    if diagnosis.lines.is_empty() {
        // The process is still working, so its last lines do not show a cause.
        return failure(format!("{what}; its log has no errors"))
            .with_hint(format!("the whole log is {}", log.display()));
    }
    diagnosis.into_error(&what, log)
}

/// Returns a sentence about a process that has ended, with the last fatal line of its log.
pub(super) fn why_ended(layout: &Layout, role: Role) -> String {
    match end_of(&log_of(layout, role)).as_deref().map(last_fatal) {
        Ok(Some(line)) => format!("{role} has ended: {line}"),
        Ok(None) => format!("{role} has ended, without an error in its log"),
        Err(error) => format!("{role} has ended: {error}"),
    }
}

/// Returns the line with which a server began to abort, if its process lives but does not answer.
pub(super) fn why_unresponsive(layout: &Layout, state: &State) -> Option<String> {
    let aborting = |role: &Role| {
        let log = end_of(&log_of(layout, *role)).ok()?;
        let line = log.lines().rfind(|line| line.contains(ABORTING))?;
        Some(format!("{role}: {}", shortened(line)))
    };
    state.roles().iter().find_map(aborting)
}

/// Returns the last line with which a server began to abort, or else its last error. Exceptions alone
/// have no time, and may be of a call long ago.
fn last_fatal(log: &str) -> Option<String> {
    let is_error = |line: &&str| {
        matches!(line.split_whitespace().nth(2), Some("ERROR" | "FATAL"))
            || line.contains("OutOfMemoryError")
            || line.starts_with("Exception in thread")
    };
    let line = log.lines().rfind(|line| line.contains(ABORTING));
    line.or_else(|| log.lines().rfind(is_error)).map(shortened)
}

pub(super) fn log_of(layout: &Layout, role: Role) -> std::path::PathBuf {
    layout.logs().join(format!("{role}.log"))
}

/// Whether a line is relevant for finding the cause.
fn is_complaint(line: &str) -> bool {
    // The format of our log4j.properties is date, time, level. Other lines come from the JVM.
    let level = line.split_whitespace().nth(2);
    if line.starts_with("20") && matches!(level, Some("INFO" | "WARN" | "DEBUG")) {
        return false;
    }
    matches!(level, Some("ERROR" | "FATAL"))
        || line.starts_with("Caused by:")
        || line.starts_with("Error:")
        || line.starts_with("Exception in thread")
        || (!line.starts_with(char::is_whitespace)
            && line.split([':', ' ']).next().is_some_and(|class| {
                class.contains('.') && (class.ends_with("Exception") || class.ends_with("Error"))
            }))
}

fn shortened(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TAKEN: &str = "\
2026-11-22 00:24:50,508 INFO  [main] util.VersionInfo: HBase 2.6.4
2026-11-22 00:24:50,965 WARN  [main] util.NativeCodeLoader: Unable to load native-hadoop library
2026-11-22 00:24:51,100 ERROR [main] master.HMasterCommandLine: Master exiting
java.lang.RuntimeException: Failed construction of Master: class org.apache.hadoop.hbase.master.HMaster.
\tat org.apache.hadoop.hbase.master.HMaster.constructMaster(HMaster.java:2812)
Caused by: java.net.BindException: Address already in use
\tat java.base/sun.nio.ch.Net.bind0(Native Method)
";

    #[test]
    fn shows_the_lines_that_matter_and_no_others() {
        let diagnosis = Diagnosis::of(TAKEN);
        assert_eq!(diagnosis.cause, Cause::PortTaken);
        let text = diagnosis
            .into_error("the master ended", Path::new("/logs/master.log"))
            .to_string();
        assert!(
            text.contains("Failed construction of Master") && text.contains("Master exiting"),
            "{text}"
        );
        assert!(
            !text.contains("native-hadoop") && !text.contains("constructMaster("),
            "{text}"
        );
        assert!(
            text.contains("/logs/master.log") && text.contains("ss -ltnp"),
            "{text}"
        );
    }

    #[rstest]
    #[case(
        "2026-11-22 00:24:50,508 WARN  [x] a.B: java.io.IOException: No space left on device",
        Cause::DiskFull
    )]
    #[case(
        "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space",
        Cause::NoMemory
    )]
    #[case(
        "Unrecognized option: --add-opens=java.base/java.lang=ALL-UNNAMED",
        Cause::WrongJava
    )]
    #[case(
        "java.io.FileNotFoundException: /x/y (Permission denied)",
        Cause::NoPermission
    )]
    #[case("java.io.IOException: Incompatible clusterIDs in /x", Cause::DamagedData)]
    #[case("2026-11-22 00:24:51,100 FATAL [main] a.B: boom", Cause::Unknown)]
    fn names_the_cause(#[case] log: &str, #[case] cause: Cause) {
        let diagnosis = Diagnosis::of(log);
        assert_eq!(diagnosis.cause, cause);
        assert_eq!(diagnosis.lines, [log]);
    }

    #[test]
    fn without_a_complaint_the_last_words_are_shown() {
        let log = "2026-11-22 00:24:50,508 INFO  [main] a.B: one\n\n2026-11-22 00:24:50,509 INFO  [main] a.B: two\n";
        let diagnosis = Diagnosis::of(log);
        assert_eq!(diagnosis.cause, Cause::Unknown);
        assert_eq!(diagnosis.lines.len(), 2);
        assert!(diagnosis.lines[1].ends_with("two"));
        let empty = Diagnosis::of("").into_error("it ended", Path::new("/l"));
        assert!(empty.to_string().contains("empty"));
    }

    #[rstest]
    #[case(
        TAKEN,
        Some("2026-11-22 00:24:51,100 ERROR [main] master.HMasterCommandLine: Master exiting")
    )]
    #[case(
        "a.StacklessClosedChannelException\njava.lang.OutOfMemoryError: Java heap space",
        Some("java.lang.OutOfMemoryError: Java heap space")
    )]
    #[case("a.StacklessClosedChannelException", None)]
    #[case(
        "2026-11-22 00:24:51,100 ERROR [x] a.B: ***** ABORTING master 1: expired *****\n\
         2026-11-22 00:24:51,200 ERROR [x] a.B: Master exiting",
        Some("2026-11-22 00:24:51,100 ERROR [x] a.B: ***** ABORTING master 1: expired *****")
    )]
    #[case("2026-11-22 00:24:50,508 INFO  [main] a.B: one", None)]
    #[case("", None)]
    fn last_fatal_line_is_the_abort_or_the_last_error(#[case] log: &str, #[case] line: Option<&str>) {
        assert_eq!(last_fatal(log).as_deref(), line);
    }

    #[test]
    fn a_deadline_is_told_with_its_length_and_without_noise() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("standalone.log");
        let late = || late(&log, "HBase did not serve", Duration::from_secs(60)).to_string();
        fs::write(&log, "2026-11-22 00:24:50,508 INFO  [main] a.B: noise").unwrap();
        let text = late();
        assert!(
            text.starts_with("HBase did not serve within 60s; allow more time")
                && text.contains("has no errors")
                && !text.contains("noise"),
            "{text}"
        );
        fs::write(&log, TAKEN).unwrap();
        let text = late();
        assert!(text.contains("Address already in use"), "{text}");
    }

    #[test]
    fn long_lines_and_repeated_ones_are_cut() {
        let line = format!(
            "2026-11-22 00:24:51,100 ERROR [main] a.B: {}\n",
            "ä".repeat(1_000)
        );
        let diagnosis = Diagnosis::of(&line.repeat(50));
        assert_eq!(diagnosis.lines.len(), 1);
        assert_eq!(diagnosis.lines[0].chars().count(), WIDTH + 1);
    }
}
