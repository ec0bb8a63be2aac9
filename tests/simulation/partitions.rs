//! Locks and latches in partitions: transactions that their holders fence, that acquire and release
//! a lock, and that count a latch down.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    Outcome, PartitionedTable, Settled, TableDescriptorExt, Transaction, TransactionId,
    client::{Append, Increment, Row},
    latch::{Latch, PartitionLatches},
    lock::{LockGuard, LockRequest, PartitionLocks, ReleaseOutcome},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::{FAMILY, HOLDER, connect, create_table, lease},
    holds::assert_no_revocation,
    holds_checker::History,
};

const PARTITIONS: [&str; 2] = ["p00", "q00"];
const OWNERS: usize = 4;
const ROUNDS: usize = 6;
const COUNT: u64 = 1_000;
const PARTICIPANTS: usize = 5;
/// Much longer than any run.
const LIFE: Duration = Duration::from_secs(24 * 3_600);
/// Enough in virtual time, as in `holds`.
const MARGIN: Duration = Duration::from_millis(2);
/// Longer than any call.
const PATIENCE: Duration = Duration::from_secs(180);

struct Owner {
    number: usize,
    table: PartitionedTable,
    locks: PartitionLocks,
    /// The latches of each partition, one that is counted down and one at which participants arrive.
    latches: Vec<[Latch; 2]>,
    /// Whether each transaction was applied, by its mark; `None` if it may be.
    known: Rc<RefCell<BTreeMap<String, Option<bool>>>>,
    history: History,
    lease: Duration,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let with_locks = |descriptor: hbase_txn::client::TableDescriptor| descriptor.with_lock_family();
    let table = create_table(&plain, "partitions", &["q"], with_locks).await;
    for latch in latches(&table).await.into_iter().flatten() {
        latch.init(COUNT, LIFE).await.unwrap();
    }
    let (known, history) = (Rc::default(), History::new());
    let lease = lease(&mut rng);
    let tasks = LocalSet::new();
    for number in 0..OWNERS {
        let connection = connect(&world, &mut rng).await;
        let table = PartitionedTable::open(&connection, table.name().clone());
        let table = table.await.unwrap();
        let owner = Owner {
            number,
            locks: PartitionLocks::open_as(&table, HOLDER).await.unwrap(),
            latches: latches(&table).await,
            table,
            known: Rc::clone(&known),
            history: history.clone(),
            lease,
            rng: world.rng(1 + number as u64),
        };
        tasks.spawn_local(owner.run());
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    history.check();
    let latches = latches(&table).await;
    for (partition, [counting, arriving]) in PARTITIONS.into_iter().zip(latches) {
        let end = table.snapshot(partition).await.unwrap();
        let applied = applied(end.rows(), partition);
        for (mark, known) in known
            .borrow()
            .iter()
            .filter(|(mark, _)| mark.starts_with(partition))
        {
            let is_right = known.is_none_or(|known| known == applied.contains_key(mark));
            assert!(is_right, "{mark} is known as {known:?}; applied are {applied:?}");
        }
        let sum = |kind: &str| {
            let prefix = format!("{partition}{kind}");
            let of_kind = applied.iter().filter(|(mark, _)| mark.starts_with(&prefix));
            u64::try_from(of_kind.map(|(_, value)| value).sum::<i64>()).unwrap()
        };
        let left = counting.show().await.unwrap().count;
        assert_eq!(
            left,
            Some(COUNT - sum("c")),
            "{partition}: count-downs in {applied:?}"
        );
        let arrived = (0..PARTICIPANTS).filter(|number| {
            let mark = format!("{partition}a{number}-");
            applied.keys().any(|applied| applied.starts_with(&mark))
        });
        let left = arriving.show().await.unwrap().count;
        let expected = COUNT - arrived.count() as u64;
        assert_eq!(left, Some(expected), "{partition}: arrivals in {applied:?}");
    }
}

async fn latches(table: &PartitionedTable) -> Vec<[Latch; 2]> {
    let latches = PartitionLatches::open(table).await.unwrap();
    let of_partition = |partition| ["counting", "arriving"].map(|id| latches.latch(partition, id).unwrap());
    PARTITIONS.into_iter().map(of_partition).collect()
}

/// Returns the marks and their values. Checks that the holders of the lock wrote one after the
/// other.
fn applied(rows: &[Row], partition: &str) -> BTreeMap<String, i64> {
    let mut applied = BTreeMap::new();
    for row in rows {
        let key = String::from_utf8_lossy(row.key()).into_owned();
        let value = row.value(FAMILY, "q").unwrap();
        if key == format!("{partition}log") {
            let text = String::from_utf8_lossy(value);
            let numbers: Vec<u64> = text
                .split_terminator(',')
                .map(|number| number.parse().unwrap())
                .collect();
            assert!(
                numbers.is_sorted(),
                "a holder wrote after its successor: {numbers:?}"
            );
        } else {
            applied.insert(key, i64::from_be_bytes(value[..].try_into().unwrap()));
        }
    }
    applied
}

impl Owner {
    async fn run(mut self) {
        for round in 0..ROUNDS {
            let place = self.rng.usize(..PARTITIONS.len());
            let partition = PARTITIONS[place];
            let name = format!("t{}-{round}", self.number);
            match self.rng.u8(..10) {
                0..4 => self.acquire(partition, &name).await,
                4..6 => self.acquire_in_transaction(partition, &name).await,
                6..8 => {
                    let by = self.rng.u64(1..4);
                    let latch = &self.latches[place][0];
                    let transaction = self.table.transaction(partition).count_down(latch, by);
                    let mark = format!("{partition}c{name}");
                    self.commit(mark, i64::try_from(by).unwrap(), transaction).await;
                }
                _ => {
                    let number = self.rng.usize(..PARTICIPANTS);
                    let latch = &self.latches[place][1];
                    let transaction = self.table.transaction(partition);
                    let transaction = transaction.arrive(latch, &format!("p{number}"));
                    self.commit(format!("{partition}a{number}-{name}"), 1, transaction)
                        .await;
                }
            }
        }
    }

