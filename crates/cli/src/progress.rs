//! The steps of long work on stderr: a spinner or a bar on a terminal, plain lines elsewhere, for logs.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use hbase_txn::Printable;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// A display of the current step. Clones are handles to the same display.
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

    /// Returns progress on a terminal, and `None` elsewhere.
    pub(crate) fn on_a_terminal() -> Option<Self> {
        io::stderr().is_terminal().then(Self::new)
    }

    /// Returns progress for work whose output is redirected while stderr is a terminal, and `None`
    /// otherwise.
    pub(crate) fn beside_output() -> Option<Self> {
        Self::on_a_terminal().filter(|_| !io::stdout().is_terminal())
    }

    /// Returns progress with a bar and the remaining time on a terminal, and `None` elsewhere. The work
    /// has this length, and begins at this position.
    pub(crate) fn bar_on_a_terminal(length: u64, position: u64) -> Option<Self> {
        let progress = Self::on_a_terminal()?;
        if let Some(bar) = &progress.spinner {
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}, {eta} left") {
                bar.set_style(style);
            }
            bar.set_length(length);
            bar.set_position(position);
            bar.reset_eta();
        }
        Some(progress)
    }

    /// Moves the bar to this position.
    pub(crate) fn reach(&self, position: u64) {
        if let Some(bar) = &self.spinner {
            bar.set_position(position);
        }
    }

    /// Shows the step that begins.
    pub(crate) fn step(&self, text: &str) {
        match &self.spinner {
            Some(spinner) => spinner.set_message(Printable(text).to_string()),
            None => output::complain(&format!("{text}…")),
        }
    }

    /// Writes other output while the spinner is hidden.
    pub(crate) fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.spinner {
            Some(spinner) => spinner.suspend(write),
            None => write(),
        }
    }

    /// Removes the spinner, after success or failure.
    pub(crate) fn finish(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
