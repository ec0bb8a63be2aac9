//! The command that runs under a lock.
//!
//! In the foreground of a terminal, the command stays in this process's group, so that keys such as
//! Ctrl-C and Ctrl-Z reach it directly. Otherwise it has a group of its own. In both cases the
//! processes that it started, and that did not move to another group, belong to it: they get its
//! signals, and this process waits for them.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, getpgrp, getpid, kill_process, kill_process_group, set_child_subreaper,
        test_kill_process_group, waitpid,
    },
};
use tokio::{
    process::{Child, Command},
    signal::unix::{self, SignalKind},
    time::{Instant, sleep, timeout},
};

use super::signals::ends;

/// The time between TERM and KILL.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// The interval of checks for remaining processes of a group: no event announces its end.
const CHECKS: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    /// Notified when a child ends: the command, or an orphan that this process inherited.
    child_ended: unix::Signal,
    pid: Option<Pid>,
    /// Whether the command has a process group of its own.
    leads: bool,
    /// Whether a terminating signal was forwarded.
    is_ending: bool,
    /// When the remaining processes are killed.
    kill_at: Option<Instant>,
}

impl Running {
    /// Starts the command with this process's streams and environment, and these variables.
    pub(super) fn start(command: &[OsString], variables: [(&str, String); 2]) -> io::Result<Self> {
        Self::start_in(!in_front_of_a_terminal(), command, variables)
    }

    /// Starts the command in a group of its own or in this process's group.
    fn start_in(leads: bool, command: &[OsString], variables: [(&str, String); 2]) -> io::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if !leads {
            // In a shared group, ancestry identifies the processes that the command started. As a
            // subreaper, this process becomes the parent of its orphans.
            set_child_subreaper(Some(getpid()))?;
        }
        let child_ended = unix::signal(SignalKind::child())?;
        let mut command = Command::new(program);
        command.args(arguments).envs(variables);
        if leads {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Ok(Self {
            child,
            child_ended,
            pid,
            leads,
            is_ending: false,
            kill_at: None,
        })
    }

    /// Waits for the end of the command and, unless `command_only` is set, of the processes that it
    /// started. After a terminating signal, processes that are left [`GRACE`] after the command's
    /// end are killed.
    pub(super) async fn wait(&mut self, command_only: bool) -> io::Result<ExitStatus> {
        let status = loop {
            tokio::select! {
                biased;
                status = self.child.wait() => break status?,
                _ = self.child_ended.recv() => self.reap_orphans(),
            }
        };
        while !command_only && !self.processes().is_empty() {
            if self.is_ending {
                let kill_at = *self.kill_at.get_or_insert_with(|| Instant::now() + GRACE);
                if Instant::now() >= kill_at {
                    self.signal(Signal::KILL);
                }
            }
            sleep(CHECKS).await;
            self.reap_orphans();
        }
        Ok(status)
    }

    /// Forwards a signal to the command and the processes that it started.
    pub(super) fn forward(&mut self, signal: Signal) {
        self.is_ending |= ends(signal);
        let keyboard = matches!(signal, Signal::INT | Signal::QUIT);
        // Keys send these signals to the whole group, and the command must not get them twice.
        if keyboard && !self.leads && in_front_of_a_terminal() {
            return;
        }
        self.signal(signal);
    }

    /// Stops the command and the processes that it started: TERM, then KILL after [`GRACE`].
    pub(super) async fn terminate(&mut self) {
        self.signal(Signal::TERM);
        // A stopped process would not handle TERM.
        self.signal(Signal::CONT);
        if timeout(GRACE, self.wait(false)).await.is_err() {
            self.signal(Signal::KILL);
            let _ = timeout(GRACE, self.wait(false)).await;
        }
    }

    fn signal(&self, signal: Signal) {
        let processes = self.processes();
        match self.pid {
            // The whole group at once, so that no process can start another one in between. The
            // number of an empty group may belong to another group already.
            Some(group) if self.leads && !processes.is_empty() => {
                let _ = kill_process_group(group, signal);
            }
            _ => {
                for process in processes {
                    let _ = kill_process(process, signal);
                }
            }
        }
    }

