//! Signals that are forwarded.

use std::{fs, future::poll_fn, io, task::Poll, time::Duration};

use rustix::process::Signal;
use tokio::{
    signal::unix::{Signal as Stream, SignalKind, signal},
    time::timeout,
};

/// Signals that terminate a process by default, and signals that commonly control programs.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
const CONTROLLING: [Signal; 2] = [Signal::USR1, Signal::USR2];

/// The received signals. After its creation they have no other effect on this process.
#[derive(Debug)]
pub(in crate::cmd) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    /// Listens to all forwarded signals, except those that this process was started to ignore
    /// (nohup, a background job of a script): the child ignores them too.
    pub(in crate::cmd) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let streams = ENDING.into_iter().chain(CONTROLLING).filter_map(|kind| {
            let number = kind.as_raw();
            let is_ignored = ignored & (1 << (number - 1)) != 0;
            (!is_ignored).then(|| Ok((kind, signal(SignalKind::from_raw(number))?)))
        });
        streams.collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next signal.
    pub(in crate::cmd) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (kind, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*kind);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for a terminating signal after this time. Ignores those before.
    pub(in crate::cmd) async fn ending_after(&mut self, time: Duration) {
        let _ = timeout(time, async {
            loop {
                self.next().await;
            }
        })
        .await;
        self.ending().await;
    }

    /// Waits for a terminating signal. Ignores the others.
    pub(in crate::cmd) async fn ending(&mut self) {
        while !ends(self.next().await) {}
    }
}

/// Whether a signal asks a process to terminate.
pub(in crate::cmd) fn ends(signal: Signal) -> bool {
    ENDING.contains(&signal)
}

/// Returns the signals that this process ignores, one bit for each, as reported by Linux.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
