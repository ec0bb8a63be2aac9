//! Sessions of several locks and a membership, some of which end by an eviction.
//!
//! As soon as a session has ended, none of its guards is held, and nothing of it is left behind. A
//! group lists a member from the answer of its join until the member begins to leave.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use futures::StreamExt;
use hbase_fake::sim::World;
use hbase_txn::{
    ErrorKind, Level,
    admin::Admin,
    client::Connection,
    coordination::{Group, Member},
    lock::{LockGuard, LockManager, LockTableOptions, LockToken, Session, SessionEnd},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::{connect, lease, lock_options},
    holds::assert_no_revocation,
    holds_checker::{Begun, History},
};

const WORKERS: usize = 3;
const SESSIONS: usize = 3;
const LOCKS: usize = 5;
const EVICTIONS: usize = 3;
/// Enough in virtual time, as in `holds`.
const MARGIN: Duration = Duration::from_millis(2);
/// Longer than any wait and the calls that it may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// The time in which a task that is due runs.
const PROMPT: Duration = Duration::from_millis(20);
/// How much longer than its lease a server may keep a hold: the time of a renewal in flight.
const LATE: Duration = Duration::from_secs(10);

/// A member that joined.
struct Joined {
    token: LockToken,
    name: String,
    data: String,
    /// When its join began and was answered, and when it last counted on its membership.
    asked: Instant,
    from: Instant,
    until: Instant,
    /// When it began to leave, or another client to evict it.
    left: Option<Instant>,
}

/// The members between two moments.
struct Observation {
    asked: Instant,
    answered: Instant,
    members: Vec<Member>,
}

#[derive(Default)]
struct Records {
    members: RefCell<Vec<Joined>>,
    observations: RefCell<Vec<Observation>>,
    evicted: RefCell<BTreeSet<String>>,
    /// Whether the workers have finished.
    is_over: Cell<bool>,
}

struct Worker {
    number: usize,
    locks: LockManager,
    group: Group,
    history: History,
    records: Rc<Records>,
    lease: Duration,
    rng: Rng,
}

/// A hold of a session.
struct Held {
    guard: LockGuard,
    /// A lock in the history. `None` for a membership.
    begun: Option<Begun>,
    /// Until when its guard counted on it, unless the session ends.
    claim: Instant,
    /// When it was last seen to be held. It is released as soon as another hold ends the session.
    seen: Instant,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = LockTableOptions::new("locks").unwrap().regions(rng.usize(1..4));
    let table = if rng.bool() {
        table.without_java_clients()
    } else {
        table
    };
    table.create(&Admin::new(&plain)).await.unwrap();
    let lease = lease(&mut rng);
    let (records, history) = (Rc::new(Records::default()), History::new());
    let (workers, observers) = (LocalSet::new(), LocalSet::new());
    for number in 0..WORKERS {
        let (locks, group) = open(&connect(&world, &mut rng).await).await;
        let worker = Worker {
            number,
            locks,
            group,
            history: history.clone(),
            records: Rc::clone(&records),
            lease,
            rng: world.rng(1 + number as u64),
        };
        workers.spawn_local(worker.run());
    }
    let (_, group) = open(&connect(&world, &mut rng).await).await;
    workers.spawn_local(evict(group.clone(), Rc::clone(&records), world.rng(100)));
    workers.spawn_local(read_often(group, Rc::clone(&records), world.rng(101)));
    let (_, group) = open(&connect(&world, &mut rng).await).await;
    observers.spawn_local(follow(group, Rc::clone(&records)));
    world.begin_faults();
    observers.run_until(workers).await;
    world.end_faults().await;
    records.is_over.set(true);
    // What the workers left behind by their death ends with its lease.
    sleep(lease + LATE).await;
    let (locks, group) = open(&plain).await;
    assert_eq!(group.members().await.unwrap(), [], "all members are gone");
    for lock in 0..LOCKS {
        let request = locks.lock(Level::Dc, &name(lock)).unwrap();
        assert!(request.try_acquire().await.unwrap().is_some(), "lock {lock}");
    }
    timeout(PATIENCE, observers)
        .await
        .expect("a follower sees the last change");
    history.check();
    records.check(lease);
}

