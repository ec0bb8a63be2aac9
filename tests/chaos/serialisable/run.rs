//! Tasks that run a number of transactions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::{
    Error, Outcome, PartitionedTable, Settled, TableDescriptorExt, TransactionId, UpdateOptions, Updated,
    client::{Append, Condition, Connection, Put},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::log::Log;
use crate::{
    cluster::{FAMILY, PATIENCE, QUALIFIER, TestCluster, create_table_as, drop_table, until},
    lost_answers::faults::Faults,
    proxy::Proxy,
    regions::Shuffler,
    serialisability::{
        history::{Fate, Transaction},
        recorder::{Recorder, View, key, lists},
        shapes::{Stop, Work},
    },
    settings::Settings,
    workload::within_deadline,
};

const TASKS: usize = 16;
const PARTITIONS: usize = 8;
/// The time limit of one call. A lost answer blocks its partition for that time.
const RPC_TIMEOUT: Duration = Duration::from_millis(200);
/// The deadline of one transaction.
const DEADLINE: Duration = Duration::from_secs(6);

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) test: &'static str,
    /// Whether partitions have versions.
    pub(crate) versioned: bool,
    /// Whether transactions are updates; otherwise the tasks read, and commit changes that depend
    /// on the reads.
    pub(crate) updates: bool,
    pub(crate) upheaval: Upheaval,
}

/// The faults during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upheaval {
    None,
    /// Answers are lost, and regions move.
    Faults,
    /// Region servers are killed too.
    Kills,
}

struct Shared {
    plan: Plan,
    /// Opened by two clients, both behind the proxy.
    tables: [PartitionedTable; 2],
    log: Log,
    began: Instant,
    counts: Counts,
    over: AtomicBool,
}

/// The outcomes of transactions.
#[derive(Debug, Default)]
struct Counts {
    ended: AtomicUsize,
    /// Attempts of updates that had a conflict or a lost answer.
    again: AtomicUsize,
    gave_up: AtomicUsize,
    dropped: AtomicUsize,
    settled: AtomicUsize,
}

