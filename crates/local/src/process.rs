//! Processes that outlive the command that started them. A process gets a signal only if it is
//! certainly the same one.
//!
//! A pid alone proves nothing: pids are reused, and after a reboot they belong to other processes.
//! So a process is identified by its pid, its start time, the boot of the machine, its user, its
//! program, and an argument on its command line with the cluster's identity.

use std::{
    collections::BTreeSet, ffi::OsStr, fs, os::unix::ffi::OsStrExt, os::unix::fs::MetadataExt, path::Path,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open, pidfd_send_signal},
};
use tokio::time::Instant;

use super::{failure, wait};
use crate::Result;

/// The limit for the end of a process after SIGKILL.
const KILL_TAKES: Duration = Duration::from_secs(10);

/// The limit for the kernel to load a program.
const EXEC_TAKES: Duration = Duration::from_secs(5);

/// A process, distinct from all earlier and later processes with its pid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pid: i32,
    /// In clock ticks since the machine started.
    start_time: u64,
    /// The identity of this boot of the machine.
    boot: String,
}

impl Process {
    /// Finds the process with this pid, if it is alive and a Java process of this user with `marker` on
    /// its command line.
    pub(super) fn find(pid: i32, marker: &str) -> Option<Self> {
        Self::look(pid, marker, false)
    }

    /// Finds a child that was just started. Waits until the child has its command line, which may
    /// be a moment after the start. Returns `None` if the child has ended.
    pub(super) async fn of_child(pid: i32, marker: &str) -> Option<Self> {
        let deadline = Instant::now() + EXEC_TAKES;
        wait::until(deadline, || {
            Self::find(pid, marker).is_some() || Self::look(pid, marker, true).is_none()
        })
        .await;
        Self::find(pid, marker)
    }

    /// Reads a process. Its command line is empty while its program is being loaded; `loading`
    /// accepts that.
    fn look(pid: i32, marker: &str, loading: bool) -> Option<Self> {
        let owner = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let start_time = start_time_if_alive(&stat)?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let known = is_java(&command, marker) || (loading && command.is_empty());
        (owner == geteuid().as_raw() && known).then(|| Self {
            pid,
            start_time,
            boot: boot(),
        })
    }

    /// Finds all Java processes of this user that have `marker` on their command line.
    pub(super) fn find_all(marker: &str) -> BTreeSet<Self> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return BTreeSet::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Self::find(pid, marker))
            .collect()
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn is_alive(&self, marker: &str) -> bool {
        Self::look(self.pid, marker, true).as_ref() == Some(self)
    }

    /// Parses the contents of a pid file, written by [`Display`](std::fmt::Display).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace();
        Some(Self {
            pid: fields.next()?.parse().ok().filter(|pid| *pid > 1)?,
            start_time: fields.next()?.parse().ok()?,
            boot: fields.next()?.to_owned(),
        })
    }

    /// Sends a signal to this process and to no other. Does nothing if the process has ended.
    fn signal(&self, marker: &str, signal: Signal) -> Result<()> {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return Ok(());
        };
        // The descriptor pins the process, so the process that was checked gets the signal, even if
        // it ends in between.
        let sent = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) if self.is_alive(marker) => pidfd_send_signal(descriptor, signal),
            Err(Errno::NOSYS | Errno::PERM) if self.is_alive(marker) => kill_process(pid, signal),
            _ => Ok(()),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(failure(format!("can't end process {pid}", pid = self.pid)).with_source(error)),
        }
    }
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.pid, self.start_time, self.boot)
    }
}

/// Stops processes with SIGTERM, and with SIGKILL after `grace`.
pub(super) async fn end(processes: &BTreeSet<Process>, marker: &str, grace: Duration) -> Result<()> {
    for process in processes {
        process.signal(marker, Signal::TERM)?;
    }
    if !wait_for_end(processes, marker, Instant::now() + grace).await {
        kill(processes, marker).await?;
    }
    Ok(())
}

