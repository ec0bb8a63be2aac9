//! The histories of a run, which are kept in a file if it fails.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs, mem,
    path::{Path, PathBuf},
    sync::Mutex,
};

use crate::{
    serialisability::{
        checker::{Report, check},
        history::{Fate, History, List, Transaction},
    },
    settings::Settings,
};

/// The attempts at transactions, by partition.
pub(crate) struct Log {
    seed: u64,
    path: PathBuf,
    histories: Mutex<BTreeMap<String, History>>,
    done: Mutex<Done>,
}

/// The results of all histories checked so far.
#[derive(Debug, Default)]
struct Done {
    report: Report,
    attempts: usize,
    /// Transactions whose outcome was determined by their writes.
    unknown: usize,
    /// Histories with violations.
    wrong: String,
}

impl Log {
    pub(crate) fn new(test: &str, settings: &Settings) -> Self {
        let folder = Path::new(env!("REPOSITORY")).join("target/chaos");
        Self {
            seed: settings.seed,
            path: folder.join(format!("{test}-{}.txt", settings.seed)),
            histories: Mutex::default(),
            done: Mutex::default(),
        }
    }

    /// Records the attempts at one transaction; all except the last were certainly not applied.
    pub(crate) fn note(&self, partition: &str, mut attempts: Vec<Transaction>, last: Fate) {
        let count = attempts.len();
        for (number, attempt) in attempts.iter_mut().enumerate() {
            attempt.fate = if number + 1 == count {
                last
            } else {
                Fate::NotApplied
            };
        }
        let mut histories = self.histories.lock().unwrap();
        let history = histories.entry(partition.to_owned()).or_default();
        history.transactions.extend(attempts);
    }

    /// Checks the history of a partition with this final state.
    pub(crate) fn check(&self, partition: &str, end: BTreeMap<String, List>) -> Report {
        let history = self.histories.lock().unwrap().remove(partition);
        let mut history = history.unwrap_or_default();
        history.end = end;
        let mut done = self.done.lock().unwrap();
        done.unknown += history.settle_unknown();
        done.attempts += history.transactions.len();
        let report = check(&history);
        for anomaly in &report.anomalies {
            writeln!(done.wrong, "{anomaly}").unwrap();
        }
        if !report.anomalies.is_empty() {
            write!(done.wrong, "history of {partition}\n{history}").unwrap();
        }
        done.report.extend(report.clone());
        report
    }

    /// Returns the report on all partitions.
    pub(crate) fn report(&self) -> Report {
        self.done.lock().unwrap().report.clone()
    }

    pub(crate) fn summary(&self) -> String {
        let Done {
            report,
            attempts,
            unknown,
            ..
        } = &*self.done.lock().unwrap();
        format!("{attempts} attempts, {unknown} unknown; {report}")
    }

    /// Writes the violations, and the unchecked histories, to the file.
    fn keep(&mut self) -> std::io::Result<()> {
        fs::create_dir_all(self.path.parent().unwrap_or_else(|| Path::new(".")))?;
        let mut text = mem::take(&mut self.done.get_mut().unwrap().wrong);
        for (partition, history) in self.histories.get_mut().unwrap() {
            let _ = write!(text, "unchecked history of {partition}\n{history}");
        }
        fs::write(&self.path, text)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            match self.keep() {
                Ok(()) => println!(
                    "CHAOS_SEED={}: the history is in {}",
                    self.seed,
                    self.path.display()
                ),
                Err(error) => println!("the history could not be kept: {error}"),
            }
        }
    }
}
