//! Owners that come and go under faults, write what only the holder may write, and write down what they believed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use hbase_txn::{
    Comparison, Condition, Connection, Get, LockGuard, LockLoss, LockManager, Put, ReleaseOutcome, Table,
    TableName,
};
use tokio::{task::JoinSet, time::sleep};

use super::{
    history::{Begun, History},
    locks_of, request,
};
use crate::cluster::until;

const FAMILY: &str = "D";
/// The column, of a row that belongs to no lock, that has the highest fencing number of all writes.
const HIGHEST: &str = "highest";
/// How often a holder looks at his guard.
const LOOKS: Duration = Duration::from_millis(3);

/// What all owners of a contest do.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub(super) locks: usize,
    pub(super) lease: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    acquired: AtomicUsize,
    /// Holds that ended before their owner gave them back.
    lost: AtomicUsize,
    /// Writes that were refused, of owners that did not hold any more.
    refused: AtomicUsize,
    /// Writes that the server got twice, and of which the second was refused.
    doubled: AtomicUsize,
    /// Calls that ended with an error, by their faults.
    failed: AtomicUsize,
}

struct Shared {
    terms: Terms,
    over: AtomicBool,
    history: History,
    counts: Counts,
}

pub(super) struct Contest {
    shared: Arc<Shared>,
    owners: JoinSet<()>,
}

/// One of them.
struct Owner {
    locks: LockManager,
    data: Table,
    rng: Rng,
    shared: Arc<Shared>,
}

/// The row that the holder of a lock writes.
pub(super) fn guarded_row(lock: usize) -> String {
    format!("\u{1}data of {lock}")
}

/// Writes under a fencing number, if none that is as high has been written; whether it did.
pub(super) async fn write_fenced(data: &Table, lock: usize, fencing: u64) -> hbase_txn::Result<bool> {
    let (row, number) = (guarded_row(lock), fencing.to_be_bytes().to_vec());
    let newer = Condition::compare(row.clone(), FAMILY, HIGHEST, Comparison::Less, number.clone());
    let put = Put::new(row).cell(FAMILY, HIGHEST, number);
    data.check_and_mutate(newer, [put.into()]).await
}

/// Makes the rows that holders write.
pub(super) async fn prepare(data: &Table, locks: usize) {
    for lock in 0..locks {
        let put = Put::new(guarded_row(lock)).cell(FAMILY, HIGHEST, 0_u64.to_be_bytes().to_vec());
        data.put(put).await.unwrap();
    }
}

/// The highest number that was written.
pub(super) async fn highest(data: &Table, lock: usize) -> u64 {
    let row = data.get(Get::new(guarded_row(lock))).await.unwrap().unwrap();
    u64::from_be_bytes(row.value(FAMILY, HIGHEST).unwrap()[..].try_into().unwrap())
}

impl Contest {
    /// One owner for each connection.
    pub(super) async fn start(
        connections: &[Connection],
        table: &TableName,
        terms: Terms,
        rng: impl Fn(u64) -> Rng,
    ) -> Self {
        prepare(&connections[0].table(table.clone()), terms.locks).await;
        let shared = Arc::new(Shared {
            terms,
            over: AtomicBool::new(false),
            history: History::new(),
            counts: Counts::default(),
        });
        let mut owners = JoinSet::new();
        for (number, connection) in (0..).zip(connections) {
            let owner = Owner {
                locks: locks_of(connection, table).await,
                data: connection.table(table.clone()),
                rng: rng(number),
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

    /// Lets everybody finish, and checks what they believed.
    pub(super) async fn stop(mut self, test: &str) {
        self.shared.over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.owners.join_next().await {
            ended.unwrap();
        }
        println!("{test}: {:?}", self.shared.counts);
        let holds = self.shared.history.check();
        assert_eq!(holds, self.shared.counts.acquired.load(Ordering::Relaxed));
    }
}

impl Owner {
    async fn come_and_go(mut self) {
        let shared = Arc::clone(&self.shared);
        while !shared.over.load(Ordering::Relaxed) {
            let lock = self.rng.usize(..shared.terms.locks);
            let mut request = request(&self.locks, &format!("lock-{lock}"), shared.terms.lease)
                .wait(Duration::from_millis(300));
            if self.rng.bool() {
                request = request.renewed();
            }
            match request.acquire().await {
                Ok(guard) => self.hold(lock, guard).await,
                Err(error) if error.kind() == hbase_txn::ErrorKind::LockUnavailable => {}
                Err(_) => count(&shared.counts.failed),
            }
        }
    }

    async fn hold(&mut self, lock: usize, guard: LockGuard) {
        let counts = &self.shared.counts;
        let begun = self.shared.history.acquired(lock, guard.fencing());
        count(&counts.acquired);
        let mut claim = Instant::now() + guard.remaining();
        // Mostly he is quick; sometimes he stays as long as he may; sometimes he sleeps past his lease.
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
        let written = write_fenced(&self.data, lock, guard.fencing()).await;
        match written {
            // His own second copy may have come first; else somebody has a higher number, and so acquired after him.
            Ok(false) => {
                let (highest, own) = (highest(&self.data, lock).await, guard.fencing());
                assert!(
                    highest == own || !guard.is_held(),
                    "lock {lock}: a holder's write under {own} was refused, behind {highest}: {guard:?}"
                );
                count(match highest == own {
                    true => &counts.doubled,
                    false => &counts.refused,
                });
            }
            Ok(true) => {}
            Err(_) => count(&counts.failed),
        }
        self.give_back(guard, begun, claim).await;
    }

    async fn give_back(&self, guard: LockGuard, begun: Begun, claim: Instant) {
        let counts = &self.shared.counts;
        let now = Instant::now();
        let end = now + guard.remaining();
        let held = end > now;
        // Of a lease that was over the guard claimed no more than it had said when it was last asked.
        self.shared
            .history
            .ended_at(begun, if held { now } else { claim.min(now) });
        match guard.release().await {
            Ok(ReleaseOutcome::Released) => {}
            Ok(ReleaseOutcome::Lost(loss)) => {
                // A release that comes late finds the next holder; one that was in time does not.
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
