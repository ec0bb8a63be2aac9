//! Tasks that commit, settle, read and delete until they are stopped.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::{
    Outcome, PartitionedTable, Settled, TableDescriptorExt, Unsettled,
    client::{Connection, Delete, Scan, TableDescriptor},
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    faults::{Faults, RPC_TIMEOUT},
    ledger::{self, Kind, Recording, Work, accounts, check_balance, marks_row},
    log::{Log, Told},
};
use crate::{
    cluster::{FAMILY, PATIENCE, TestCluster, until},
    proxy::Proxy,
    settings::Settings,
    workload::within_deadline,
};

const TASKS: u32 = 32;
const READERS: u32 = 2;
const PARTITIONS: usize = 48;

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) test: &'static str,
    /// Whether transactions have a record. Without, half of the lost answers are blindly sent
    /// again, and half are counted as failures.
    pub(crate) recorded: bool,
    /// Whether other clients delete rows meanwhile.
    pub(crate) foreign_hands: bool,
    /// Whether servers are killed.
    pub(crate) kill: bool,
}

/// A run under faults.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) table: PartitionedTable,
    pub(crate) partitions: Vec<String>,
    pub(crate) faults: Faults,
    shared: Arc<Shared>,
    proxy: Proxy,
    tasks: JoinSet<()>,
    settlers: JoinSet<()>,
    connections: Vec<Connection>,
}

struct Shared {
    plan: Plan,
    partitions: Vec<String>,
    /// Opened by two clients, both behind the proxy.
    tables: [PartitionedTable; 2],
    /// Opened by a client without faults.
    plain: PartitionedTable,
    log: Log,
    ended: AtomicUsize,
    snapshots: AtomicUsize,
    deleted: AtomicUsize,
    over: AtomicBool,
}

