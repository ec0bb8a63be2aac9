//! Updates, and transactions without reads, on partitions that they contend for.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    Outcome, PartitionedTable, Settled, TableDescriptorExt, TransactionId, UpdateOptions, Updated,
    client::{Append, Condition, Put},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::{FAMILY, MAX_SKEW, connect, create_table, skew_clocks},
    serialisability::{
        QUALIFIER,
        checker::check,
        history::{Fate, History, Transaction},
        recorder::{Recorder, View, key, lists},
        shapes::{Stop, Work},
    },
};

const PARTITIONS: [&str; 3] = ["a00", "c00", "e00"];
const TASKS: usize = 6;
const TRANSACTIONS: usize = 8;

struct Bench {
    /// Opened by two clients.
    tables: [PartitionedTable; 2],
    histories: RefCell<BTreeMap<String, History>>,
    began: Instant,
    deadline: Duration,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    skew_clocks(&world, &plain, MAX_SKEW, &mut rng).await;
    let versioned = |descriptor: hbase_txn::client::TableDescriptor| descriptor.with_partition_version();
    let table = create_table(&plain, "updates", &["b", "d"], versioned).await;
    let mut tables = Vec::new();
    for _ in 0..2 {
        let connection = connect(&world, &mut rng).await;
        tables.push(
            PartitionedTable::open(&connection, table.name().clone())
                .await
                .unwrap(),
        );
    }
    let deadline = Duration::from_millis(rng.u64(500..6_000));
    let bench = Rc::new(Bench {
        tables: tables
            .into_iter()
            .map(|table| table.with_operation_timeout(deadline))
            .collect::<Vec<_>>()
            .try_into()
            .unwrap(),
        histories: RefCell::default(),
        began: Instant::now(),
        deadline,
    });
    world.begin_faults();
    let tasks = LocalSet::new();
    for task in 0..TASKS {
        tasks.spawn_local(Rc::clone(&bench).transact(task, world.rng(1 + task as u64)));
    }
    tasks.await;
    world.end_faults().await;
    for (partition, mut history) in bench.histories.take() {
        let end = table.snapshot(partition.clone()).await.unwrap();
        history.end = lists(&end);
        history.settle_unknown();
        let report = check(&history);
        assert!(
            report.anomalies.is_empty(),
            "{report}\n{}\n{history}",
            report.anomalies[0]
        );
    }
}

impl Bench {
    async fn transact(self: Rc<Self>, task: usize, mut rng: Rng) {
        let partitions = PARTITIONS.map(str::to_owned);
        for number in 0..TRANSACTIONS {
            let work = Work::choose(format!("t{task}-{number}"), &partitions, number * 2, &mut rng);
            let table = rng.choice(&self.tables).unwrap();
            let began = self.began.elapsed();
            let (mut attempts, last) = match rng.u8(..8) {
                0 => self.commit(table, &work, rng.bool()).await,
                _ => self.update(table, &work, &mut rng).await,
            };
            let ended = self.began.elapsed();
            let count = attempts.len();
            for (number, attempt) in attempts.iter_mut().enumerate() {
                attempt.began = began;
                attempt.fate = if number + 1 == count {
                    last
                } else {
                    Fate::NotApplied
                };
                if last != Fate::Unknown {
                    attempt.ended = ended;
                }
            }
            let mut histories = self.histories.borrow_mut();
            let history = histories.entry(work.partition.clone()).or_default();
            history.transactions.extend(attempts);
        }
    }