    /// Commits a transaction with a mark, sometimes with a record, and sometimes drops it midway.
    /// Returns its outcome, unless it was dropped.
    async fn commit(&mut self, mark: String, value: i64, transaction: Transaction) -> Option<Outcome> {
        let partition = mark[..3].to_owned();
        let increment = Increment::new(mark.clone()).column(FAMILY, "q", value);
        let mut transaction = transaction.increment(increment);
        let id = self.rng.bool().then(|| TransactionId::new(mark.clone()).unwrap());
        if let Some(id) = &id {
            transaction = transaction.id(id.clone());
        }
        self.known.borrow_mut().insert(mark.clone(), None);
        let patience = match self.rng.u8(..10) {
            0 => Duration::from_micros(self.rng.u64(..50_000)),
            _ => PATIENCE,
        };
        let outcome = timeout(patience, transaction.commit()).await.ok();
        assert!(outcome.is_some() || patience < PATIENCE, "{mark} does not end");
        let is_applied = match (&outcome, id) {
            (Some(Outcome::Committed(_)), _) => Some(true),
            (Some(outcome), _) if outcome.is_not_applied() => Some(false),
            (_, Some(id)) => match self.table.settle(partition, &id).await {
                Ok(Settled::Committed) => Some(true),
                Ok(Settled::NotApplied) => Some(false),
                _ => None,
            },
            _ => None,
        };
        self.known.borrow_mut().insert(mark, is_applied);
        outcome
    }

    fn request(&mut self, partition: &'static str) -> LockRequest {
        let request = self.locks.lock(partition, "lock").unwrap().ttl(self.lease);
        let request = request.skew_margin(MARGIN);
        if self.rng.bool() {
            request.auto_renew()
        } else {
            request
        }
    }

    async fn acquire(&mut self, partition: &'static str, name: &str) {
        let wait = Duration::from_millis(self.rng.u64(..4_000));
        let patience = match self.rng.u8(..10) {
            0 => Duration::from_micros(self.rng.u64(..50_000)),
            _ => PATIENCE,
        };
        let request = self.request(partition).wait(wait);
        match timeout(patience, request.acquire()).await {
            Ok(Ok(guard)) => self.hold(partition, name, guard).await,
            Ok(Err(_)) => {}
            Err(_) => assert!(patience < PATIENCE, "a request does not end"),
        }
    }

    async fn acquire_in_transaction(&mut self, partition: &'static str, name: &str) {
        let request = self.request(partition);
        let mut transaction = self.table.transaction(partition);
        let pending = transaction.acquire_lock(request).unwrap();
        let outcome = self.commit(format!("{partition}l{name}"), 1, transaction).await;
        let is_rejected = outcome.is_some_and(|outcome| outcome.is_not_applied());
        // Some locks are not claimed. They are released in the background.
        if self.rng.u8(..4) == 0 {
            return;
        }
        let claimed = timeout(PATIENCE, pending.claim()).await.expect("a claim ends");
        assert!(
            !(is_rejected && claimed.is_ok()),
            "the lock is held by a transaction that was not applied"
        );
        if let Ok(guard) = claimed {
            self.hold(partition, name, guard).await;
        }
    }

    /// Writes under the lock, sometimes after its lease.
    async fn hold(&mut self, partition: &'static str, name: &str, guard: LockGuard) {
        let lock = usize::from(partition == PARTITIONS[1]);
        let begun = self.history.acquired(lock, guard.fencing());
        let mut claim = Instant::now() + guard.remaining();
        for number in 0..self.rng.usize(1..4) {
            let longest = if self.rng.u8(..4) == 0 { 1.5 } else { 0.1 };
            sleep(self.lease.mul_f64(longest * self.rng.f64())).await;
            if guard.is_held() {
                claim = claim.max(Instant::now() + guard.remaining());
            }
            let append = Append::new(format!("{partition}log"));
            let append = append.cell(FAMILY, "q", format!("{},", guard.fencing()));
            let transaction = self.table.transaction(partition).fenced_by(&guard).append(append);
            let outcome = self
                .commit(format!("{partition}f{name}-{number}"), 1, transaction)
                .await;
            if let Some(Outcome::Rejected(rejection)) = outcome {
                assert!(
                    Instant::now() >= claim,
                    "a holder's write was refused: {rejection}"
                );
            }
        }
        let now = Instant::now();
        let end = now + guard.remaining();
        let until = if end > now { now } else { claim.min(now) };
        self.history.ended_at(begun, until);
        if self.rng.u8(..3) == 0 {
            let transaction = self.table.transaction(partition).release_lock(&guard);
            let outcome = self.commit(format!("{partition}r{name}"), 1, transaction).await;
            if let Some(Outcome::Rejected(rejection)) = outcome {
                assert!(
                    Instant::now() >= end,
                    "a holder's release was refused: {rejection}"
                );
            }
        } else if let Ok(ReleaseOutcome::Lost(loss)) = guard.release().await {
            assert_no_revocation(&loss, end);
        }
    }
}
