//! Batches and single transactions without records, in one call with others or alone, with and
//! without the endpoint; and snapshots meanwhile, while regions move, split and merge.
//!
//! Each group of a batch adds one to two counters of its partition and to a mark of its own, so in
//! every snapshot both counters are the number of marks. Single transactions have two rows of their
//! own, and may share calls.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use futures::future::join_all;
use hbase_fake::sim::World;
use hbase_txn::{
    Committed, OpenOptions, Outcome, PartitionedTable, SnapshotOptions,
    client::{Connection, Increment, Mutation, Put, Row},
};
use tokio::{
    task::LocalSet,
    time::{sleep, timeout},
};

use crate::bench::{FAMILY, connect, create_table};

const PARTITIONS: [&str; 4] = ["p00", "p01", "q00", "r00"];
const COUNTERS: [&str; 2] = ["x", "y"];
/// The two rows of a single transaction.
const SIDES: [&str; 2] = ["-a", "-b"];
/// A row whose value is no number, which the server refuses to increment.
const TEXT: &str = "text";
const WRITERS: usize = 4;
const READERS: usize = 2;
const ROUNDS: usize = 6;
const SNAPSHOTS: usize = 8;
/// Transactions of one partition that are committed at the same time.
const TOGETHER: usize = 5;

/// What a client knows of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// It is under way, or its answer was lost.
    Unknown,
    Applied,
    NotApplied,
}

type Known = Rc<RefCell<BTreeMap<String, Knowledge>>>;

struct Writer {
    number: usize,
    table: PartitionedTable,
    known: Known,
    deadline: Duration,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = create_table(&plain, "batches", &["p01", "q", "r"], |descriptor| descriptor).await;
    for partition in PARTITIONS {
        let text = Put::new(format!("{partition}{TEXT}")).cell(FAMILY, "q", "text");
        table.table().put(text).await.unwrap();
    }
    let known = Known::default();
    let deadline = Duration::from_millis(rng.u64(400..4_000));
    let tasks = LocalSet::new();
    for number in 0..WRITERS + READERS {
        let connection = connect(&world, &mut rng).await;
        let table = open(&connection, &table, &mut rng).await;
        let (known, rng) = (Rc::clone(&known), world.rng(1 + number as u64));
        if number < WRITERS {
            let writer = Writer {
                number,
                table: table.with_operation_timeout(deadline),
                known,
                deadline,
                rng,
            };
            tasks.spawn_local(writer.run());
        } else {
            tasks.spawn_local(read_often(table, known, rng));
        }
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    for partition in PARTITIONS {
        let end = table.snapshot(partition).await.unwrap();
        let applied = applied(end.rows(), partition);
        for (name, knowledge) in known
            .borrow()
            .iter()
            .filter(|(name, _)| name.starts_with(partition))
        {
            let is_right = match knowledge {
                Knowledge::Unknown => true,
                Knowledge::Applied => applied.contains(name),
                Knowledge::NotApplied => !applied.contains(name),
            };
            assert!(
                is_right,
                "{name} is known as {knowledge:?}; applied are {applied:?}"
            );
        }
        for name in &applied {
            assert!(known.borrow().contains_key(name), "no client has sent {name}");
        }
    }
}

async fn open(connection: &Connection, table: &PartitionedTable, rng: &mut Rng) -> PartitionedTable {
    let mut options = OpenOptions::new().concurrency(rng.usize(1..6));
    if rng.u8(..3) == 0 {
        options = options.without_admission();
    }
    if rng.u8(..3) == 0 {
        options = options.without_endpoint();
    }
    options.open(connection, table.name().clone()).await.unwrap()
}

impl Writer {
    async fn run(mut self) {
        for round in 0..ROUNDS {
            let name = format!("t{}-{round}", self.number);
            if self.rng.bool() {
                self.send_batch(&name).await;
            } else {
                self.send_together(&name).await;
            }
        }
    }

    fn patience(&mut self) -> Duration {
        match self.rng.u8(..8) {
            0 => Duration::from_micros(self.rng.u64(..50_000)),
            _ => 2 * self.deadline,
        }
    }

    fn note(&self, name: &str, knowledge: Knowledge) {
        self.known.borrow_mut().insert(name.to_owned(), knowledge);
    }

    fn learn(&self, name: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Committed(committed) => {
                check_results(committed);
                self.note(name, Knowledge::Applied);
            }
            outcome if outcome.is_not_applied() => self.note(name, Knowledge::NotApplied),
            outcome => {
                let error = outcome.error().unwrap();
                assert!(error.is_outcome_unknown(), "{error}");
            }
        }
    }

