//! Transactions that move money between the accounts of a partition, with and without records.
//!
//! Each adds one to a mark of its own, so the marks count how often it was applied, which the sum of
//! the accounts does not show.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    Outcome, PartitionedTable, Settled, TransactionId,
    client::{Condition, Get, Increment, Put, Scan},
};
use tokio::{
    task::LocalSet,
    time::{sleep, timeout},
};

use crate::bench::{FAMILY, connect, create_table};

const PARTITIONS: [&str; 3] = ["p00", "p01", "q00"];
const ACCOUNTS: u8 = 4;
const TASKS: usize = 6;
const TRANSACTIONS: usize = 8;

/// What a client was told about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Applied,
    /// This commit has not applied it. An earlier one of the same id may have.
    Failed,
    /// It is not applied, and no earlier commit can apply it any more.
    Settled,
    Nothing,
}

struct Bench {
    tables: [PartitionedTable; 2],
    told: RefCell<BTreeMap<String, Vec<Told>>>,
    deadline: Duration,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = create_table(&plain, "transfers", &["p01", "q"], |descriptor| descriptor).await;
    for partition in PARTITIONS {
        let mut transaction = table.transaction(partition);
        for account in 0..ACCOUNTS {
            transaction = transaction.put(Put::new(account_row(partition, account)).cell(FAMILY, "q", 0_i64));
        }
        transaction.commit().await.into_result().unwrap();
    }
    let mut tables = Vec::new();
    let deadline = Duration::from_millis(rng.u64(400..4_000));
    for _ in 0..2 {
        let connection = connect(&world, &mut rng).await;
        let table = PartitionedTable::open(&connection, table.name().clone())
            .await
            .unwrap();
        tables.push(table.with_operation_timeout(deadline));
    }
    let bench = Rc::new(Bench {
        tables: tables.try_into().unwrap(),
        told: RefCell::default(),
        deadline,
    });
    world.begin_faults();
    let tasks = LocalSet::new();
    for task in 0..TASKS {
        tasks.spawn_local(Rc::clone(&bench).transfer(task, world.rng(1 + task as u64)));
    }
    tasks.await;
    world.end_faults().await;
    bench.check(&table).await;
}

impl Bench {
    async fn transfer(self: Rc<Self>, task: usize, mut rng: Rng) {
        for number in 0..TRANSACTIONS {
            let name = format!("t{task}-{number}");
            let partition = *rng.choice(&PARTITIONS).unwrap();
            let gate = format!("{partition}gate");
            let from = rng.u8(..ACCOUNTS);
            let to = (from + rng.u8(1..ACCOUNTS)) % ACCOUNTS;
            let amount = rng.i64(1..100);
            let (table, other) = if rng.bool() {
                (&self.tables[0], &self.tables[1])
            } else {
                (&self.tables[1], &self.tables[0])
            };
            let (conditional, sets_gate) = (rng.u8(..4) == 0, rng.u8(..6) == 0);
            let opens = rng.bool();
            let recording = rng.u8(..3);
            let id = TransactionId::new(name.clone()).unwrap();
            let transaction = |table: &PartitionedTable| {
                let mut transaction = table.transaction(partition);
                for (account, amount) in [(from, -amount), (to, amount)] {
                    let row = account_row(partition, account);
                    transaction = transaction.increment(Increment::new(row).column(FAMILY, "q", amount));
                }
                let mark = Increment::new(format!("{partition}m{name}")).column(FAMILY, "q", 1);
                transaction = transaction.increment(mark);
                if sets_gate {
                    let state = if opens { "open" } else { "shut" };
                    transaction = transaction.put(Put::new(gate.clone()).cell(FAMILY, "q", state));
                } else if conditional {
                    transaction = transaction.condition(Condition::equal(gate.clone(), FAMILY, "q", "open"));
                }
                match recording {
                    0 => transaction,
                    1 => transaction.recorded(),
                    _ => transaction.id(id.clone()),
                }
            };
            // Whether the record says what the id stands for.
            let is_known = Cell::new(false);
            let mut all = Vec::new();
            let mut clients = (table, other);
            loop {
                let (table, other) = clients;
                // After a fence more of them are dropped: the next fence must see their requests.
                let was_fenced = all.last() == Some(&Told::Settled);
                let patience = match rng.u8(..10) {
                    0 => Duration::from_micros(rng.u64(..30_000)),
                    1..5 if was_fenced => Duration::from_micros(rng.u64(..100_000)),
                    _ => 2 * self.deadline,
                };
                // Another process may settle it meanwhile.
                let settles = recording == 2 && rng.u8(..4) == 0;
                let pause = Duration::from_micros(rng.u64(..60_000));
                let settling = async {
                    if settles {
                        sleep(pause).await;
                        Some(settle(other, partition, &id).await)
                    } else {
                        None
                    }
                };
                let by_another = rng.bool();
                let committing = async {
                    match timeout(patience, transaction(table).commit()).await {
                        Ok(outcome) => {
                            let stands = matches!(outcome, Outcome::Committed(_) | Outcome::Rejected(_));
                            is_known.set(is_known.get() || stands);
                            self.learn(other, partition, outcome, by_another).await
                        }
                        Err(_) => {
                            assert!(patience < self.deadline, "{name} does not end");
                            match recording {
                                2 => settle(other, partition, &id).await,
                                _ => Told::Nothing,
                            }
                        }
                    }
                };
                // The commit begins first, so that a settlement holds for it.
                let (told, settled) = tokio::join!(biased; committing, settling);
                all.push(told);
                all.extend(settled);
                let told = settled.unwrap_or(told);
                // The same transaction again, by another client: its record answers, or its fence
                // lets it be applied at last.
                let of_three = if told == Told::Settled { 2 } else { 1 };
                if recording != 2 || all.len() > 3 || rng.u8(..3) >= of_three {
                    break;
                }
                clients = (other, table);
            }
            if recording == 2 && is_known.get() && rng.u8(..4) == 0 {
                // No client is told of this mark: an id stands for its first contents.
                let mark = Increment::new(format!("{partition}m{name}-other")).column(FAMILY, "q", 1);
                let reused = clients.1.transaction(partition).increment(mark).id(id.clone());
                let outcome = timeout(2 * self.deadline, reused.commit()).await.unwrap();
                assert!(!outcome.is_committed(), "{name}: {outcome}");
            }
            self.told.borrow_mut().insert(format!("{partition}m{name}"), all);
        }
    }