    /// Runs an update. Some are dropped midway; some have an id with which they can then be
    /// settled.
    async fn update(&self, table: &PartitionedTable, work: &Work, rng: &mut Rng) -> (Vec<Transaction>, Fate) {
        let mut attempts: Vec<Transaction> = Vec::new();
        let patience = match rng.u8(..10) {
            0 => Duration::from_micros(rng.u64(..50_000)),
            _ => 2 * self.deadline,
        };
        // A transaction that only deletes leaves no element that would identify it.
        let has_id = work.may_only_delete() || rng.bool();
        let id = has_id.then(|| TransactionId::new(work.name.clone()).unwrap());
        let mut options = UpdateOptions::new();
        if let Some(id) = &id {
            options = options.id(id.clone());
        }
        if rng.bool() {
            // All rows of the scenario. The version is read apart from a range.
            options = options
                .start_row(work.partition.clone())
                .stop_row(format!("{}~", work.partition));
        }
        let settles = rng.u8(..3) == 0;
        let pause = Duration::from_micros(rng.u64(..100_000));
        let other = rng.choice(&self.tables).unwrap();
        let update = table.update_with(work.partition.clone(), options, |view| {
            let name = format!("{}.{}", work.name, attempts.len());
            let mut recorder = Recorder::new(View::Tracked(view), name);
            let done = work.perform(&mut recorder);
            attempts.push(recorder.finish().0);
            done
        });
        // Another process may settle it meanwhile.
        let settling = async {
            match id.as_ref().filter(|_| settles) {
                Some(id) => {
                    sleep(pause).await;
                    Some(settle(other, work, id).await)
                }
                None => None,
            }
        };
        // The update begins first, so that a settlement holds for it.
        let (updated, settled) = tokio::join!(biased; timeout(patience, update), settling);
        let writes = attempts.last().is_some_and(|attempt| !attempt.writes.is_empty());
        let fate = match updated {
            Ok(Ok(Updated::Done { .. })) => {
                let is_settled = writes && settled == Some(Fate::NotApplied);
                assert!(!is_settled, "{} was settled as not applied", work.name);
                Some(Fate::Committed)
            }
            Ok(Ok(other)) => panic!("{}: {other:?}", work.name),
            Ok(Err(Stop::ThoughtBetter)) => Some(Fate::NotApplied),
            Ok(Err(Stop::Failed(error))) => (!error.is_outcome_unknown()).then_some(Fate::NotApplied),
            Err(_) => {
                assert!(patience < self.deadline, "{} does not end", work.name);
                None
            }
        };
        let fate = match (fate, &id) {
            (Some(fate), _) => fate,
            (None, Some(_)) if settled.is_some() => settled.unwrap_or(Fate::Unknown),
            (None, Some(id)) => settle(table, work, id).await,
            (None, None) => Fate::Unknown,
        };
        (attempts, fate)
    }

    /// Commits a transaction that is not an update, with or without a condition.
    async fn commit(
        &self,
        table: &PartitionedTable,
        work: &Work,
        with_condition: bool,
    ) -> (Vec<Transaction>, Fate) {
        let element = format!("{}.0", work.name);
        let mut noted = Transaction::new(element.clone());
        let id = TransactionId::new(work.name.clone()).unwrap();
        let mut transaction = table.transaction(work.partition.clone()).id(id.clone());
        for list in ["l0", "l1"].map(|list| format!("{}{list}", work.partition)) {
            noted.append(key(&list, QUALIFIER), &element);
            let append = Append::new(list).cell(FAMILY, QUALIFIER, format!("{element},"));
            transaction = transaction.append(append);
        }
        // Updates that have read the range must notice this row.
        let row = format!("{}r{element}", work.partition);
        noted.append(key(&row, QUALIFIER), &element);
        transaction = transaction.put(Put::new(row).cell(FAMILY, QUALIFIER, format!("{element},")));
        if with_condition {
            let name = work.wanted_name();
            noted.read(key(&name, QUALIFIER), Vec::new());
            noted.append(key(&name, QUALIFIER), &element);
            transaction = transaction
                .condition(Condition::absent(name.clone(), FAMILY, QUALIFIER))
                .put(Put::new(name).cell(FAMILY, QUALIFIER, format!("{element},")));
        }
        let fate = match timeout(2 * self.deadline, transaction.commit()).await.unwrap() {
            Outcome::Committed(_) => Fate::Committed,
            outcome if outcome.is_not_applied() => Fate::NotApplied,
            _ => settle(table, work, &id).await,
        };
        (vec![noted], fate)
    }
}

/// Settles the outcome, without a time limit.
async fn settle(table: &PartitionedTable, work: &Work, id: &TransactionId) -> Fate {
    loop {
        match table.settle(work.partition.clone(), id).await {
            Ok(Settled::Committed) => return Fate::Committed,
            Ok(Settled::NotApplied) => return Fate::NotApplied,
            Err(error) => {
                assert!(
                    error.is_outcome_unknown(),
                    "{} can't be settled: {error}",
                    work.name
                );
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