/// Kills processes with SIGKILL, and waits until they have ended.
pub(super) async fn kill(processes: &BTreeSet<Process>, marker: &str) -> Result<()> {
    for process in processes {
        process.signal(marker, Signal::KILL)?;
    }
    if wait_for_end(processes, marker, Instant::now() + KILL_TAKES).await {
        return Ok(());
    }
    let left: Vec<_> = processes
        .iter()
        .filter(|process| process.is_alive(marker))
        .map(|process| process.pid.to_string())
        .collect();
    Err(failure(format!("process {} does not end", left.join(", ")))
        .with_hint("it hangs in the kernel, on a dead disk for example; `ps -o pid,stat,wchan` shows where"))
}

/// Returns whether all processes ended before the deadline.
pub(super) async fn wait_for_end(processes: &BTreeSet<Process>, marker: &str, deadline: Instant) -> bool {
    wait::until(deadline, || {
        !processes.iter().any(|process| process.is_alive(marker))
    })
    .await
}

/// Returns whether a command line starts Java with this argument. Every user can read the marker of a
/// cluster, and pass it to a program such as `pgrep`.
fn is_java(command: &[u8], marker: &str) -> bool {
    let mut words = command.split(|byte| *byte == 0);
    let name = |word: &[u8]| Path::new(OsStr::from_bytes(word)).file_name() == Some(OsStr::new("java"));
    // The second word, if `java` is a script that starts the real one.
    words.clone().take(2).any(name) && words.any(|word| word == marker.as_bytes())
}

/// Returns the start time from `/proc/PID/stat`, unless the process has ended.
fn start_time_if_alive(stat: &str) -> Option<u64> {
    // The name in parentheses may contain any character, so the fields are counted from the last
    // parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    // Fields 20 and 22 of the line; the state is field 3.
    let threads: u32 = fields.nth(20 - 3 - 1)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    // After a kill the main thread may have ended while others still hold files and ports.
    let gone = matches!(state, "X" | "x") || (state == "Z" && threads <= 1);
    (!gone).then_some(start_time)
}