impl Run {
    pub(crate) async fn begin(cluster: &TestCluster, settings: &Settings, plan: Plan) -> Self {
        let plain = cluster.connect().await;
        let partitions = ledger::partitions(PARTITIONS);
        let table = ledger::create(&plain, settings, plan.test, &partitions).await;
        let proxy = Proxy::new();
        let mut connections = vec![plain];
        let mut tables = Vec::new();
        for _ in 0..2 {
            let config = cluster
                .config()
                .with_read_timeout(RPC_TIMEOUT)
                .with_write_timeout(RPC_TIMEOUT);
            let connection = Connection::builder(config)
                .connector(proxy.clone())
                .connect()
                .await
                .unwrap();
            tables.push(
                PartitionedTable::open(&connection, table.name().clone())
                    .await
                    .unwrap(),
            );
            connections.push(connection);
        }
        let shared = Arc::new(Shared {
            plan,
            partitions: partitions.clone(),
            tables: tables.try_into().unwrap(),
            plain: table.clone(),
            log: Log::new(plan.test, settings),
            ended: AtomicUsize::new(0),
            snapshots: AtomicUsize::new(0),
            deleted: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let faults = Faults::begin(&proxy, settings.rng(0));
        let (to_settle, unsettled) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let rng = settings.rng(1 + u64::from(task));
            tasks.spawn(commit_on(Arc::clone(&shared), task, rng, to_settle.clone()));
        }
        for reader in 0..READERS {
            let rng = settings.rng(1_000 + u64::from(reader));
            if plan.foreign_hands {
                tasks.spawn(delete_on(Arc::clone(&shared), rng))
            } else {
                tasks.spawn(read_on(Arc::clone(&shared), rng))
            };
        }
        let mut settlers = JoinSet::new();
        settlers.spawn(settle_all(Arc::clone(&shared), unsettled, settings.rng(2_000)));
        Self {
            plan,
            table,
            partitions,
            faults,
            shared,
            proxy,
            tasks,
            settlers,
            connections,
        }
    }

    /// Waits until this many commits have ended since the beginning. Fails if none ends within
    /// `patience`.
    pub(crate) async fn goes_on_to(&mut self, commits: usize, patience: Duration) {
        while self.ended() < commits {
            let before = self.ended();
            until("further commit", patience, async || {
                for tasks in [&mut self.tasks, &mut self.settlers] {
                    if let Some(ended) = tasks.try_join_next() {
                        // The cause is mostly its panic.
                        ended.unwrap();
                        panic!("a task ended early");
                    }
                }
                (self.ended() > before).then_some(())
            })
            .await;
        }
    }

    pub(crate) fn ended(&self) -> usize {
        self.shared.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Stops the tasks, then the faults; then every outcome must become known.
    pub(crate) async fn stop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.proxy.pass_all();
        let settled = timeout(PATIENCE, self.settlers.join_next()).await;
        settled
            .expect("an unknown outcome was not settled")
            .unwrap()
            .unwrap();
        until("end of all detours", PATIENCE, async || {
            (self.proxy.under_way() == 0).then_some(())
        })
        .await;
        println!(
            "{}: {}; faults {:?}; {} snapshots, {} deletes",
            self.plan.test,
            self.shared.log.summary(),
            self.faults.injected(),
            self.shared.snapshots.load(Ordering::Relaxed),
            self.shared.deleted.load(Ordering::Relaxed),
        );
        if self.plan.foreign_hands {
            assert!(self.shared.deleted.load(Ordering::Relaxed) > 0);
        } else {
            assert!(self.shared.snapshots.load(Ordering::Relaxed) > 0);
        }
    }

    /// Ends a run without violations.
    pub(crate) async fn end(mut self) {
        let plain = self.connections.remove(0);
        crate::cluster::drop_table(&plain, &self.table).await;
        for connection in self.connections {
            connection.close().await;
        }
        plain.close().await;
        let shared = Arc::into_inner(self.shared).expect("a task is left");
        shared.log.forget();
    }
}

/// A transaction with an unknown outcome, and since when.
type Open = (Work, Unsettled, Instant);

async fn commit_on(shared: Arc<Shared>, task: u32, mut rng: Rng, to_settle: UnboundedSender<Open>) {
    for number in 0.. {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("t{task:02}-{number}");
        let work = Work::choose(name, &shared.partitions, shared.plan.recorded, &mut rng);
        let own = rng.usize(..2);
        match work.kind {
            Kind::Twice => {
                tokio::join!(
                    commit(&shared, &work, 0, &to_settle),
                    commit(&shared, &work, 1, &to_settle),
                );
            }
            _ if work.recording == Recording::None => {
                let retries = rng.bool();
                while commit_bare(&shared, &work, own, retries).await.is_continue() {}
            }
            _ => commit(&shared, &work, own, &to_settle).await,
        }
        shared.ended.fetch_add(1, Ordering::Relaxed);
    }
}

async fn commit(shared: &Shared, work: &Work, client: usize, to_settle: &UnboundedSender<Open>) {
    let began = Instant::now();
    let transaction = work.transaction(&shared.tables[client]);
    let (outcome, took) = within_deadline("commit", work.patience, transaction.commit()).await;
    let told = match outcome {
        Outcome::Unknown(unsettled) => {
            to_settle.send((work.clone(), unsettled, began)).unwrap();
            return;
        }
        _ => told(&outcome),
    };
    shared.log.note(work, told, took, outcome.error());
}

fn told(outcome: &Outcome) -> Told {
    match outcome {
        Outcome::Committed(committed) if committed.replayed => Told::Replayed,
        Outcome::Committed(_) => Told::Committed,
        Outcome::Rejected(_) => Told::Rejected,
        outcome if outcome.is_not_applied() => Told::NotApplied,
        outcome => panic!("neither known nor unknown: {outcome}"),
    }
}

/// The usual treatment without a record: send it again, or count it as failed.
async fn commit_bare(shared: &Shared, work: &Work, client: usize, retries: bool) -> ControlFlow<()> {
    let transaction = work.transaction(&shared.tables[client]);
    let (outcome, took) = within_deadline("commit", work.patience, transaction.commit()).await;
    let told = match outcome {
        Outcome::Unknown(_) if retries && !shared.over.load(Ordering::Relaxed) => {
            return ControlFlow::Continue(());
        }
        Outcome::Unknown(_) => Told::CalledFailed,
        _ => told(&outcome),
    };
    shared.log.note(work, told, took, outcome.error());
    ControlFlow::Break(())
}

/// Settles unknown outcomes at once, while their requests may still be in flight.
async fn settle_all(shared: Arc<Shared>, mut unsettled: UnboundedReceiver<Open>, mut rng: Rng) {
    let mut settling = JoinSet::new();
    while let Some(open) = unsettled.recv().await {
        settling.spawn(settle(Arc::clone(&shared), open, rng.bool()));
        while let Some(settled) = settling.try_join_next() {
            settled.unwrap();
        }
    }
    while let Some(settled) = settling.join_next().await {
        settled.unwrap();
    }
}

async fn settle(shared: Arc<Shared>, (work, unsettled, began): Open, by_another: bool) {
    let id = unsettled.id().unwrap().clone();
    loop {
        // The handle has all information of the commit; another process has only the id.
        let settled = if by_another {
            let table = shared.tables[1].clone().with_operation_timeout(work.patience);
            table.settle(work.partition.clone(), &id).await
        } else {
            unsettled.settle().await
        };
        let told = match settled {
            Ok(Settled::Committed) => Told::SettledCommitted,
            Ok(Settled::NotApplied) => Told::SettledNotApplied,
            Err(error) => {
                assert!(error.is_outcome_unknown(), "{error}");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        shared
            .log
            .note(&work, told, began.elapsed(), Some(unsettled.error()));
        return;
    }
}

async fn read_on(shared: Arc<Shared>, mut rng: Rng) {
    let table = shared
        .plain
        .clone()
        .with_operation_timeout(Duration::from_secs(5));
    while !shared.over.load(Ordering::Relaxed) {
        let partition = rng.choice(&shared.partitions).unwrap();
        // A region may have no server for longer than the deadline.
        if let Ok(snapshot) = accounts(&table, partition).await {
            check_balance(partition, &snapshot);
            shared.snapshots.fetch_add(1, Ordering::Relaxed);
        }
        // Leaves most of the processor time to the writers.
        sleep(Duration::from_millis(5)).await;
    }
}

/// Deletes rows like a client without transactions: a row, a record, or a whole partition, but no
/// marks.
async fn delete_on(shared: Arc<Shared>, mut rng: Rng) {
    let table = shared
        .plain
        .table()
        .clone()
        .with_operation_timeout(Duration::from_secs(5));
    while !shared.over.load(Ordering::Relaxed) {
        let partition = rng.choice(&shared.partitions).unwrap();
        let whole = rng.u32(..10) == 0;
        let mut scan = Scan::prefix(partition.clone());
        if rng.bool() && !whole {
            scan = scan.family(TableDescriptor::RECORD_FAMILY);
        }
        let mut rows = Vec::new();
        let mut scanner = table.scan(scan).unwrap();
        while let Ok(Some(row)) = scanner.next().await {
            rows.push(row.key().clone());
        }
        if !whole && !rows.is_empty() {
            rows = vec![rng.choice(&rows).unwrap().clone()];
        }
        for row in rows {
            let delete = if row == marks_row(partition) {
                Delete::new(row).family(FAMILY)
            } else {
                Delete::new(row)
            };
            let deleted = table.delete(delete).await;
            shared
                .deleted
                .fetch_add(usize::from(deleted.is_ok()), Ordering::Relaxed);
        }
        sleep(Duration::from_millis(2)).await;
    }
}