    /// Reaps ended orphans that this process inherited, as a subreaper or as process 1 of a
    /// container. `child` reaps the command itself.
    fn reap_orphans(&self) {
        let command = self.child.id();
        let orphans = all_processes().into_iter().filter(|(pid, process)| {
            let is_command = command == u32::try_from(pid.as_raw_pid()).ok();
            process.has_ended && process.parent == Some(getpid()) && !is_command
        });
        let mut orphans: Vec<Pid> = orphans.map(|(pid, _)| pid).collect();
        orphans.sort_unstable_by_key(|pid| pid.as_raw_pid());
        for pid in orphans {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Returns the processes that belong to the command, including the command.
    fn processes(&self) -> Vec<Pid> {
        self.processes_among(&all_processes())
    }

    /// Selects them from `all`, which is empty if `/proc` can't be read.
    fn processes_among(&self, all: &HashMap<Pid, Process>) -> Vec<Pid> {
        let Some(command) = self.pid else {
            return Vec::new();
        };
        let (us, group) = if self.leads {
            (None, command)
        } else {
            (Some(getpid()), getpgrp())
        };
        let is_ours = |pid: Pid| {
            let Some(us) = us else { return true };
            // Bounded, because the list is not a snapshot and may have a cycle.
            let mut parents =
                std::iter::successors(all.get(&pid).and_then(|process| process.parent), |pid| {
                    all.get(pid).and_then(|process| process.parent)
                });
            parents.by_ref().take(all.len()).any(|parent| parent == us)
        };
        let mut processes: Vec<_> = all
            .iter()
            .filter(|(pid, process)| !process.has_ended && process.group == Some(group) && is_ours(**pid))
            .map(|(pid, _)| *pid)
            .collect();
        processes.sort_unstable_by_key(|pid| pid.as_raw_pid());
        // The kernel reserves the pid of a child until it is reaped, and the number of a group that
        // has members.
        let is_unreaped = self.child.id().is_some();
        let group_exists = || self.leads && test_kill_process_group(command) != Err(Errno::SRCH);
        if !processes.contains(&command) && (is_unreaped || all.is_empty() && group_exists()) {
            processes.push(command);
        }
        processes
    }
}

/// The state of a process in `/proc`.
struct Process {
    /// Whether it is a zombie.
    has_ended: bool,
    parent: Option<Pid>,
    group: Option<Pid>,
}

/// Reads all processes from `/proc/PID/stat`.
fn all_processes() -> HashMap<Pid, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid = parse_pid(entry.file_name().to_str()?)?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The program's name, in parentheses, may contain any character.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = parse_pid(fields.next()?);
        let group = parse_pid(fields.next()?);
        let has_ended = matches!(state, "Z" | "X");
        let process = Process {
            has_ended,
            parent,
            group,
        };
        Some((pid, process))
    });
    processes.collect()
}

fn parse_pid(text: &str) -> Option<Pid> {
    // The kernel shows parent and group of a process that it is removing as 0 and -1.
    let raw = text.parse().ok().filter(|raw: &i32| *raw > 0)?;
    Pid::from_raw(raw)
}

/// Returns the exit status as shells report it.
pub(super) fn status(status: ExitStatus) -> u8 {
    let status = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(status).unwrap_or(u8::MAX)
}

/// Returns the exit status of a command that could not be started, as shells and `env` report it.
pub(super) fn status_of_failed_start(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound => 127,
        // The process could not be created.
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => 1,
        _ => 126,
    }
}

/// Whether this process's group is in the foreground of a terminal.
fn in_front_of_a_terminal() -> bool {
    File::open("/dev/tty")
        .ok()
        .and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok())
        .is_some_and(|front| front == getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Running {
        let command = ["sh", "-c", script].map(OsString::from);
        Running::start_in(true, &command, [("A", String::new()), ("B", String::new())]).unwrap()
    }

    #[test]
    fn pid_of_a_process_that_is_being_removed_is_none() {
        let pids = ["7", "0", "-1", "", "7x", "2147483648"].map(parse_pid);
        assert_eq!(pids, [Pid::from_raw(7), None, None, None, None, None]);
    }

    #[tokio::test]
    async fn command_is_present_without_proc_until_it_is_waited_for() {
        let mut running = start("exit 7");
        let command = running.pid.unwrap();
        // Without a group of its own, the command is found only by its pid.
        running.leads = false;
        assert_eq!(running.processes_among(&HashMap::new()), [command]);
        running.child.wait().await.unwrap();
        assert_eq!(running.processes_among(&HashMap::new()), []);
    }

    #[tokio::test]
    async fn group_of_the_command_is_present_without_proc() {
        let mut running = start("sleep 1000 & exit 7");
        let command = running.pid.unwrap();
        running.child.wait().await.unwrap();
        assert_eq!(running.processes_among(&HashMap::new()), [command]);
        running.signal(Signal::KILL);
    }
}
