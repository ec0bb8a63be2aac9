//! Owners that acquire and release under faults, write data that only the holder may write, and
//! record their view of each hold.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::{
    Outcome, PartitionedTable,
    client::{Comparison, Condition, Connection, Get, Put, Table, TableName},
    lock::{LockGuard, LockLoss, LockManager, LockRequest, PartitionLocks, ReleaseOutcome},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{locks_of, request};
use crate::{
    cluster::until,
    histories::check_objects,
    holds::{Begun, History},
    linearizable::objects::{ObjectLog, RecordedHold},
};

const FAMILY: &str = "D";
/// The column, of a row that belongs to no lock, with the highest fencing number of all writes.
pub(super) const HIGHEST: &str = "highest";
/// The interval of a holder's checks of its guard.
const LOOKS: Duration = Duration::from_millis(3);

/// The behaviour of all owners of a contest.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub(super) locks: usize,
    pub(super) lease: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    acquired: AtomicUsize,
    /// Holds that ended before their owner released them.
    lost: AtomicUsize,
    /// Refused writes of owners that had lost their hold.
    refused: AtomicUsize,
    /// Writes that the server got twice, and of which it refused the second copy.
    doubled: AtomicUsize,
    /// Calls that ended with an error because of faults.
    failed: AtomicUsize,
}

struct Shared {
    terms: Terms,
    over: AtomicBool,
    history: History,
    log: Arc<ObjectLog>,
    counts: Counts,
}

pub(super) struct Contest {
    shared: Arc<Shared>,
    owners: JoinSet<()>,
}

/// The place of the locks and of the data that only their holders may write.
enum Ground {
    /// The writes have the fencing number.
    LockTable { locks: LockManager, data: Table },
    /// The server refuses writes without the lock.
    Partitions {
        locks: PartitionLocks,
        table: PartitionedTable,
    },
}

/// One of the owners.
struct Owner {
    number: usize,
    ground: Ground,
    rng: Rng,
    shared: Arc<Shared>,
}

/// Returns the row that the holder of a lock writes.
pub(super) fn guarded_row(lock: usize) -> String {
    format!("\u{1}data of {lock}")
}

/// Writes under a fencing number, if no number as high has been written. Returns whether it did.
pub(super) async fn write_fenced(data: &Table, lock: usize, fencing: i64) -> hbase_txn::Result<bool> {
    let row = guarded_row(lock);
    let newer = Condition::compare(row.clone(), FAMILY, HIGHEST, Comparison::Less, fencing);
    let put = Put::new(row).cell(FAMILY, HIGHEST, fencing);
    Ok(data.check_and_mutate(newer, [put.into()]).await?.success)
}

/// Creates the rows that holders write.
pub(super) async fn prepare(data: &Table, locks: usize) {
    for lock in 0..locks {
        let put = Put::new(guarded_row(lock)).cell(FAMILY, HIGHEST, 0i64);
        data.put(put).await.unwrap();
    }
}

/// Returns the highest number that was written.
pub(super) async fn highest(data: &Table, lock: usize) -> i64 {
    let row = data.get(Get::new(guarded_row(lock))).await.unwrap().unwrap();
    row.get(FAMILY, HIGHEST).unwrap().unwrap()
}

/// Returns the partition of a lock, and the row in it that its holder writes.
pub(super) fn partition(lock: usize) -> (String, String) {
    (format!("p{lock:02}"), format!("p{lock:02}data"))
}

impl Ground {
    fn request(&self, lock: usize, lease: Duration) -> LockRequest {
        match self {
            Self::LockTable { locks, .. } => request(locks, &format!("lock-{lock}"), lease),
            Self::Partitions { locks, .. } => locks.lock(partition(lock).0, "writer").unwrap().ttl(lease),
        }
    }