    /// Sends a batch of several partitions. In some of them the server refuses a mutation, and so
    /// the whole group.
    async fn send_batch(&mut self, name: &str) {
        let mut partitions = PARTITIONS.to_vec();
        self.rng.shuffle(&mut partitions);
        partitions.truncate(self.rng.usize(1..=PARTITIONS.len()));
        let mut mutations = Vec::new();
        let mut sizes = BTreeMap::new();
        for partition in &partitions {
            let is_refused = self.rng.u8(..6) == 0;
            let mark = format!("{partition}m{name}");
            let counters = COUNTERS.map(|counter| format!("{partition}{counter}"));
            let group = increments(partition, counters.into_iter().chain([mark.clone()]), is_refused);
            self.note(&mark, Knowledge::Unknown);
            sizes.insert(*partition, (group.len(), is_refused));
            mutations.extend(group);
        }
        self.rng.shuffle(&mut mutations);
        let mut order: Vec<String> = Vec::new();
        for mutation in &mutations {
            let partition = String::from_utf8_lossy(&mutation.row()[..3]).into_owned();
            if !order.contains(&partition) {
                order.push(partition);
            }
        }
        let mut batch = self.table.batch();
        batch.extend(mutations);
        let patience = self.patience();
        let Ok(outcomes) = timeout(patience, batch.commit()).await else {
            assert!(patience < self.deadline, "batch {name} does not end");
            return;
        };
        let answered: Vec<String> = outcomes.iter().map(|group| prefix(&group.partition)).collect();
        assert_eq!(answered, order, "the groups of batch {name}");
        for group in outcomes {
            let partition = prefix(&group.partition);
            let (size, is_refused) = sizes[&*partition];
            assert_eq!(group.rows, size, "{partition}m{name}");
            assert!(
                !(is_refused && group.outcome.is_committed()),
                "{partition}m{name} is committed without one of its mutations"
            );
            self.learn(&format!("{partition}m{name}"), &group.outcome);
        }
    }

    /// Commits several transactions of one partition at the same time. The server refuses some, and
    /// so the call that they share with others.
    async fn send_together(&mut self, name: &str) {
        let partition = *self.rng.choice(&PARTITIONS[..2]).unwrap();
        let mut commits = Vec::new();
        for number in 0..TOGETHER {
            let mark = format!("{partition}s{name}-{number}");
            let is_refused = self.rng.u8(..8) == 0;
            self.note(&mark, Knowledge::Unknown);
            let pair = SIDES.map(|side| format!("{mark}{side}"));
            let mutations = increments(partition, pair, is_refused);
            let transaction = mutations
                .into_iter()
                .fold(self.table.transaction(partition), hbase_txn::Transaction::add);
            commits.push((mark, self.patience(), transaction));
        }
        let this = &*self;
        join_all(commits.into_iter().map(async |(mark, patience, transaction)| {
            match timeout(patience, transaction.commit()).await {
                Ok(outcome) => this.learn(&mark, &outcome),
                Err(_) => assert!(patience < this.deadline, "{mark} does not end"),
            }
        }))
        .await;
    }
}

/// Returns increments of these rows, and of one that the server refuses.
fn increments(partition: &str, rows: impl IntoIterator<Item = String>, is_refused: bool) -> Vec<Mutation> {
    let refused = is_refused.then(|| format!("{partition}{TEXT}"));
    let rows = rows.into_iter().chain(refused);
    let increments = rows.map(|row| Increment::new(row).column(FAMILY, "q", 1));
    increments.map(Mutation::from).collect()
}

/// Without the endpoint the new values are returned.
fn check_results(committed: &Committed) {
    let results: Vec<i64> = committed
        .results
        .iter()
        .filter(|row| row.key().len() == 4)
        .map(number)
        .collect();
    assert!(
        results.is_sorted_by(|one, other| one == other),
        "counters {results:?} of {committed:?}"
    );
}

async fn read_often(table: PartitionedTable, known: Known, mut rng: Rng) {
    for _ in 0..SNAPSHOTS {
        sleep(Duration::from_millis(rng.u64(..300))).await;
        let partition = *rng.choice(&PARTITIONS).unwrap();
        let before = known.borrow().clone();
        let options = SnapshotOptions::new().caching(rng.u32(1..20));
        let Ok(snapshot) = table.snapshot_with(partition, options).await else {
            continue;
        };
        let applied = applied(snapshot.rows(), partition);
        let of_partition = before.iter().filter(|(name, _)| name.starts_with(partition));
        for (name, knowledge) in of_partition {
            let is_missing = *knowledge == Knowledge::Applied && !applied.contains(name);
            assert!(
                !is_missing,
                "{name} was applied before the snapshot of {applied:?}"
            );
        }
    }
}

/// Checks the rows of a partition at one moment. Returns the transactions that were applied.
fn applied(rows: &[Row], partition: &str) -> BTreeSet<String> {
    let (mut numbers, mut applied) = (BTreeMap::new(), BTreeSet::new());
    for row in rows {
        let key = String::from_utf8_lossy(row.key()).into_owned();
        if key != format!("{partition}{TEXT}") {
            numbers.insert(key, number(row));
        }
    }
    let counters = COUNTERS.map(|counter| numbers.remove(&format!("{partition}{counter}")).unwrap_or(0));
    assert!(
        numbers.values().all(|times| *times == 1),
        "some are applied more than once: {numbers:?}"
    );
    let mut groups = 0;
    for key in numbers.keys() {
        let name = SIDES.iter().find_map(|side| key.strip_suffix(side));
        groups += i64::from(name.is_none());
        let name = name.unwrap_or(key).to_owned();
        let is_whole = &name == key
            || SIDES
                .iter()
                .all(|side| numbers.contains_key(&format!("{name}{side}")));
        assert!(is_whole, "a part of {name} is missing: {numbers:?}");
        applied.insert(name);
    }
    assert_eq!(
        counters, [groups; 2],
        "the counters of {partition} and its groups: {numbers:?}"
    );
    applied
}

fn number(row: &Row) -> i64 {
    i64::from_be_bytes(row.value(FAMILY, "q").unwrap()[..].try_into().unwrap())
}

fn prefix(partition: &hbase_txn::Partition) -> String {
    String::from_utf8_lossy(partition.prefix()).into_owned()
}
