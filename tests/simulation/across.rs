//! Transactions, updates and snapshots across partitions of two tables, beside those of one partition.
//!
//! All that they read and write is one history. A client may stop for good at any call; what it leaves is
//! cleaned up by the others.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use fastrand::Rng;
use futures::future::Either;
use hbase_fake::{Call, sim::World};
use hbase_txn::{
    CrossPartitions, CrossTransaction, Outcome, PartitionedTable, Settled, TableDescriptorExt, TransactionId,
    UpdateOptions, Updated,
    client::{Condition, Connection, Put, Scan},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::{FAMILY, MAX_SKEW, connect_with, create_table, skew_clocks},
    serialisability::{
        QUALIFIER,
        checker::check,
        history::{Fate, History, Transaction},
        recorder::{Recorder, View, key, lists},
        shapes::{Stop, Work},
    },
};

/// The partitions of each table. Two are in one region.
const PARTITIONS: [&[&str]; 2] = [&["a00", "c00", "c01"], &["b00", "e00"]];
const TABLES: [&str; 2] = ["one", "two"];
const CLIENTS: usize = 3;
const TASKS: usize = 6;
const TRANSACTIONS: usize = 8;
/// The user of the client that may stop.
const MORTAL: &str = "mortal";

struct Bench {
    clients: Vec<[PartitionedTable; 2]>,
    history: RefCell<History>,
    began: Instant,
    deadline: Duration,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    skew_clocks(&world, &plain, MAX_SKEW, &mut rng).await;
    for (name, split_keys) in [("one", ["b"]), ("two", ["d"])] {
        create_table(
            &plain,
            name,
            &split_keys,
            TableDescriptorExt::with_cross_partition,
        )
        .await;
    }
    let deadline = Duration::from_millis(rng.u64(1_000..8_000));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let connection = connect_with(&world, &mut rng, |config| match client {
            0 => config.with_user(MORTAL),
            _ => config,
        });
        clients.push(open(&connection.await, deadline).await);
    }
    let bench = Rc::new(Bench {
        clients,
        history: RefCell::default(),
        began: Instant::now(),
        deadline,
    });
    world.begin_faults();
    let tasks = LocalSet::new();
    for task in 0..TASKS {
        tasks.spawn_local(Rc::clone(&bench).transact(task, world.rng(1 + task as u64)));
    }
    if rng.bool() {
        let stop = async {
            sleep(Duration::from_millis(rng.u64(..3_000))).await;
            world.hbase().fault(Call::Any.by(MORTAL).lose_request());
        };
        tasks.run_until(stop).await;
    }
    tasks.await;
    world.end_faults().await;
    bench.check(&plain).await;
}

async fn open(connection: &Connection, deadline: Duration) -> [PartitionedTable; 2] {
    let mut tables = Vec::new();
    for name in TABLES {
        let table = PartitionedTable::open(connection, name).await.unwrap();
        tables.push(table.with_operation_timeout(deadline));
    }
    tables.try_into().unwrap()
}

/// What a transaction did and how it ended.
type Done = (Vec<Transaction>, Fate);

