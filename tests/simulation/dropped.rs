//! Calls that are dropped at any of their wait points: what they leave is whole, and is known or can
//! be found out.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    task::Poll,
    time::Duration,
};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    Level, Outcome, PartitionedTable, Settled, TransactionId,
    admin::Admin,
    client::{Get, Increment, Put},
    latch::{Latch, LatchManagerOptions, LatchTableOptions},
    lock::{LockManager, LockTableOptions},
};
use tokio::{task::LocalSet, time::sleep};

use crate::{
    bench::{FAMILY, connect, create_table, lock_options},
    holds_checker::History,
};

const PARTITIONS: [&str; 2] = ["p00", "q00"];
const LOCKS: usize = 2;
const TASKS: usize = 4;
const CALLS: usize = 12;
/// The number of wait points of most calls.
const WAITS: usize = 40;
/// Longer than the run, so that an expired lease is not mistaken for a release.
const LEASE: Duration = Duration::from_secs(3_600);
/// When a lock that a dropped call has taken is free again.
const FREE: Duration = Duration::from_secs(300);
const COUNT: u64 = 1_000;
const PARTICIPANTS: usize = 4;

/// What the tasks know.
#[derive(Default)]
struct Known {
    /// Whether each transaction was applied; `None` if it has to be settled.
    transactions: RefCell<BTreeMap<(&'static str, String), Option<bool>>>,
    /// Count-downs that were applied, and those that may be.
    counted: Cell<u64>,
    maybe_counted: Cell<u64>,
}

struct Task {
    name: String,
    table: PartitionedTable,
    locks: LockManager,
    counting: Latch,
    arriving: Latch,
    known: Rc<Known>,
    history: History,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = create_table(&plain, "dropped", &["q"], |descriptor| descriptor).await;
    let admin = Admin::new(&plain);
    LockTableOptions::new("locks")
        .unwrap()
        .create(&admin)
        .await
        .unwrap();
    LatchTableOptions::new("latches")
        .unwrap()
        .create(&admin)
        .await
        .unwrap();
    let mut tasks = Vec::new();
    let (known, history) = (Rc::new(Known::default()), History::new());
    for number in 0..=TASKS {
        let connection = match number {
            TASKS => plain.clone(),
            _ => connect(&world, &mut rng).await,
        };
        let locks = lock_options().farm("fra");
        let latches = LatchManagerOptions::new("simulation", "fra");
        let latches = latches.open(&connection, "latches").await.unwrap();
        let table = PartitionedTable::open(&connection, table.name().clone());
        tasks.push(Task {
            name: format!("t{number}"),
            table: table.await.unwrap(),
            locks: locks.open(&connection, "locks").await.unwrap(),
            counting: latches.latch(Level::Dc, "c").unwrap(),
            arriving: latches.latch(Level::Dc, "a").unwrap(),
            known: Rc::clone(&known),
            history: history.clone(),
            rng: world.rng(1 + number as u64),
        });
    }
    let last = tasks.pop().unwrap();
    last.counting.init(COUNT, LEASE).await.unwrap();
    last.arriving.init(COUNT, LEASE).await.unwrap();
    let set = LocalSet::new();
    for task in tasks {
        set.spawn_local(task.run());
    }
    world.begin_faults();
    set.await;
    world.end_faults().await;
    last.check().await;
    history.check();
}

/// Polls a future so many times, and drops it if it is still pending.
async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

impl Task {
    async fn run(mut self) {
        for number in 0..CALLS {
            match self.rng.u8(..4) {
                0 => self.transact(number).await,
                1 => self.lock().await,
                2 => self.count_down().await,
                _ => self.arrive().await,
            }
        }
    }

    /// Returns the polls of the next call. Half of all calls are not dropped.
    fn polls(&mut self) -> usize {
        if self.rng.bool() {
            self.rng.usize(1..WAITS)
        } else {
            usize::MAX
        }
    }

