//! What the runs of a simulation did: the number of faults, and a file of trace hashes.

use std::{
    collections::BTreeMap,
    env, fmt,
    fs::{File, OpenOptions},
    io::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::plan::FaultReport;

/// The file to which the hash of each run's trace is appended.
const TRACES: &str = "SIM_TRACES";

/// The faults of all runs by kind, and the file of their trace hashes.
#[derive(Debug, Default)]
pub(super) struct Journal {
    faults: Mutex<BTreeMap<&'static str, u64>>,
    traces: Option<Mutex<File>>,
}

impl Journal {
    /// Creates a journal that also writes to the file that `SIM_TRACES` names.
    ///
    /// # Panics
    ///
    /// Panics if the file can't be opened.
    pub(super) fn from_env() -> Self {
        let traces = env::var_os(TRACES).map(|path| {
            let file = OpenOptions::new().create(true).append(true).open(&path);
            Mutex::new(file.unwrap_or_else(|error| panic!("{TRACES}={}: {error}", path.display())))
        });
        Self {
            traces,
            ..Self::default()
        }
    }

    /// Adds a run: the hash of its trace, and its faults.
    ///
    /// # Panics
    ///
    /// Panics if the file can't be written.
    pub(super) fn add(&self, name: &str, seed: u64, trace: u64, happened: &[FaultReport]) {
        let mut faults = locked(&self.faults);
        for fault in happened {
            *faults.entry(fault.kind).or_default() += 1;
        }
        drop(faults);
        if let Some(traces) = &self.traces {
            let line = format!("{name} {seed} {trace:016x}\n");
            let written = locked(traces).write_all(line.as_bytes());
            written.unwrap_or_else(|error| panic!("{TRACES}: {error}"));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the numbers of faults.
impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (kind, count) in &*locked(&self.faults) {
            write!(f, "{separator}{kind} {count}")?;
            separator = ", ";
        }
        Ok(())
    }
}