async fn open(connection: &Connection) -> (LockManager, Group) {
    let locks = lock_options().farm("fra");
    let locks = locks.open(connection, "locks").await.unwrap();
    let group = Group::new(&locks, Level::Dc, "workers").unwrap();
    (locks, group)
}

fn name(lock: usize) -> String {
    format!("lock-{lock}")
}

impl Worker {
    async fn run(mut self) {
        for round in 0..SESSIONS {
            let name = format!("worker {} session {round}", self.number);
            let session = self.locks.session(&name).unwrap();
            let session = session.ttl(self.lease).skew_margin(MARGIN);
            let mut held = Vec::new();
            if self.rng.u8(..4) > 0 {
                self.join(&session, round, &mut held).await;
            }
            for _ in 0..self.rng.usize(1..LOCKS) {
                let lock = self.rng.usize(..LOCKS);
                self.acquire(&session, lock, &mut held).await;
                if self.rng.u8(..8) == 0 {
                    self.release_one(&mut held).await;
                }
            }
            self.work(&session, &mut held).await;
            self.end(session, held).await;
        }
    }

    async fn join(&mut self, session: &Session, round: usize, held: &mut Vec<Held>) {
        let (asked, data) = (Instant::now(), format!("{}/{round}", self.number));
        match timeout(self.patience(), self.group.join(session, data.clone())).await {
            Ok(Ok(guard)) => {
                let now = Instant::now();
                self.records.members.borrow_mut().push(Joined {
                    token: guard.token(),
                    name: session.name().to_owned(),
                    data,
                    asked,
                    from: now,
                    until: now,
                    left: None,
                });
                held.push(Held::new(guard, None));
            }
            Ok(Err(error)) => assert_failed_by_faults(&error),
            Err(_) => {}
        }
    }

    async fn acquire(&mut self, session: &Session, lock: usize, held: &mut Vec<Held>) {
        let wait = Duration::from_millis(self.rng.u64(..4_000));
        let request = self.locks.lock(Level::Dc, &name(lock)).unwrap();
        let request = request.session(session).wait(wait);
        let was_open = session.is_open();
        match timeout(self.patience(), request.acquire()).await {
            Ok(Ok(guard)) => {
                assert!(was_open, "a hold was added to a session that had ended");
                let begun = self.history.acquired(lock, guard.fencing());
                held.push(Held::new(guard, Some(begun)));
            }
            Ok(Err(error)) if error.kind() == ErrorKind::LockLost => assert!(!session.is_open(), "{error}"),
            Ok(Err(error)) => assert_failed_by_faults(&error),
            Err(_) => {}
        }
    }

    /// Sometimes a request is dropped midway.
    fn patience(&mut self) -> Duration {
        match self.rng.u8(..10) {
            0 => Duration::from_micros(self.rng.u64(..50_000)),
            _ => PATIENCE,
        }
    }

    /// Releases a hold, which does not end the session unless it was lost.
    async fn release_one(&mut self, held: &mut Vec<Held>) {
        if held.is_empty() {
            return;
        }
        let released = held.swap_remove(self.rng.usize(..held.len()));
        let end = Instant::now() + released.guard.remaining();
        let is_lock = self.ended(&released.guard, released.begun, released.seen);
        match released.guard.release().await {
            Ok(hbase_txn::lock::ReleaseOutcome::Lost(loss)) if is_lock && Instant::now() < end => {
                assert_no_revocation(&loss, end);
            }
            Ok(_) => {}
            Err(error) => assert_failed_by_faults(&error),
        }
    }

