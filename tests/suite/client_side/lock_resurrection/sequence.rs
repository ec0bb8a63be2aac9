//! Three leases of one lock, one after the other, with events between and during them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    client::{Delete, Table},
    lock::{LockGuard, LockHolder, LockLoss, LockManager, LockToken, ReleaseOutcome},
};
use tokio::sync::Semaphore;

use crate::support::eventually;

/// Leases of this length or longer are never waited for.
const ENDLESS: Duration = Duration::from_secs(60);
/// The intruder's lease: shorter than some leases, and long enough to be acquired.
const INTRUSION: Duration = Duration::from_secs(1);
/// Expired cells are gone at most this many milliseconds later.
const GRACE: u64 = 5;
/// The longest time, in milliseconds, that a busy server may take from one row of a lock to the
/// other.
const MAX_APART: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Flush,
    Compaction,
    Expiry,
    Renewal,
    JavaRelease,
}

/// The plan of a sequence: its leases, whether each is released or its holder vanishes, and the
/// events in order. Event `n` comes in gap `gaps[n]`: gap 0 is during the first lease, 1 after its
/// end, 2 during the second, and so on.
pub(super) struct Plan {
    pub(super) leases: [Duration; 3],
    pub(super) released: [bool; 3],
    pub(super) events: [Event; 5],
    pub(super) gaps: [usize; 5],
}

/// The clients of all rows: one process for each lease, and an intruder.
pub(super) struct Players {
    pub(super) owners: [LockManager; 3],
    pub(super) intruder: LockManager,
    pub(super) table: Table,
    pub(super) companions: bool,
    /// Limits the concurrent calls. With more, a call could wait longer than the shortest leases
    /// last.
    pub(super) calls: Semaphore,
}

pub(super) struct Sequence {
    plan: Plan,
    id: String,
    row: Bytes,
    /// The current gap plus one.
    stage: usize,
    guard: Option<LockGuard>,
    /// When the lease was requested.
    taken: Instant,
    /// Whether the holder vanished, so that only time ends the lease.
    vanished: bool,
    /// Whether the lock row was deleted under the holder.
    removed: bool,
    tokens: Vec<LockToken>,
    /// The ends of the leases by the server's clock, except those of endless leases.
    ends: Vec<u64>,
    fencing: i64,
    /// The violations found so far.
    pub(super) complaints: Vec<String>,
}