    /// Adds one to two rows and to a mark, in one transaction.
    async fn transact(&mut self, number: usize) {
        let partition = *self.rng.choice(&PARTITIONS).unwrap();
        let name = format!("{}-{number}", self.name);
        let id = TransactionId::new(name.clone()).unwrap();
        let mut transaction = self.table.transaction(partition).id(id);
        for row in ["x", "y", &format!("m{name}")] {
            let row = format!("{partition}{row}");
            transaction = transaction.increment(Increment::new(row).column(FAMILY, "q", 1));
        }
        let polls = self.polls();
        let known = match polled(transaction.commit(), polls).await {
            Some(Outcome::Committed(_)) => Some(true),
            Some(outcome) => outcome.is_not_applied().then_some(false),
            None => None,
        };
        let mut transactions = self.known.transactions.borrow_mut();
        transactions.insert((partition, name), known);
    }

    /// Acquires, renews and releases a lock. Each call may be dropped.
    async fn lock(&mut self) {
        let lock = self.rng.usize(..LOCKS);
        let request = self.locks.lock(Level::Dc, &format!("lock-{lock}")).unwrap();
        let wait = Duration::from_millis(self.rng.u64(..2_000));
        let polls = self.polls();
        let Some(Ok(guard)) = polled(request.ttl(LEASE).wait(wait).acquire(), polls).await else {
            return;
        };
        let begun = self.history.acquired(lock, guard.fencing());
        sleep(Duration::from_millis(self.rng.u64(..50))).await;
        let polls = self.polls();
        if let Some(Err(error)) = polled(guard.renew(), polls).await {
            assert!(guard.is_held(), "no client revokes it: {error}");
        }
        self.history.ended(begun);
        let polls = self.polls();
        if self.rng.bool() {
            drop(guard);
        } else {
            drop(polled(guard.release(), polls).await);
        }
    }

    async fn count_down(&mut self) {
        let polls = self.polls();
        let count = match polled(self.counting.count_down(1), polls).await {
            Some(Ok(_)) => &self.known.counted,
            Some(Err(error)) if !error.is_outcome_unknown() => return,
            Some(Err(_)) | None => &self.known.maybe_counted,
        };
        count.set(count.get() + 1);
    }

    async fn arrive(&mut self) {
        let participant = format!("p{}", self.rng.usize(..PARTICIPANTS));
        let polls = self.polls();
        drop(polled(self.arriving.arrive(&participant), polls).await);
    }

    async fn check(self) {
        for ((partition, name), known) in self.known.transactions.take() {
            let id = TransactionId::new(name.clone()).unwrap();
            let applied = match known {
                Some(applied) => applied,
                None => self.table.settle(partition, &id).await.unwrap() == Settled::Committed,
            };
            let times = self.number(&format!("{partition}m{name}")).await;
            assert_eq!(
                times,
                i64::from(applied),
                "{name} was applied, known is {known:?}"
            );
        }
        for partition in PARTITIONS {
            let (one, other) = (format!("{partition}x"), format!("{partition}y"));
            assert_eq!(self.number(&one).await, self.number(&other).await, "{partition}");
        }
        for lock in 0..LOCKS {
            let request = self.locks.lock(Level::Dc, &format!("lock-{lock}")).unwrap();
            let acquired = request.ttl(LEASE).wait(FREE).acquire().await;
            let guard = acquired.unwrap_or_else(|error| panic!("lock {lock} is not free: {error}"));
            let begun = self.history.acquired(lock, guard.fencing());
            self.history.ended(begun);
        }
        let left = self.counting.show().await.unwrap().count.unwrap();
        let counted = self.known.counted.get();
        let possible = COUNT - counted - self.known.maybe_counted.get()..=COUNT - counted;
        assert!(possible.contains(&left), "{left} are left, and not {possible:?}");
        for number in 0..PARTICIPANTS {
            self.arriving.arrive(&format!("p{number}")).await.unwrap();
        }
        let left = self.arriving.show().await.unwrap().count.unwrap();
        assert_eq!(left, COUNT - PARTICIPANTS as u64, "each arrives once");
        let put = Put::new("p00z").cell(FAMILY, "q", "the client works");
        self.table.table().put(put).await.unwrap();
    }

    async fn number(&self, row: &str) -> i64 {
        let row = self.table.table().get(Get::new(row.to_owned())).await.unwrap();
        let value = row.and_then(|row| row.value(FAMILY, "q").cloned());
        value.map_or(0, |value| i64::from_be_bytes(value[..].try_into().unwrap()))
    }
}
