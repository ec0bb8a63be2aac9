//! Steps of long work on stderr: a spinner on a terminal, plain lines elsewhere, because people
//! watch logs.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Shows the step that is at work. Cloned handles show the same.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    spinner: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let spinner = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { spinner }
    }

    /// For work whose progress is only for people at a terminal.
    pub(crate) fn on_a_terminal() -> Option<Self> {
        io::stderr().is_terminal().then(Self::new)
    }

    /// Returns progress for work whose output is redirected while stderr is a terminal, and `None`
    /// otherwise.
    pub(crate) fn beside_output() -> Option<Self> {
        Self::on_a_terminal().filter(|_| !io::stdout().is_terminal())
    }

    /// A step begins.
    pub(crate) fn step(&self, text: &str) {
        match &self.spinner {
            Some(spinner) => spinner.set_message(text.to_owned()),
            None => output::complain(&format!("{text}…")),
        }
    }

    /// Writes something for which the step makes room.
    pub(crate) fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.spinner {
            Some(spinner) => spinner.suspend(write),
            None => write(),
        }
    }

    /// The work is over, well or not.
    pub(crate) fn finish(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
