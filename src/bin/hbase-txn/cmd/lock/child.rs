//! The command that runs under a lock.
//!
//! In front of a terminal it stays in this process's group, so that keys such as Ctrl-C and Ctrl-Z reach it as if nothing
//! stood between. Elsewhere it has a group of its own, so that what it started is ended with it.

use std::{
    ffi::OsString, fs::File, io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration,
};

use rustix::process::{Pid, Signal, getpgrp, kill_process, kill_process_group, test_kill_process_group};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

/// How long after TERM there is KILL.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether a group is empty: nothing tells.
const LOOKS: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pid: Option<Pid>,
    /// Whether the group is its own.
    leads: bool,
}

impl Running {
    /// Starts it, with streams and environment of this process, and these variables.
    pub(super) fn start(command: &[OsString], variables: [(&str, String); 2]) -> io::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let leads = !in_front_of_a_terminal();
        let mut command = Command::new(program);
        command.args(arguments).envs(variables);
        if leads {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Ok(Self { child, pid, leads })
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Passes a signal on, to it alone: that is who would have had it.
    pub(super) fn forward(&self, signal: Signal) {
        let keyboard = matches!(signal, Signal::INT | Signal::QUIT);
        // Keys send them to the whole group, and it need not have them twice.
        if keyboard && !self.leads && in_front_of_a_terminal() {
            return;
        }
        // A child that was waited for has no id any more, so nobody else can have it.
        if let (Some(_), Some(pid)) = (self.child.id(), self.pid) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it and what it started: TERM, and KILL to what is left after [`GRACE`].
    pub(super) async fn end(&mut self) {
        self.signal_all(Signal::TERM);
        // One that was stopped would not notice.
        self.signal_all(Signal::CONT);
        if timeout(GRACE, self.gone()).await.is_err() {
            self.signal_all(Signal::KILL);
            let _ = timeout(GRACE, self.wait()).await;
        }
    }

    fn signal_all(&self, signal: Signal) {
        match self.pid {
            Some(group) if self.leads => drop(kill_process_group(group, signal)),
            _ => self.forward(signal),
        }
    }

    async fn gone(&mut self) {
        let _ = self.wait().await;
        while self.leads
            && self
                .pid
                .is_some_and(|group| test_kill_process_group(group).is_ok())
        {
            sleep(LOOKS).await;
        }
    }
}

/// The status that a shell would tell.
pub(super) fn status(status: ExitStatus) -> u8 {
    let status = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(status).unwrap_or(u8::MAX)
}

/// Whether the keys of a terminal reach this process's group.
fn in_front_of_a_terminal() -> bool {
    File::open("/dev/tty")
        .ok()
        .and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok())
        .is_some_and(|front| front == getpgrp())
}