/// Runs this many transactions a round, and returns the log.
pub(crate) async fn run(cluster: &TestCluster, settings: &Settings, plan: Plan, transactions: usize) -> Log {
    let plain = cluster.connect().await;
    let table = create(&plain, settings, plan).await;
    let proxy = Proxy::new();
    let mut connections = Vec::new();
    let mut tables = Vec::new();
    for _ in 0..2 {
        let connection = connect(cluster, &proxy).await;
        let table = PartitionedTable::open(&connection, table.name().clone()).await;
        tables.push(table.unwrap().with_operation_timeout(DEADLINE));
        connections.push(connection);
    }
    let shared = Arc::new(Shared {
        plan,
        tables: tables.try_into().unwrap(),
        log: Log::new(plan.test, settings),
        began: Instant::now(),
        counts: Counts::default(),
        over: AtomicBool::new(false),
    });
    let mut shuffler = Shuffler::new(&plain, table.name(), settings.rng(77));
    let mut faults = None;
    for round in 0..settings.rounds {
        // New partitions, so that lists stay short.
        let partitions: Vec<String> = ('a'..)
            .take(PARTITIONS)
            .map(|region| format!("{region}{round:02}"))
            .collect();
        if plan.upheaval != Upheaval::None && faults.is_none() {
            faults = Some(Faults::begin(&proxy, settings.rng(0)));
        }
        let mut tasks = JoinSet::new();
        shared.over.store(false, Ordering::Relaxed);
        for task in 0..TASKS {
            let rng = settings.rng(1 + u64::from(round) * 1_000 + task as u64);
            tasks.spawn(transact_on(
                Arc::clone(&shared),
                (round, task),
                partitions.clone(),
                rng,
            ));
        }
        let before = shared.counts.ended.load(Ordering::Relaxed);
        let goal = |part: usize, parts: usize| before + transactions * part / parts;
        if plan.upheaval != Upheaval::None {
            for part in 1..4 {
                shared.goes_on_to(goal(part, 4), &mut tasks).await;
                shuffler.move_one().await;
            }
        }
        if plan.upheaval == Upheaval::Kills {
            let server = shuffler.rng.u16(1..=3);
            cluster.kill(server).await;
            let soon = shared.counts.ended.load(Ordering::Relaxed) + transactions / 8;
            shared.goes_on_to(soon, &mut tasks).await;
            cluster.start(server).await;
            cluster.settle(&plain).await;
        }
        shared.goes_on_to(goal(1, 1), &mut tasks).await;
        shared.over.store(true, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        // Requests in flight may still be applied.
        until("end of all detours", PATIENCE, async || {
            (proxy.under_way() == 0).then_some(())
        })
        .await;
        for partition in &partitions {
            let end = table.snapshot(partition.clone()).await.unwrap();
            shared.log.check(partition, lists(&end));
        }
    }
    println!(
        "{}: {}; {:?}; {:?}; faults {:?}",
        plan.test,
        shared.log.summary(),
        shared.counts,
        shuffler.done,
        faults.map(|faults| faults.injected()),
    );
    drop_table(&plain, &table).await;
    for connection in connections {
        connection.close().await;
    }
    plain.close().await;
    let shared = Arc::into_inner(shared).expect("a task is left");
    if plan.updates {
        assert!(
            shared.counts.again.into_inner() > 0,
            "nobody was in anybody's way"
        );
    }
    shared.log
}

/// Creates a table for histories, with several partitions in each region.
pub(crate) async fn create(connection: &Connection, settings: &Settings, plan: Plan) -> PartitionedTable {
    let boundaries = ["c", "e"].map(str::to_owned);
    let name = create_table_as(connection, settings, plan.test, &boundaries, |descriptor| {
        let descriptor = descriptor.with_record_family();
        if plan.versioned {
            descriptor.with_partition_version()
        } else {
            descriptor
        }
    });
    PartitionedTable::open(connection, name.await.unwrap())
        .await
        .unwrap()
}

async fn connect(cluster: &TestCluster, proxy: &Proxy) -> Connection {
    let config = cluster
        .config()
        .with_read_timeout(RPC_TIMEOUT)
        .with_write_timeout(RPC_TIMEOUT);
    let connection = Connection::builder(config).connector(proxy.clone()).connect();
    connection.await.unwrap()
}

impl Shared {
    /// Waits until this many transactions have ended.
    async fn goes_on_to(&self, transactions: usize, tasks: &mut JoinSet<()>) {
        until("further transactions", PATIENCE, async || {
            if let Some(ended) = tasks.try_join_next() {
                // The cause is mostly its panic.
                ended.unwrap();
                panic!("a task ended early");
            }
            (self.counts.ended.load(Ordering::Relaxed) >= transactions).then_some(())
        })
        .await;
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn note(&self, work: &Work, began: Duration, mut attempts: Vec<Transaction>, last: Fate) {
        for attempt in &mut attempts {
            attempt.began = began;
            if last != Fate::Unknown {
                attempt.ended = self.now();
            }
        }
        let again = attempts.len().saturating_sub(1);
        self.counts.again.fetch_add(again, Ordering::Relaxed);
        self.log.note(&work.partition, attempts, last);
    }
}

async fn transact_on(
    shared: Arc<Shared>,
    (round, task): (u32, usize),
    partitions: Vec<String>,
    mut rng: Rng,
) {
    for number in 0.. {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("{round}t{task:02}-{number}");
        let work = Work::choose(name, &partitions, number * TASKS / PARTITIONS, &mut rng);
        let table = rng.choice(&shared.tables).unwrap();
        match (shared.plan.updates, rng.u32(..10)) {
            (true, 0) => commit_plain(&shared, table, &work, rng.bool()).await,
            (true, _) => update(&shared, table, &work, &mut rng).await,
            (false, _) => read_then_commit(&shared, table, &work).await,
        }
        shared.counts.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs an update. One in twenty is dropped midway; some have an id with which they can then be
/// settled.
async fn update(shared: &Shared, table: &PartitionedTable, work: &Work, rng: &mut Rng) {
    let began = shared.now();
    let mut attempts: Vec<Transaction> = Vec::new();
    let patience = match rng.u32(..20) {
        0 => Duration::from_millis(rng.u64(1..100)),
        _ => DEADLINE * 2,
    };
    // A transaction that only deletes leaves no element that would identify it.
    let has_id = work.may_only_delete() || rng.bool();
    let id = has_id.then(|| TransactionId::new(work.name.clone()).unwrap());
    let options = match &id {
        Some(id) => UpdateOptions::new().id(id.clone()),
        None => UpdateOptions::new(),
    };
    // Some have hardly time to settle their outcome.
    let time = match rng.u32(..4) {
        0 => Duration::from_millis(rng.u64(250..1_200)),
        _ => DEADLINE,
    };
    let hurried = table.clone().with_operation_timeout(time);
    let update = hurried.update_with(work.partition.clone(), options, |view| {
        let name = format!("{}.{}", work.name, attempts.len());
        let mut recorder = Recorder::new(View::Tracked(view), name);
        let done = work.perform(&mut recorder);
        attempts.push(recorder.finish().0);
        done
    });
    let deadline = within_deadline("update", time, timeout(patience, update));
    let fate = match deadline.await.0 {
        Ok(Ok(Updated::Done { .. })) => Some(Fate::Committed),
        Ok(Ok(other)) => panic!("{}: {other:?}", work.name),
        Ok(Err(Stop::ThoughtBetter)) => Some(Fate::NotApplied),
        Ok(Err(Stop::Failed(error))) => {
            shared.counts.gave_up.fetch_add(1, Ordering::Relaxed);
            (!error.is_outcome_unknown()).then_some(Fate::NotApplied)
        }
        Err(_) => {
            shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
            None
        }
    };
    let fate = match (fate, &id) {
        (Some(fate), _) => fate,
        (None, Some(id)) => settle(shared, table, work, id).await,
        (None, None) => Fate::Unknown,
    };
    shared.note(work, began, attempts, fate);
}

/// Runs a transaction that is not an update, with or without a condition.
async fn commit_plain(shared: &Shared, table: &PartitionedTable, work: &Work, with_condition: bool) {
    let began = shared.now();
    let element = format!("{}.0", work.name);
    let mut noted = Transaction::new(element.clone());
    let id = TransactionId::new(work.name.clone()).unwrap();
    let mut transaction = table.transaction(work.partition.clone()).id(id.clone());
    for list in ["l0", "l1"].map(|list| format!("{}{list}", work.partition)) {
        noted.append(key(&list, QUALIFIER), &element);
        let append = Append::new(list).cell(FAMILY, QUALIFIER, format!("{element},"));
        transaction = transaction.append(append);
    }
    if with_condition {
        let name = work.wanted_name();
        noted.read(key(&name, QUALIFIER), Vec::new());
        noted.append(key(&name, QUALIFIER), &element);
        transaction = transaction
            .condition(Condition::absent(name.clone(), FAMILY, QUALIFIER))
            .put(Put::new(name).cell(FAMILY, QUALIFIER, format!("{element},")));
    }
    let fate = match within_deadline("commit", DEADLINE, transaction.commit()).await.0 {
        Outcome::Committed(_) => Fate::Committed,
        outcome if outcome.is_not_applied() => Fate::NotApplied,
        _ => settle(shared, table, work, &id).await,
    };
    shared.note(work, began, vec![noted], fate);
}

/// Settles the outcome, without a time limit.
async fn settle(shared: &Shared, table: &PartitionedTable, work: &Work, id: &TransactionId) -> Fate {
    shared.counts.settled.fetch_add(1, Ordering::Relaxed);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match table.settle(work.partition.clone(), id).await {
            Ok(Settled::Committed) => return Fate::Committed,
            Ok(Settled::NotApplied) => return Fate::NotApplied,
            Err(error) => {
                let in_time = error.is_outcome_unknown() && Instant::now() < deadline;
                assert!(in_time, "{} can't be settled: {error}", work.name);
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Runs a transaction without regard to concurrent ones.
async fn read_then_commit(shared: &Shared, table: &PartitionedTable, work: &Work) {
    let began = shared.now();
    let (attempt, fate) = naively(
        table,
        &work.partition,
        format!("{}.0", work.name),
        |recorder| match work.perform(recorder) {
            Ok(()) => Ok(true),
            Err(Stop::ThoughtBetter) => Ok(false),
            Err(Stop::Failed(error)) => Err(error),
        },
    )
    .await;
    shared.note(work, began, vec![attempt], fate);
}

/// Reads a snapshot, and commits changes that depend on it without conditions. The closure returns
/// whether to commit.
pub(crate) async fn naively(
    table: &PartitionedTable,
    partition: &str,
    name: String,
    perform: impl FnOnce(&mut Recorder<'_, '_>) -> Result<bool, Error>,
) -> (Transaction, Fate) {
    let snapshot = table.snapshot(partition.to_owned()).await.unwrap();
    let (performed, attempt, changes) = {
        let view = View::Naive {
            snapshot: &snapshot,
            changes: Vec::new(),
        };
        let mut recorder = Recorder::new(view, name);
        let performed = perform(&mut recorder).unwrap();
        let (attempt, changes) = recorder.finish();
        (performed, attempt, changes)
    };
    if !performed {
        return (attempt, Fate::NotApplied);
    }
    let mut transaction = table.transaction(partition.to_owned());
    let has_changes = !changes.is_empty();
    for change in changes {
        transaction = transaction.add(change);
    }
    if has_changes {
        match transaction.commit().await {
            Outcome::Committed(_) => {}
            // A busy machine may take longer than the short time of a call.
            Outcome::Unknown(_) => return (attempt, Fate::Unknown),
            outcome => panic!("{outcome}"),
        }
    }
    (attempt, Fate::Committed)
}
