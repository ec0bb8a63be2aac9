//! The steps of long work on stderr: a spinner or a bar on a terminal, plain lines elsewhere, for logs.

use std::{
    io::{self, IsTerminal},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hbase_txn::client::Printable;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// The time between two lines of long work whose stderr is no terminal.
const INTERVAL: Duration = Duration::from_secs(10);

/// A display of the current step. Clones are handles to the same display.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    spinner: Option<ProgressBar>,
    /// The time of the next line without a spinner. `None` if each step is a line.
    next_line: Option<Arc<Mutex<Instant>>>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self::with_style("{spinner} {msg} ({elapsed})", |_| {})
    }

    /// Returns a spinner on a terminal, which is prepared before its clock starts.
    fn with_style(template: &str, prepare: impl FnOnce(&ProgressBar)) -> Self {
        let spinner = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            prepare(&bar);
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            spinner,
            next_line: None,
        }
    }

    /// Returns progress of long work with many steps: on a terminal each one, and elsewhere one in ten
    /// seconds.
    pub(crate) fn of_long_work() -> Self {
        Self::new().in_lines()
    }

    /// Writes a line in ten seconds where stderr is no terminal.
    fn in_lines(self) -> Self {
        Self {
            next_line: Some(Arc::new(Mutex::new(Instant::now() + INTERVAL))),
            ..self
        }
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

    /// Returns progress of long work that writes to stdout, and `None` if that is a terminal.
    pub(crate) fn of_long_output() -> Option<Self> {
        (!io::stdout().is_terminal()).then(Self::of_long_work)
    }

    /// Returns progress of long work, on a terminal with a bar and the remaining time. The work has this
    /// length, and begins at this position.
    pub(crate) fn with_bar(length: u64, position: u64) -> Self {
        let style = "{bar:24} {percent:>3}%  {msg}, {eta} left";
        Self::with_style(style, |bar| begin_at(bar, length, position)).in_lines()
    }

    /// Moves the bar to this position.
    pub(crate) fn reach(&self, position: u64) {
        if let Some(bar) = &self.spinner {
            bar.set_position(position);
        }
    }

    /// Shows the step that begins.
    pub(crate) fn step(&self, text: &str) {
        match (&self.spinner, &self.next_line) {
            (Some(spinner), _) => spinner.set_message(Printable(text).to_string()),
            (None, None) => output::complain(&format!("{text}…")),
            (None, Some(next)) => {
                if is_due(
                    &mut next.lock().unwrap_or_else(PoisonError::into_inner),
                    Instant::now(),
                ) {
                    output::complain(&format!("hbase-txn: {text}"));
                }
            }
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

/// Starts a bar at a position, of whose speed what is before it is no part. The bar must not have a ticker yet: with
/// one, it notices the position later, as if all of it were new.
fn begin_at(bar: &ProgressBar, length: u64, position: u64) {
    bar.set_length(length);
    bar.set_position(position);
    bar.tick();
    bar.reset_eta();
}

/// Returns whether the next line is due, and sets the time of the one after it.
fn is_due(next: &mut Instant, now: Instant) -> bool {
    let is_due = now >= *next;
    if is_due {
        *next = now + INTERVAL;
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_of_a_bar_counts_from_its_beginning() {
        const BEGINNING: u64 = 1 << 50;
        let bar = ProgressBar::hidden();
        begin_at(&bar, 2 * BEGINNING, BEGINNING);
        bar.set_position(BEGINNING + 10);
        bar.tick();
        // Ten steps in some microseconds, and not all that is before them.
        assert!(bar.per_sec() < 1e12, "{}", bar.per_sec());
    }

    #[test]
    fn lines_of_long_work_are_ten_seconds_apart() {
        let start = Instant::now();
        let mut next = start + INTERVAL;
        let due: Vec<u64> = (0..35)
            .filter(|second| is_due(&mut next, start + Duration::from_secs(*second)))
            .collect();
        assert_eq!(due, [10, 20, 30]);
    }
}