pub(super) fn now() -> u64 {
    millis(SystemTime::now())
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Sleeps until a moment of the server's clock, which is also this machine's, is past.
pub(super) async fn sleep_past_end(end: u64) {
    while now() <= end + GRACE {
        tokio::time::sleep(Duration::from_millis(end + GRACE + 1 - now().min(end))).await;
    }
}

pub(super) async fn try_acquire(locks: &LockManager, id: &str, lease: Duration) -> Option<LockGuard> {
    for _ in 0..10 {
        let request = locks.lock(Level::Dc, id).unwrap().ttl(lease);
        let began = SystemTime::now();
        match request.try_acquire().await {
            Ok(guard) => return guard,
            // A busy machine, and a lease shorter than a round trip.
            Err(error) if error.kind() == ClientErrorKind::DeadlineExceeded => {}
            // The balancer moved the region. The client releases in the background what the attempt
            // won; such a hold has no owner here.
            Err(error) if error.is_outcome_unknown() => {
                eventually("what was won unseen is given back", async || {
                    let holder = locks.show(Level::Dc, id).await.unwrap().holder;
                    holder.is_none_or(|holder| holder.since < began).then_some(())
                })
                .await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a lease of {lease:?} was always over before it was known of");
}

/// Returns when the server ends this hold, or `None` if it is over.
pub(super) async fn server_end(locks: &LockManager, id: &str, token: LockToken) -> Option<u64> {
    let holder = locks.show(Level::Dc, id).await.unwrap().holder?;
    let end = holder.since + holder.lease?;
    (holder.token == Some(token)).then(|| millis(end))
}

impl Sequence {
    pub(super) fn new(plan: Plan, id: String, row: Bytes) -> Self {
        Self {
            plan,
            id,
            row,
            stage: 0,
            guard: None,
            taken: Instant::now(),
            vanished: false,
            removed: false,
            tokens: Vec::new(),
            ends: Vec::new(),
            fencing: 0,
            complaints: Vec::new(),
        }
    }

    fn complain(&mut self, what: &str) {
        let Self { id, plan, stage, .. } = self;
        let Plan {
            leases,
            released,
            events,
            gaps,
        } = plan;
        self.complaints.push(format!(
            "{id}, in gap {}: {what}; leases {leases:?}, released {released:?}, {events:?} in {gaps:?}",
            *stage - 1
        ));
    }

    /// Advances to a gap.
    pub(super) async fn go_to(&mut self, players: &Players, gap: usize) {
        while self.stage <= gap {
            self.stage += 1;
            match (self.stage - 1) % 2 {
                0 => self.acquire(players).await,
                _ => self.end(players).await,
            }
        }
    }

    fn lease(&self) -> Duration {
        self.plan.leases[(self.stage - 1) / 2]
    }

    async fn acquire(&mut self, players: &Players) {
        if let Some(end) = self.ends.last().filter(|_| self.vanished) {
            sleep_past_end(*end).await;
        }
        let owner = &players.owners[self.stage / 2];
        let _turn = players.calls.acquire().await.unwrap();
        let (lease, began) = (self.lease(), SystemTime::now());
        let guard = loop {
            self.taken = Instant::now();
            if let Some(guard) = try_acquire(owner, &self.id, lease).await {
                break guard;
            }
            // A put in the millisecond of a row's deletion is hidden, so that the lock is not
            // acquired though it is free. The client releases in the background what it acquired
            // too late.
            let asked = now();
            let found = owner.show(Level::Dc, &self.id).await.unwrap();
            if let Some(holder) = found.holder.filter(|holder| holder.since < began) {
                if let Some(end) = self.own_end(&holder, asked) {
                    sleep_past_end(end).await;
                    continue;
                }
                self.complain(&format!("is over, and held by {holder}"));
                owner.force_release(Level::Dc, &self.id).await.unwrap();
            }
        };
        self.rises(guard.fencing());
        self.tokens.push(guard.token());
        (self.vanished, self.removed) = (false, false);
        self.note_end(owner, guard.token()).await;
        self.guard = Some(guard);
        self.intrude(players).await;
    }

    /// Returns when the last lease really ends, if the holder is its owner. The rows of a lock may
    /// be acquired in different milliseconds, and the noted end is that of the first row.
    fn own_end(&self, holder: &LockHolder, asked: u64) -> Option<u64> {
        let end = millis(holder.since + holder.lease?);
        let is_own = holder.token.as_ref() == self.tokens.last();
        (is_own && self.vanished && end < self.ends.last()? + MAX_APART && end + GRACE >= asked)
            .then_some(end)
    }

    fn rises(&mut self, fencing: i64) {
        if fencing <= self.fencing {
            self.complain(&format!("fencing number {fencing} after {}", self.fencing));
        }
        self.fencing = fencing;
    }

    async fn note_end(&mut self, owner: &LockManager, token: LockToken) {
        if self.lease() < ENDLESS {
            let end = server_end(owner, &self.id, token).await;
            self.ends.push(end.unwrap_or_else(now));
        }
    }

    /// Tries to acquire the lock alongside the holder.
    async fn intrude(&mut self, players: &Players) {
        let Some(guard) = &self.guard else { return };
        // Without a companion row, a deletion of the lock row lets the next client in.
        if !guard.is_held() || (self.removed && !players.companions) {
            return;
        }
        if let Some(intruder) = try_acquire(&players.intruder, &self.id, INTRUSION).await {
            let held = guard.is_held();
            self.rises(intruder.fencing());
            let _ = intruder.release().await.unwrap();
            if held {
                self.complain("is held by two");
            }
        }
    }

    async fn end(&mut self, players: &Players) {
        let Some(guard) = self.guard.take() else { return };
        let _turn = players.calls.acquire().await.unwrap();
        if !self.plan.released[(self.stage - 1) / 2] && self.lease() < ENDLESS {
            self.vanished = true;
            std::mem::forget(guard);
            return;
        }
        let was_held = guard.is_held();
        let outcome = guard.release().await.unwrap();
        let expected = match (&outcome, self.removed) {
            (ReleaseOutcome::Released, false) => was_held,
            (ReleaseOutcome::Lost(LockLoss::Removed), true) => true,
            // A busy machine may have let the lease expire.
            (ReleaseOutcome::Lost(LockLoss::Expired), _) => self.taken.elapsed() >= self.lease() * 4 / 5,
            _ => false,
        };
        if !expected {
            self.complain(&format!("was released, held {was_held}: {outcome}"));
        }
    }

    pub(super) async fn take_part(&mut self, players: &Players, event: usize) {
        match self.plan.events[event] {
            Event::Flush | Event::Compaction => {}
            Event::Expiry => {
                let end = match self.guard {
                    Some(_) if self.lease() >= ENDLESS => None,
                    _ => self.ends.iter().max().copied(),
                };
                if let Some(end) = end {
                    sleep_past_end(end).await;
                }
            }
            Event::Renewal => self.renew(players).await,
            Event::JavaRelease => {
                let _turn = players.calls.acquire().await.unwrap();
                players.table.delete(Delete::new(self.row.clone())).await.unwrap();
                self.removed = true;
            }
        }
        let _turn = players.calls.acquire().await.unwrap();
        self.intrude(players).await;
    }

    async fn renew(&mut self, players: &Players) {
        let _turn = players.calls.acquire().await.unwrap();
        let lease = self.lease();
        let owner = &players.owners[(self.stage - 1) / 2];
        let token = *self.tokens.last().unwrap();
        let Some(guard) = &self.guard else {
            // As long as its lease lasts, a vanished holder cannot be told apart from a live one.
            if !self.vanished {
                let loss = owner.renew(Level::Dc, &self.id, token, lease).await.unwrap();
                if loss.is_ok() {
                    self.complain("was renewed after it was released");
                }
            }
            return;
        };
        let renewed = guard.renew().await;
        let is_held = guard.is_held();
        match renewed {
            Ok(()) if !self.removed => {
                self.note_end(owner, token).await;
            }
            Ok(()) => self.complain("was renewed although its row was deleted"),
            // The lock row was deleted, but the companion row may have been renewed.
            Err(error) if error.kind() == ErrorKind::LockLost && !is_held => {
                self.note_end(owner, token).await;
            }
            Err(error) => self.complain(&format!("could not be renewed: {error}")),
        }
    }

    /// Checks after the last lease that the lock stays free, whatever expires now.
    pub(super) async fn stays_free(&mut self, players: &Players) {
        let mut ends = self.ends.clone();
        // Before that, a vanished holder may still hold it.
        let over = ends.last().copied().filter(|_| self.vanished).unwrap_or(0);
        ends.push(now());
        ends.retain(|end| *end >= over);
        ends.sort_unstable_by(|one, other| other.cmp(one));
        while let Some(end) = ends.pop() {
            sleep_past_end(end).await;
            let _turn = players.calls.acquire().await.unwrap();
            let asked = now();
            let found = players.intruder.show(Level::Dc, &self.id).await.unwrap();
            let Some(holder) = found.holder else { continue };
            match self.own_end(&holder, asked) {
                Some(end) => ends.push(end),
                None => return self.complain(&format!("is over, and held by {holder}")),
            }
        }
        let _turn = players.calls.acquire().await.unwrap();
        match try_acquire(&players.intruder, &self.id, ENDLESS).await {
            Some(guard) => self.rises(guard.fencing()),
            None => self.complain("is free, and not to be had"),
        }
    }
}
