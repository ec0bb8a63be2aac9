//! Ends a process in which a run does not advance.

use std::{
    process,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

/// The real time that one seed may take, with its repetitions. Virtual time does not pass in a task
/// that never waits, so no timeout of tokio's ends it.
const STUCK: Duration = Duration::from_secs(300);

/// A seed that is being run, until it is dropped.
pub(super) struct Watch {
    _running: Sender<()>,
}

impl Watch {
    pub(super) fn begin(name: &str, seed: u64) -> Self {
        let (running, ended) = mpsc::channel::<()>();
        let text = format!("{name}: SIM_SEED={seed} has run for {STUCK:?} and does not end");
        thread::spawn(move || {
            if ended.recv_timeout(STUCK) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{text}");
                process::abort();
            }
        });
        Self { _running: running }
    }
}