    /// Records the end of a hold. Returns whether it is a lock.
    fn ended(&self, guard: &LockGuard, begun: Option<Begun>, seen: Instant) -> bool {
        let now = Instant::now();
        let until = if guard.is_held() { now } else { seen };
        match begun {
            Some(begun) => {
                self.history.ended_at(begun, until);
                true
            }
            None => {
                self.records.left(guard.token(), now);
                self.records.counts_until(guard.token(), until);
                false
            }
        }
    }

    /// Works until the session ends, or for a while.
    async fn work(&mut self, session: &Session, held: &mut [Held]) {
        let longest = if self.rng.u8(..3) == 0 { 2.5 } else { 0.5 };
        let end = Instant::now() + self.lease.mul_f64(longest * self.rng.f64());
        while Instant::now() < end {
            self.check(session, held).await;
            if !session.is_open() {
                break;
            }
            let _ = timeout(self.lease / 20, session.lost()).await;
        }
        if let Ok(SessionEnd::Lost { hold, loss }) = timeout(Duration::ZERO, session.lost()).await {
            let lost = held.iter().find(|held| held.guard.name() == hold);
            // One that was released may have been found lost then.
            let Some(lost) = lost else { return };
            if self
                .records
                .evicted
                .borrow()
                .contains(&lost.guard.token().to_string())
            {
                return;
            }
            assert_no_revocation(&loss, lost.claim);
        }
    }

    /// Checks that the holds and their session end together.
    async fn check(&self, session: &Session, held: &mut [Held]) {
        let now = Instant::now();
        for held in &mut *held {
            if held.guard.is_held() {
                assert!(session.is_open(), "held after the end: {:?}", held.guard);
                held.claim = held.claim.max(now + held.guard.remaining());
                held.seen = now;
                self.records.counts_until(held.guard.token(), now);
            }
        }
        if held.iter().any(|held| !held.guard.is_held()) && session.is_open() {
            timeout(PROMPT, session.lost())
                .await
                .expect("the loss of a hold ends the session");
        }
    }

    async fn end(&mut self, session: Session, held: Vec<Held>) {
        if self.rng.bool() {
            // The process dies: nothing is renewed, and nothing released.
            for Held {
                guard, begun, seen, ..
            } in held
            {
                self.ended(&guard, begun, seen);
                if guard.is_held() {
                    let _token = guard.detach();
                }
            }
            return;
        }
        let mut guards = Vec::new();
        for Held {
            guard, begun, seen, ..
        } in held
        {
            self.ended(&guard, begun, seen);
            guards.push(guard);
        }
        if self.rng.u8(..4) == 0 {
            drop(session);
        } else {
            let closed = timeout(PATIENCE, session.close());
            match closed.await.expect("a session is closed in time") {
                Ok(_) => self.check_released(&guards).await,
                Err(error) => assert!(error.is_retryable() || error.hint().is_some(), "{error}"),
            }
        }
        assert!(guards.iter().all(|guard| !guard.is_held()));
    }

    /// Checks that HBase keeps none of these holds.
    async fn check_released(&self, guards: &[LockGuard]) {
        let Ok(members) = self.group.members().await else {
            return;
        };
        let mut tokens: Vec<_> = members.iter().map(|member| member.holder.token).collect();
        for lock in 0..LOCKS {
            if let Ok(info) = self.locks.show(Level::Dc, &name(lock)).await {
                tokens.push(info.holder.and_then(|holder| holder.token));
            }
        }
        for guard in guards {
            assert!(
                !tokens.contains(&Some(guard.token())),
                "{} is held after its session was closed",
                guard.name()
            );
        }
    }
}

impl Held {
    fn new(guard: LockGuard, begun: Option<Begun>) -> Self {
        Self {
            claim: Instant::now() + guard.remaining(),
            guard,
            begun,
            seen: Instant::now(),
        }
    }
}

fn assert_failed_by_faults(error: &hbase_txn::Error) {
    assert!(
        matches!(error.kind(), ErrorKind::LockUnavailable | ErrorKind::LockLost)
            || error.is_retryable()
            || error.is_outcome_unknown(),
        "{error}"
    );
}