    /// Writes as the holder. Returns `false` if the write was refused.
    async fn write(&self, lock: usize, guard: &LockGuard) -> hbase_txn::Result<bool> {
        match self {
            Self::LockTable { data, .. } => write_fenced(data, lock, guard.fencing()).await,
            Self::Partitions { table, .. } => {
                let (prefix, row) = partition(lock);
                let transaction = table.transaction(prefix).fenced_by(guard).put(Put::new(row).cell(
                    crate::cluster::FAMILY,
                    HIGHEST,
                    guard.fencing(),
                ));
                match transaction.commit().await {
                    Outcome::Rejected(_) => Ok(false),
                    outcome => outcome.into_result().map(|_| true),
                }
            }
        }
    }

    /// Returns whether a write was refused because its own second copy had arrived first.
    async fn came_twice(&self, lock: usize, guard: &LockGuard) -> bool {
        match self {
            Self::LockTable { data, .. } => highest(data, lock).await == guard.fencing(),
            Self::Partitions { .. } => false,
        }
    }
}

impl Contest {
    /// Starts one owner for each connection, in a lock table.
    pub(super) async fn start(
        connections: &[Connection],
        table: &TableName,
        terms: Terms,
        rng: impl Fn(u64) -> Rng,
    ) -> Self {
        prepare(&connections[0].table(table.clone()).unwrap(), terms.locks).await;
        let mut grounds = Vec::new();
        for connection in connections {
            grounds.push(Ground::LockTable {
                locks: locks_of(connection, table).await,
                data: connection.table(table.clone()).unwrap(),
            });
        }
        Self::on(grounds, terms, rng)
    }

    /// Starts one owner for each connection, in a table for transactions.
    pub(super) async fn start_in_partitions(
        connections: &[Connection],
        name: &TableName,
        terms: Terms,
        rng: impl Fn(u64) -> Rng,
    ) -> Self {
        let mut grounds = Vec::new();
        for connection in connections {
            let table = PartitionedTable::open(connection, name.clone()).await.unwrap();
            grounds.push(Ground::Partitions {
                locks: PartitionLocks::open(&table).await.unwrap(),
                table,
            });
        }
        Self::on(grounds, terms, rng)
    }

    fn on(grounds: Vec<Ground>, terms: Terms, rng: impl Fn(u64) -> Rng) -> Self {
        let shared = Arc::new(Shared {
            terms,
            over: AtomicBool::new(false),
            history: History::new(),
            log: ObjectLog::new(),
            counts: Counts::default(),
        });
        let mut owners = JoinSet::new();
        for (number, ground) in grounds.into_iter().enumerate() {
            let owner = Owner {
                number,
                ground,
                rng: rng(number as u64),
                shared: Arc::clone(&shared),
            };
            owners.spawn(owner.come_and_go());
        }
        Self { shared, owners }
    }

