//! The reported outcome of each transaction, compared with the number of its applications.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use hbase_txn::Error;

use super::ledger::Work;
use crate::settings::Settings;

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Told {
    Committed,
    Replayed,
    Rejected,
    /// Rejected or aborted.
    NotApplied,
    /// Unknown until it was settled.
    SettledCommitted,
    SettledNotApplied,
    /// Unknown, and counted as failed.
    CalledFailed,
}

impl Told {
    fn is_applied(self) -> bool {
        matches!(self, Self::Committed | Self::Replayed | Self::SettledCommitted)
    }
}

/// All commits of a run, also in a file, which is kept if the test fails.
pub(crate) struct Log {
    seed: u64,
    path: PathBuf,
    inner: Mutex<Inner>,
}

struct Inner {
    file: BufWriter<File>,
    told: BTreeMap<String, Vec<Told>>,
    counts: BTreeMap<Told, usize>,
    /// The reasons of commits that were not applied or are unknown.
    reasons: BTreeMap<String, usize>,
    slowest: Duration,
}

/// The violations.
#[derive(Debug, Default)]
pub(crate) struct Wrong {
    /// Applied more than once.
    pub(crate) doubles: Vec<String>,
    /// Reported as not applied, but applied.
    pub(crate) ghosts: Vec<String>,
    /// Reported as applied, but not applied.
    pub(crate) lost: Vec<String>,
    /// Applied, but never committed.
    pub(crate) strange: Vec<String>,
}

impl Log {
    pub(crate) fn new(test: &str, settings: &Settings) -> Self {
        let folder = Path::new(env!("REPOSITORY")).join("target/chaos");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{test}-{}.jsonl", settings.seed));
        let inner = Inner {
            file: BufWriter::new(File::create(&path).unwrap()),
            told: BTreeMap::new(),
            counts: BTreeMap::new(),
            reasons: BTreeMap::new(),
            slowest: Duration::ZERO,
        };
        Self {
            seed: settings.seed,
            path,
            inner: Mutex::new(inner),
        }
    }

    pub(crate) fn note(&self, work: &Work, told: Told, took: Duration, why: Option<&Error>) {
        let mut inner = self.inner.lock().unwrap();
        let Work {
            name,
            partition,
            kind,
            recording,
            ..
        } = work;
        writeln!(
            inner.file,
            r#"{{"name":"{name}","partition":"{partition}","kind":"{kind:?}","record":"{recording:?}","told":"{told:?}","took_ms":{},"why":{:?}}}"#,
            took.as_millis(),
            why.map(ToString::to_string).unwrap_or_default(),
        )
        .unwrap();
        inner.told.entry(name.clone()).or_default().push(told);
        *inner.counts.entry(told).or_default() += 1;
        if let Some(why) = why {
            *inner.reasons.entry(format!("{:?}", why.kind())).or_default() += 1;
        }
        inner.slowest = inner.slowest.max(took);
    }

    pub(crate) fn count(&self, told: Told) -> usize {
        self.inner.lock().unwrap().counts.get(&told).copied().unwrap_or(0)
    }

    pub(crate) fn summary(&self) -> String {
        let inner = self.inner.lock().unwrap();
        format!(
            "{:?}, slowest {:.1?}; {:?}",
            inner.counts, inner.slowest, inner.reasons
        )
    }

    /// Compares the outcomes with the marks.
    pub(crate) fn compare(&self, mut marks: HashMap<String, i64>) -> Wrong {
        let inner = self.inner.lock().unwrap();
        let mut wrong = Wrong::default();
        for (name, told) in &inner.told {
            let applied = marks.remove(name).unwrap_or(0);
            let committed = told.iter().any(|told| told.is_applied());
            let what = || format!("{name}: applied {applied} times, told {told:?}");
            match (committed, applied) {
                (true, 1) | (false, 0) => {}
                (true, 0) => wrong.lost.push(what()),
                (false, 1) => wrong.ghosts.push(what()),
                _ => wrong.doubles.push(what()),
            }
        }
        wrong.strange = marks.into_keys().collect();
        wrong
    }

    /// Deletes the file of a run without violations.
    pub(crate) fn forget(self) {
        fs::remove_file(&self.path).unwrap();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "CHAOS_SEED={}: the history is in {}: {}",
                self.seed,
                self.path.display(),
                self.summary()
            );
        }
    }
}

impl Wrong {
    pub(crate) fn is_nothing(&self) -> bool {
        let Self {
            doubles,
            ghosts,
            lost,
            strange,
        } = self;
        [doubles, ghosts, lost, strange]
            .iter()
            .all(|list| list.is_empty())
    }
}