impl Bench {
    async fn transact(self: Rc<Self>, task: usize, mut rng: Rng) {
        for number in 0..TRANSACTIONS {
            let tables = rng.choice(&self.clients).unwrap();
            let mut partitions = partitions(tables);
            rng.shuffle(&mut partitions);
            let name = format!("t{task}-{number}");
            let home = [partitions[0].1.to_owned()];
            let work = Work::choose(name.clone(), &home, number * 2, &mut rng);
            let began = self.began.elapsed();
            let (mut attempts, last) = match rng.u8(..8) {
                0 => self.update([partitions[0], partitions[1]], &work, &mut rng).await,
                1 | 2 => {
                    let three = [partitions[0], partitions[1], partitions[2]];
                    self.update(three, &work, &mut rng).await
                }
                3 | 4 => self.commit(&partitions, &name, &mut rng).await,
                5 => {
                    self.snapshot([partitions[0], partitions[1], partitions[2]], &name)
                        .await
                }
                6 => self.update([partitions[0]], &work, &mut rng).await,
                _ => self.snapshot([partitions[0]], &name).await,
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
            self.history.borrow_mut().transactions.extend(attempts);
        }
    }

    /// Returns how long a caller waits: some drop their future midway.
    fn patience(&self, rng: &mut Rng) -> Duration {
        match rng.u8(..10) {
            0 => Duration::from_micros(rng.u64(..50_000)),
            _ => 2 * self.deadline,
        }
    }

    /// Updates the partitions; the first one by the drawn work. Some updates have an id, by which they can be
    /// settled.
    async fn update<const N: usize>(
        &self,
        partitions: [(&PartitionedTable, &str); N],
        work: &Work,
        rng: &mut Rng,
    ) -> Done {
        let mut attempts: Vec<Transaction> = Vec::new();
        let patience = self.patience(rng);
        // One that only deletes leaves no element that would identify it.
        let id =
            (work.may_only_delete() || rng.bool()).then(|| TransactionId::new(work.name.clone()).unwrap());
        let mut options = UpdateOptions::new();
        if let Some(id) = &id {
            options = options.id(id.clone());
        }
        let seed = rng.u64(..);
        let all = CrossPartitions::new(partitions).unwrap();
        let update = all.update_with(options, |views| {
            let mut rng = Rng::with_seed(seed);
            let name = format!("{}.{}", work.name, attempts.len());
            let mut noted = Transaction::new(name.clone());
            let mut done = Ok(());
            for (index, view) in views.iter_mut().enumerate() {
                let mut recorder = Recorder::new(View::Tracked(view), name.clone());
                done = match index {
                    0 => work.perform(&mut recorder),
                    _ => change(&mut recorder, partitions[index].1, &mut rng),
                };
                let (part, _) = recorder.finish();
                noted.reads.extend(part.reads);
                noted.writes.extend(part.writes);
                if done.is_err() {
                    break;
                }
            }
            attempts.push(noted);
            done
        });
        let updated = timeout(patience, update).await;
        let fate = match updated {
            Ok(Ok(Updated::Done { .. })) => Some(Fate::Committed),
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
            (None, Some(id)) => self.settle(partitions[0], id).await,
            (None, None) => Fate::Unknown,
        };
        (attempts, fate)
    }

    /// Puts a row into each of some partitions, some of them under a condition that the transaction has to
    /// itself. In one partition it perhaps only checks.
    async fn commit(&self, partitions: &[(&PartitionedTable, &str)], name: &str, rng: &mut Rng) -> Done {
        let mut noted = Transaction::new(format!("{name}.0"));
        let element = noted.name.clone();
        let id = rng.bool().then(|| TransactionId::new(name.to_owned()).unwrap());
        let count = rng.usize(1..4);
        let only_checks = count == 1 && rng.bool();
        let mut parts = Vec::new();
        for (index, (table, partition)) in partitions[..count].iter().enumerate() {
            let mut part = table.transaction((*partition).to_owned());
            if only_checks || rng.u8(..3) == 0 {
                let wanted = format!("{partition}u{:06}", rng.u8(..4));
                noted.read(key(&wanted, QUALIFIER), Vec::new());
                part = part.condition(Condition::absent(wanted.clone(), FAMILY, QUALIFIER));
                if !only_checks && rng.bool() {
                    noted.append(key(&wanted, QUALIFIER), &element);
                    part = part.put(Put::new(wanted).cell(FAMILY, QUALIFIER, format!("{element},")));
                }
            }
            if !only_checks && (index == 0 || rng.u8(..4) > 0) {
                let row = format!("{partition}r{element}");
                noted.append(key(&row, QUALIFIER), &element);
                part = part.put(Put::new(row).cell(FAMILY, QUALIFIER, format!("{element},")));
            }
            parts.push(part);
        }
        let mut parts = parts.into_iter();
        let home = parts.next().unwrap();
        let committing = if count == 1 {
            let alone = match &id {
                Some(id) => home.id(id.clone()),
                None => home,
            };
            Either::Left(alone.commit())
        } else {
            let whole = parts.fold(CrossTransaction::new(home), |whole, part| whole.and(part));
            let whole = match &id {
                Some(id) => whole.id(id.clone()),
                None => whole,
            };
            Either::Right(whole.commit())
        };
        let patience = self.patience(rng);
        let fate = match timeout(patience, committing).await {
            Ok(Outcome::Committed(_)) => Some(Fate::Committed),
            Ok(Outcome::Unknown(_)) => None,
            Ok(outcome) => {
                assert!(outcome.is_not_applied(), "{name}: {outcome}");
                Some(Fate::NotApplied)
            }
            Err(_) => {
                assert!(patience < self.deadline, "{name} does not end");
                None
            }
        };
        let fate = match (fate, &id) {
            (Some(fate), _) => fate,
            (None, Some(id)) => self.settle(partitions[0], id).await,
            (None, None) => Fate::Unknown,
        };
        (vec![noted], fate)
    }

    async fn snapshot<const N: usize>(&self, partitions: [(&PartitionedTable, &str); N], name: &str) -> Done {
        let read = if N == 1 {
            let (table, partition) = partitions[0];
            let one = table.snapshot(partition.to_owned()).await;
            one.map(|snapshot| vec![snapshot])
        } else {
            let all = CrossPartitions::new(partitions).unwrap();
            all.snapshot().await.map(Vec::from)
        };
        let Ok(snapshots) = read else {
            return (Vec::new(), Fate::NotApplied);
        };
        let mut noted = Transaction::new(format!("{name}.0"));
        for ((_, partition), snapshot) in partitions.iter().zip(&snapshots) {
            noted.read_span(*partition, format!("{partition}~"), lists(snapshot));
        }
        (vec![noted], Fate::Committed)
    }

    /// Settles an outcome by a client that does not stop.
    async fn settle(&self, home: (&PartitionedTable, &str), id: &TransactionId) -> Fate {
        let tables = &self.clients[1];
        let table = tables.iter().find(|table| table.name() == home.0.name()).unwrap();
        loop {
            match table.settle(home.1.to_owned(), id).await {
                Ok(Settled::Committed) => return Fate::Committed,
                Ok(Settled::NotApplied) => return Fate::NotApplied,
                Err(error) => {
                    assert!(error.is_outcome_unknown(), "{id} can't be settled: {error}");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Checks the history and the end of all partitions, which another client frees.
    async fn check(&self, plain: &Connection) {
        let tables = open(plain, Duration::from_secs(60)).await;
        let mut history = self.history.take();
        let mut freed = BTreeMap::new();
        for (table, partition) in partitions(&tables) {
            let free = Put::new(format!("{partition}~end")).cell(FAMILY, QUALIFIER, "end");
            let transaction = table.transaction(partition).put(free);
            transaction.commit().await.into_result().unwrap();
            freed.insert(partition, table);
        }
        for (partition, table) in freed {
            let end = table.snapshot(partition).await.unwrap();
            history
                .end
                .extend(lists(end.range(partition, format!("{partition}~"))));
            let state = Scan::prefix(partition).column("_version", "s");
            let mut states = table.table().scan(state).unwrap();
            while let Some(row) = states.next().await.unwrap() {
                assert!(row.cells()[0].value.is_empty(), "{partition} is held at the end");
            }
        }
        history.settle_unknown();
        let report = check(&history);
        assert!(
            report.anomalies.is_empty(),
            "{report}\n{}\n{history}",
            report.anomalies[0]
        );
    }
}

/// Returns all partitions with their tables.
fn partitions(tables: &[PartitionedTable; 2]) -> Vec<(&PartitionedTable, &'static str)> {
    let of_table = |(table, partitions): (_, &&'static [&'static str])| {
        partitions.iter().map(move |partition| (table, *partition))
    };
    tables.iter().zip(&PARTITIONS).flat_map(of_table).collect()
}

/// Changes a partition that is not the first one.
fn change(on: &mut Recorder<'_, '_>, partition: &str, rng: &mut Rng) -> Result<(), Stop> {
    let list = format!("{partition}l{}", rng.u8(..4));
    let found = on.list(&list)?;
    let rows = if rng.bool() {
        on.rows(&format!("{partition}r"), &format!("{partition}s"))?
    } else {
        BTreeMap::new()
    };
    match rng.u8(..5) {
        0 | 1 => on.put_behind(&list, &found)?,
        kind @ (2 | 3) => {
            if let Some(key) = rng.choice(rows.keys()).filter(|_| kind == 3) {
                on.delete_row(key)?;
            }
            // Its element shows whether it was applied.
            let row = format!("{partition}r{}", on.element());
            on.insert(&row, QUALIFIER)?;
        }
        _ => {}
    }
    Ok(())
}
