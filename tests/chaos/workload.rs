//! Writers and readers that run through all faults.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hbase_txn::{
    ClientErrorKind, PartitionedTable,
    client::{Put, ResultScanner, Row, Scan},
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    cluster::{FAMILY, QUALIFIER, until},
    history::{Commit, GroupId, History, Told, check_whole},
    settings::Settings,
};

/// A busy machine wakes a task late; a hanging call is later by far more than this.
const SLACK: Duration = Duration::from_secs(2);

/// The writers and readers of a workload, and their limits.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) partitions: Vec<String>,
    pub(crate) writers: u32,
    pub(crate) readers: u32,
    pub(crate) deadline: Duration,
    /// Whether HBase may need longer than the deadline to recover, so that calls may fail with it.
    pub(crate) may_run_out: bool,
}

/// Running writers and readers.
pub(crate) struct Workload {
    shared: Arc<Shared>,
    writers: JoinSet<Vec<Commit>>,
    readers: JoinSet<()>,
}

struct Shared {
    table: PartitionedTable,
    load: Load,
    over: AtomicBool,
    acknowledged: AtomicUsize,
    scans: AtomicUsize,
    groups_seen: AtomicUsize,
    /// The last committed number, by partition and writer.
    newest: Mutex<HashMap<(String, u32), u32>>,
}

/// The results of a workload.
pub(crate) struct Done {
    pub(crate) history: History,
    pub(crate) scans: usize,
    pub(crate) groups_seen: usize,
}

impl Workload {
    pub(crate) fn start(table: &PartitionedTable, settings: &Settings, load: Load) -> Self {
        let table = table.clone().with_operation_timeout(load.deadline);
        let shared = Arc::new(Shared {
            table,
            load,
            over: AtomicBool::new(false),
            acknowledged: AtomicUsize::new(0),
            scans: AtomicUsize::new(0),
            groups_seen: AtomicUsize::new(0),
            newest: Mutex::default(),
        });
        let mut writers = JoinSet::new();
        for writer in 0..shared.load.writers {
            writers.spawn(write(Arc::clone(&shared), writer, settings.rng(writer.into())));
        }
        let mut readers = JoinSet::new();
        for reader in 0..shared.load.readers {
            readers.spawn(read(Arc::clone(&shared), settings.rng(1_000 + u64::from(reader))));
        }
        Self {
            shared,
            writers,
            readers,
        }
    }