    /// Waits until this many more locks were acquired.
    pub(super) async fn goes_on(&mut self, more: usize, patience: Duration) {
        let acquired = &self.shared.counts.acquired;
        let goal = acquired.load(Ordering::Relaxed) + more;
        until("further locks", patience, async || {
            while let Some(ended) = self.owners.try_join_next() {
                ended.unwrap();
            }
            (acquired.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Waits until a lock is lost.
    pub(super) async fn loses(&mut self, patience: Duration) {
        self.counts("a lock that is lost", |counts| &counts.lost, patience)
            .await;
    }

    /// Waits until a call fails.
    pub(super) async fn fails(&mut self, patience: Duration) {
        self.counts("a call that fails", |counts| &counts.failed, patience)
            .await;
    }

    async fn counts(&mut self, what: &str, counter: fn(&Counts) -> &AtomicUsize, patience: Duration) {
        until(what, patience, async || {
            (counter(&self.shared.counts).load(Ordering::Relaxed) > 0).then_some(())
        })
        .await;
    }

    /// Lets all owners finish, and checks the history of their holds.
    pub(super) async fn stop(mut self, test: &str) {
        self.shared.over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.owners.join_next().await {
            ended.unwrap();
        }
        println!("{test}: {:?}", self.shared.counts);
        check_objects(test, &self.shared.log);
        let holds = self.shared.history.check();
        assert_eq!(holds, self.shared.counts.acquired.load(Ordering::Relaxed));
    }
}

impl Owner {
    async fn come_and_go(mut self) {
        let shared = Arc::clone(&self.shared);
        while !shared.over.load(Ordering::Relaxed) {
            let lock = self.rng.usize(..shared.terms.locks);
            let mut request = self
                .ground
                .request(lock, shared.terms.lease)
                .wait(Duration::from_millis(300));
            if self.rng.bool() {
                request = request.auto_renew();
            }
            let called = shared.log.now();
            match request.acquire().await {
                Ok(guard) => {
                    let (name, fencing) = (format!("lock-{lock}"), guard.fencing());
                    let recorded = RecordedHold::acquired(
                        &shared.log,
                        &name,
                        self.number,
                        fencing,
                        called,
                        Instant::now(),
                    );
                    self.hold(lock, guard, recorded).await;
                }
                Err(error) if error.kind() == hbase_txn::ErrorKind::LockUnavailable => {}
                Err(_) => count(&shared.counts.failed),
            }
        }
    }

    async fn hold(&mut self, lock: usize, guard: LockGuard, recorded: RecordedHold) {
        let counts = &self.shared.counts;
        let begun = self.shared.history.acquired(lock, guard.fencing());
        count(&counts.acquired);
        let mut claim = Instant::now() + guard.remaining();
        // Mostly holds are short; sometimes a holder stays as long as its lease; sometimes it
        // sleeps past its lease.
        let lease = self.shared.terms.lease;
        match self.rng.u8(..10) {
            0 => sleep(lease.mul_f64(1.0 + self.rng.f64())).await,
            number => {
                let stay = match number {
                    1..=3 => lease.mul_f64(1.5 * self.rng.f64()),
                    _ => lease.mul_f64(self.rng.f64() / 20.0),
                };
                let end = Instant::now() + stay;
                while Instant::now() < end && guard.is_held() {
                    claim = claim.max(Instant::now() + guard.remaining());
                    sleep(LOOKS).await;
                }
            }
        }
        let end = Instant::now() + guard.remaining();
        match self.ground.write(lock, &guard).await {
            // A second copy of the write may have arrived first; otherwise the owner has lost the
            // lock.
            Ok(false) => {
                // A refusal may have ended the guard's hold, so the time is checked too.
                let is_over = Instant::now() >= end && !guard.is_held();
                let came_twice = self.ground.came_twice(lock, &guard).await;
                assert!(
                    came_twice || is_over,
                    "lock {lock}: a holder's write was refused: {guard:?}"
                );
                count(if came_twice {
                    &counts.doubled
                } else {
                    &counts.refused
                });
            }
            Ok(true) => {}
            Err(_) => count(&counts.failed),
        }
        self.give_back(guard, begun, recorded, claim).await;
    }

    async fn give_back(&self, guard: LockGuard, begun: Begun, recorded: RecordedHold, claim: Instant) {
        let counts = &self.shared.counts;
        let now = Instant::now();
        let end = now + guard.remaining();
        let held = end > now;
        // After the end of its lease a hold counts only until the end that its guard claimed when
        // it was last checked.
        self.shared
            .history
            .ended_at(begun, if held { now } else { claim.min(now) });
        let called = self.shared.log.now();
        let outcome = guard.release().await;
        recorded.released(called, if held { end } else { claim }, &outcome);
        match outcome {
            Ok(ReleaseOutcome::Released) => {}
            Ok(ReleaseOutcome::Lost(loss)) => {
                // A late release may find the next holder; a release in time may not.
                assert!(
                    loss == LockLoss::Expired || Instant::now() >= end,
                    "held, and nobody may take it away: {loss}"
                );
                count(&counts.lost);
            }
            Ok(other) => panic!("{other}"),
            Err(_) => count(&counts.failed),
        }
    }
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}