    async fn learn(
        &self,
        other: &PartitionedTable,
        partition: &str,
        outcome: Outcome,
        by_another: bool,
    ) -> Told {
        let unsettled = match outcome {
            Outcome::Committed(_) => return Told::Applied,
            Outcome::Unknown(unsettled) => unsettled,
            outcome => {
                assert!(outcome.is_not_applied(), "{outcome}");
                return Told::Failed;
            }
        };
        let Some(id) = unsettled.id().cloned() else {
            return Told::Nothing;
        };
        if by_another {
            return settle(other, partition, &id).await;
        }
        loop {
            match unsettled.settle().await {
                Ok(settled) => return said(settled),
                Err(error) => assert!(error.is_outcome_unknown(), "{error}"),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn check(&self, table: &PartitionedTable) {
        for partition in PARTITIONS {
            let mut sum = 0;
            for account in 0..ACCOUNTS {
                let get = Get::new(account_row(partition, account));
                let row = table.table().get(get).await.unwrap().unwrap();
                sum += number(row.value(FAMILY, "q").unwrap());
            }
            assert_eq!(sum, 0, "{partition} does not add up");
            let mut applied = BTreeMap::new();
            let marks = Scan::prefix(format!("{partition}m")).family(FAMILY);
            let mut scanner = table.table().scan(marks).unwrap();
            while let Some(row) = scanner.next().await.unwrap() {
                let name = String::from_utf8_lossy(row.key()).into_owned();
                applied.insert(name, number(row.value(FAMILY, "q").unwrap()));
            }
            for (name, told) in &*self.told.borrow() {
                if !name.starts_with(partition) {
                    continue;
                }
                let times = applied.remove(name).unwrap_or(0);
                // The counts that are possible after each answer, in their order.
                let mut possible = BTreeSet::from([0]);
                for told in told {
                    match told {
                        Told::Applied => possible = BTreeSet::from([1]),
                        Told::Settled if possible.contains(&0) => possible = BTreeSet::from([0]),
                        Told::Settled => possible.clear(),
                        Told::Failed => {}
                        Told::Nothing => {
                            possible.insert(1);
                        }
                    }
                }
                let right = possible.contains(&times);
                assert!(
                    right,
                    "{name} was applied {times} times, and its clients were told {told:?}"
                );
            }
            assert!(applied.is_empty(), "no client has sent {applied:?}");
        }
    }
}

async fn settle(table: &PartitionedTable, partition: &str, id: &TransactionId) -> Told {
    loop {
        match table.settle(partition, id).await {
            Ok(settled) => return said(settled),
            Err(error) => assert!(error.is_outcome_unknown(), "{error}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn said(settled: Settled) -> Told {
    match settled {
        Settled::Committed => Told::Applied,
        Settled::NotApplied => Told::Settled,
    }
}

fn account_row(partition: &str, account: u8) -> String {
    format!("{partition}a{account}")
}

fn number(value: &[u8]) -> i64 {
    i64::from_be_bytes(value.try_into().unwrap())
}