    /// Waits until this many more groups are committed: the client works.
    pub(crate) async fn goes_on(&mut self, groups: usize, patience: Duration) {
        let goal = self.shared.acknowledged.load(Ordering::Relaxed) + groups;
        until("further commits", patience, async || {
            // A writer or reader that has ended has failed; its panic is the message.
            while let Some(ended) = self.readers.try_join_next() {
                ended.unwrap();
            }
            while let Some(ended) = self.writers.try_join_next() {
                assert!(ended.unwrap().is_empty(), "a writer ended early");
            }
            (self.shared.acknowledged.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Waits until a group is committed in each partition from now on: every region is served.
    pub(crate) async fn touches_all_partitions(&mut self, patience: Duration) {
        self.shared.newest.lock().unwrap().clear();
        let partitions = self.shared.load.partitions.len();
        until("a commit in every partition", patience, async || {
            let newest = self.shared.newest.lock().unwrap();
            let touched: HashSet<&String> = newest.keys().map(|(partition, _)| partition).collect();
            (touched.len() == partitions).then_some(())
        })
        .await;
    }

    /// Lets all writers and readers finish their present calls.
    pub(crate) async fn stop(mut self) -> Done {
        self.shared.over.store(true, Ordering::Relaxed);
        let mut history = History::default();
        while let Some(commits) = self.writers.join_next().await {
            history.commits.extend(commits.unwrap());
        }
        while let Some(ended) = self.readers.join_next().await {
            ended.unwrap();
        }
        let shared = &self.shared;
        assert!(
            shared.load.readers == 0 || shared.groups_seen.load(Ordering::Relaxed) > 0,
            "readers saw nothing"
        );
        Done {
            history,
            scans: shared.scans.load(Ordering::Relaxed),
            groups_seen: shared.groups_seen.load(Ordering::Relaxed),
        }
    }
}

/// Asserts that the future completes within the deadline.
pub(crate) async fn within_deadline<T>(
    what: &str,
    deadline: Duration,
    future: impl Future<Output = T>,
) -> (T, Duration) {
    let began = Instant::now();
    match timeout(deadline + SLACK, future).await {
        Ok(value) => (value, began.elapsed()),
        Err(_) => panic!("{what} was not over by its deadline of {deadline:?}"),
    }
}

async fn write(shared: Arc<Shared>, writer: u32, mut rng: fastrand::Rng) -> Vec<Commit> {
    let mut commits = Vec::new();
    for number in 0.. {
        if shared.over.load(Ordering::Relaxed) {
            break;
        }
        let group = GroupId {
            partition: rng.choice(&shared.load.partitions).unwrap().clone(),
            writer,
            number,
        };
        let rows = rng.u32(2..=5);
        let mut transaction = shared.table.transaction(group.partition.clone());
        for index in 0..rows {
            let put = Put::new(group.row(index)).cell(FAMILY, QUALIFIER, group.value(rows));
            transaction = transaction.put(put);
        }
        let (outcome, took) = within_deadline("commit", shared.load.deadline, transaction.commit()).await;
        let told = Told::of(&outcome);
        if told == Told::Committed {
            shared.acknowledged.fetch_add(1, Ordering::Relaxed);
            let key = (group.partition.clone(), writer);
            shared.newest.lock().unwrap().insert(key, number);
        }
        commits.push(Commit {
            group,
            rows,
            told,
            took,
            error: outcome.error().map(ToString::to_string),
        });
    }
    commits
}

/// Reads the newest groups of a random writer in a random partition, in either direction. One answer has all of them, so
/// it shows one moment: every group is whole or absent.
async fn read(shared: Arc<Shared>, mut rng: fastrand::Rng) {
    const BEHIND: u32 = 200;
    while !shared.over.load(Ordering::Relaxed) {
        let partition = rng.choice(&shared.load.partitions).unwrap().clone();
        let writer = rng.u32(..shared.load.writers);
        let key = (partition.clone(), writer);
        let newest = shared.newest.lock().unwrap().get(&key).copied().unwrap_or(0);
        let from = GroupId {
            partition: partition.clone(),
            writer,
            number: newest.saturating_sub(BEHIND),
        };
        let (first, end) = (from.to_string(), format!("{partition}-{writer:02}."));
        let is_reversed = rng.bool();
        let scan = if is_reversed {
            Scan::new()
                .start_row_exclusive(end)
                .stop_row_inclusive(first)
                .reversed()
        } else {
            Scan::new().start_row(first).stop_row(end)
        };
        let scanner = shared.table.table().scan(scan).unwrap();
        let Some(mut rows) = collect(scanner, &shared.load).await else {
            continue;
        };
        if is_reversed {
            rows.reverse();
        }
        assert!(
            rows.is_sorted_by(|row, next| row.key() < next.key()),
            "a row was scanned twice, or out of order"
        );
        let whole = check_whole(&rows);
        assert!(
            newest == 0 || whole > 0,
            "group {newest} of writer {writer} in {partition} was acknowledged, but is not seen"
        );
        shared.scans.fetch_add(1, Ordering::Relaxed);
        shared.groups_seen.fetch_add(whole, Ordering::Relaxed);
    }
}

/// Returns all rows of a scan, or `None` if it exceeded its deadline and the load allows that.
async fn collect(mut scanner: ResultScanner, load: &Load) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    loop {
        let (row, _) = within_deadline("scan", load.deadline, scanner.next()).await;
        match row {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => return Some(rows),
            Err(error) if load.may_run_out && error.kind() == ClientErrorKind::DeadlineExceeded => {
                return None;
            }
            Err(error) => panic!("a reader failed: {error}"),
        }
    }
}