/// Reads the members at random moments.
async fn read_often(group: Group, records: Rc<Records>, mut rng: Rng) {
    for _ in 0..20 {
        sleep(Duration::from_millis(rng.u64(..900))).await;
        let asked = Instant::now();
        if let Ok(members) = group.members().await {
            records.observe(asked, members);
        }
    }
}

/// Reads the changes until the workers have finished and there is no member.
async fn follow(group: Group, records: Rc<Records>) {
    let mut changes = group.changes();
    let mut last: Option<Vec<Member>> = None;
    while !(records.is_over.get() && last.as_ref().is_some_and(Vec::is_empty)) {
        // The poll may be dropped: no change is lost with it.
        let Ok(change) = timeout(Duration::from_millis(700), changes.next()).await else {
            continue;
        };
        let Ok(members) = change.expect("the stream does not end") else {
            continue;
        };
        let tokens =
            |members: &[Member]| -> Vec<_> { members.iter().map(|member| member.holder.token).collect() };
        if let Some(last) = &last {
            assert_ne!(tokens(last), tokens(&members), "nothing has changed");
        }
        last = Some(members);
    }
}

/// Evicts some members.
async fn evict(group: Group, records: Rc<Records>, mut rng: Rng) {
    for _ in 0..EVICTIONS {
        sleep(Duration::from_millis(rng.u64(..5_000))).await;
        let Ok(members) = group.members().await else {
            continue;
        };
        let Some(token) = rng.choice(&members).and_then(|member| member.holder.token) else {
            continue;
        };
        // It may happen from here on, perhaps before its join is answered.
        records.evicted.borrow_mut().insert(token.to_string());
        records.left(token, Instant::now());
        let evicted = timeout(PATIENCE, group.force_release(token)).await;
        let _ = evicted.expect("an eviction ends");
    }
}

impl Records {
    fn counts_until(&self, token: LockToken, until: Instant) {
        let mut members = self.members.borrow_mut();
        if let Some(member) = members.iter_mut().find(|member| member.token == token) {
            member.until = member.until.max(until);
        }
    }

    fn left(&self, token: LockToken, now: Instant) {
        let mut members = self.members.borrow_mut();
        if let Some(member) = members.iter_mut().find(|member| member.token == token) {
            member.left = Some(member.left.map_or(now, |left| left.min(now)));
        }
    }

    fn observe(&self, asked: Instant, members: Vec<Member>) {
        self.observations.borrow_mut().push(Observation {
            asked,
            answered: Instant::now(),
            members,
        });
    }

    fn check(&self, lease: Duration) {
        let (joined, evicted) = (self.members.borrow(), self.evicted.borrow());
        for observation in &*self.observations.borrow() {
            for member in &observation.members {
                let token = member.holder.token.expect("all members have tokens");
                let Some(known) = joined.iter().find(|known| known.token == token) else {
                    // The answer of its join was lost.
                    continue;
                };
                assert_eq!(member.data, known.data.as_bytes(), "data of {}", known.name);
                assert_eq!(member.holder.name.as_deref(), Some(&*known.name));
                assert!(known.asked <= observation.answered);
                let end = known.left.map_or(known.until, |left| left.max(known.until));
                assert!(
                    observation.asked <= end + lease + LATE,
                    "{} is listed after its lease",
                    known.name
                );
            }
            for known in &*joined {
                let left = known.left.unwrap_or(known.until).min(known.until);
                // In virtual time, two calls may have the same time in either order.
                if evicted.contains(&known.token.to_string())
                    || known.from >= observation.asked
                    || left <= observation.answered
                {
                    continue;
                }
                let listed = |member: &Member| member.holder.token == Some(known.token);
                assert!(
                    observation.members.iter().any(listed),
                    "{} is not listed while it is a member",
                    known.name
                );
            }
        }
    }
}