fn boot() -> String {
    fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"))
        .map(|text| text.trim().to_owned())
        .unwrap_or_else(|_| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::CommandExt as _,
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// A process that lives until its stdin is written to, with `marker` on its command line.
    struct Sleeper(Child);

    impl Sleeper {
        fn start(marker: &str) -> Self {
            Self::start_as("/opt/java/bin/java", marker)
        }

        /// Starts a process whose program has this name.
        fn start_as(program: &str, marker: &str) -> Self {
            let child = Command::new("sh")
                .arg0(program)
                .args(["-c", "read forever", marker])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            Self(child)
        }

        fn pid(&self) -> i32 {
            i32::try_from(self.0.id()).unwrap()
        }

        async fn found(&self, marker: &str) -> Process {
            Process::of_child(self.pid(), marker).await.unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[tokio::test]
    async fn is_ended_and_counts_as_gone_before_its_parent_notices() {
        // Unique, because another run of these tests may be in progress.
        let marker = &format!("hbase-txn-test-end-{}", std::process::id());
        let sleeper = Sleeper::start(marker);
        let process = sleeper.found(marker).await;
        let all = Process::find_all(marker);
        assert_eq!(all, BTreeSet::from([process]));
        end(&all, marker, Duration::from_secs(5)).await.unwrap();
        // A process that is ending may have no command line for a moment, like one that is being
        // loaded.
        assert!(wait_for_end(&all, marker, Instant::now() + EXEC_TAKES).await);
    }

    #[tokio::test]
    async fn another_process_with_the_recorded_pid_is_left_alone() {
        let stranger = Sleeper::start("hbase-txn-test-stranger");
        let real = stranger.found("hbase-txn-test-stranger").await;

        // The pid was ours once; now a process without our marker has it.
        let forged = BTreeSet::from([real.clone()]);
        end(&forged, "hbase-txn-test-ours", Duration::from_secs(5))
            .await
            .unwrap();
        assert!(real.is_alive("hbase-txn-test-stranger"));

        // The same pid and marker, but another start time or another boot of the machine.
        for other in [
            Process {
                start_time: real.start_time + 1,
                ..real.clone()
            },
            Process {
                boot: "earlier".to_owned(),
                ..real.clone()
            },
        ] {
            let forged = BTreeSet::from([other]);
            kill(&forged, "hbase-txn-test-stranger").await.unwrap();
            assert!(real.is_alive("hbase-txn-test-stranger"));
        }
    }

    #[tokio::test]
    async fn another_program_with_the_marker_is_left_alone() {
        let marker = &format!("hbase-txn-test-program-{}", std::process::id());
        let (server, search) = (Sleeper::start(marker), Sleeper::start_as("pgrep", marker));
        let server = server.found(marker).await;
        assert_eq!(Process::find_all(marker), BTreeSet::from([server]));

        // While it is loaded it has no command line, and may be any program.
        let command = format!("/proc/{}/cmdline", search.pid());
        let is_loaded = || fs::read(&command).is_ok_and(|command| !command.is_empty());
        assert!(wait::until(Instant::now() + EXEC_TAKES, is_loaded).await);

        // The pid file has the pid of the other program.
        let stat = fs::read_to_string(format!("/proc/{}/stat", search.pid())).unwrap();
        let forged = Process {
            pid: search.pid(),
            start_time: start_time_if_alive(&stat).unwrap(),
            boot: boot(),
        };
        end(&BTreeSet::from([forged]), marker, Duration::from_secs(5))
            .await
            .unwrap();
        let state = fs::read_to_string(format!("/proc/{}/stat", search.pid())).unwrap();
        assert!(start_time_if_alive(&state).is_some(), "{state}");
    }

    #[tokio::test]
    async fn a_process_of_another_user_is_left_alone() {
        // Only root can start one.
        if !geteuid().is_root() {
            assert_eq!(Process::look(1, "", true), None);
            return;
        }
        let marker = &format!("hbase-txn-test-user-{}", std::process::id());
        let mut nobody = Command::new("sh");
        nobody
            .arg0("java")
            .args(["-c", "read forever", marker])
            .uid(65534);
        let nobody = Sleeper(nobody.stdin(Stdio::piped()).spawn().unwrap());
        assert_eq!(Process::of_child(nobody.pid(), marker).await, None);
        assert!(Process::find_all(marker).is_empty());
    }

    #[test]
    fn a_script_named_java_may_start_the_real_one() {
        for (command, found) in [
            ("/usr/bin/java\0-Xmx1g\0-Dx=1\0Main\0", true),
            ("/bin/sh\0/opt/shims/java\0-Dx=1\0Main\0", true),
            ("java\0-Dx=12\0Main\0", false),
            ("grep\0-Dx=1\0java\0", false),
            ("", false),
        ] {
            assert_eq!(is_java(command.as_bytes(), "-Dx=1"), found, "{command:?}");
        }
    }

    #[test]
    fn a_pid_file_reads_as_it_was_written_and_nonsense_as_nothing() {
        let process = Process {
            pid: 77,
            start_time: 12,
            boot: "b".to_owned(),
        };
        assert_eq!(Process::parse(&process.to_string()), Some(process));
        for text in ["", "77", "77 12", "x 1 b", "-1 1 b", "0 1 b", "1 1 b"] {
            assert_eq!(Process::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn start_time_is_found_behind_any_process_name() {
        let line = |name: &str, state: &str, threads: u32| {
            format!("1 ({name}) {state} 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 {threads} 21 4711 23 24")
        };
        assert_eq!(start_time_if_alive(&line("a) b (c", "S", 40)), Some(4711));
        assert_eq!(start_time_if_alive(&line("java", "Z", 1)), None);
        assert_eq!(start_time_if_alive(&line("java", "Z", 3)), Some(4711));
        assert_eq!(start_time_if_alive("1 (java) S 1"), None);
    }
}
