//! An election: candidates that lead, resign and are evicted, and followers that observe them.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use fastrand::Rng;
use futures::StreamExt;
use hbase_fake::sim::World;
use hbase_txn::{
    ErrorKind, Level,
    admin::Admin,
    client::{Config, Connection},
    coordination::{Election, Leader, Leadership},
    lock::{LockLoss, LockTableOptions, LockToken, ReleaseOutcome},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::{connect, connect_with, lease, lock_options},
    holds_checker::capacity::{History, Hold},
};

const CANDIDATES: usize = 4;
const CAMPAIGNS: usize = 4;
const FOLLOWERS: usize = 2;
const READS: usize = 12;
const EVICTIONS: usize = 3;
/// Enough in virtual time, as in `holds`.
const MARGIN: Duration = Duration::from_millis(2);
/// Longer than any campaign and the calls that it may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// A leadership that a candidate won.
#[derive(Clone, Copy, Debug)]
struct Term {
    number: i64,
    token: LockToken,
    candidate: usize,
    /// When the campaign began, was won, and when the leader last counted on its leadership.
    asked: Instant,
    from: Instant,
    until: Instant,
    /// When its resignation began, if the server released the leadership then.
    resigned: Option<(Instant, Instant)>,
}

/// The revocation of a leadership.
#[derive(Clone, Copy, Debug)]
struct Eviction {
    asked: Instant,
    answered: Instant,
    /// Whether the leader was evicted. `None` if the call failed.
    is_done: Option<bool>,
}

/// A leader that a follower read between two moments.
#[derive(Clone, Debug)]
struct Observation {
    asked: Instant,
    answered: Instant,
    leader: Option<Leader>,
}

#[derive(Default)]
struct Records {
    terms: RefCell<Vec<Term>>,
    /// By the token of the leader.
    evictions: RefCell<BTreeMap<String, Vec<Eviction>>>,
    observations: RefCell<Vec<Observation>>,
    /// Whether the candidates have finished.
    is_over: Cell<bool>,
}

struct Candidate {
    number: usize,
    election: Election,
    records: Rc<Records>,
    lease: Duration,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = LockTableOptions::new("locks").unwrap();
    table.create(&Admin::new(&plain)).await.unwrap();
    let wall = plain
        .environment()
        .wall_clock()
        .duration_since(UNIX_EPOCH)
        .unwrap();
    let clock = (Instant::now(), wall);
    let lease = lease(&mut rng);
    let records = Rc::new(Records::default());
    let (candidates, observers) = (LocalSet::new(), LocalSet::new());
    for number in 0..CANDIDATES {
        // In small answers, a raw scan of a row that was often taken takes dozens of calls, and begins
        // again after each fault: none would end while faults last.
        let set = |config: Config| config.with_scan_batch_bytes(1 << 20);
        let connection = connect_with(&world, &mut rng, set).await;
        let candidate = Candidate {
            number,
            election: open(&connection, number).await,
            records: Rc::clone(&records),
            lease,
            rng: world.rng(1 + number as u64),
        };
        candidates.spawn_local(candidate.run());
    }
    for number in 0..FOLLOWERS {
        let election = open(&connect(&world, &mut rng).await, CANDIDATES).await;
        let rng = world.rng(100 + number as u64);
        candidates.spawn_local(read_often(election.clone(), Rc::clone(&records), rng));
        observers.spawn_local(follow(election, Rc::clone(&records)));
    }
    let election = open(&connect(&world, &mut rng).await, CANDIDATES).await;
    candidates.spawn_local(evict(election, Rc::clone(&records), world.rng(200)));
    world.begin_faults();
    observers.run_until(candidates).await;
    // The followers do not poll meanwhile.
    world.end_faults().await;
    let election = open(&plain, CANDIDATES).await;
    let last = election.leader().await.unwrap();
    assert_eq!(last, None, "all candidates have resigned");
    records.is_over.set(true);
    timeout(PATIENCE, observers)
        .await
        .expect("a follower sees the last change");
    records.check(clock);
}

async fn open(connection: &Connection, number: usize) -> Election {
    let locks = lock_options().holder(name(number));
    let locks = locks.open(connection, "locks").await.unwrap();
    Election::new(&locks, Level::Xdc, "leader").unwrap()
}

fn name(candidate: usize) -> String {
    format!("candidate {candidate}")
}

impl Candidate {
    async fn run(mut self) {
        for _ in 0..CAMPAIGNS {
            let patience = match self.rng.u8(..10) {
                0 => Duration::from_micros(self.rng.u64(..50_000)),
                _ => PATIENCE,
            };
            let wait = Duration::from_millis(self.rng.u64(..4_000));
            let campaign = self.election.campaign().ttl(self.lease).wait(wait);
            let campaign = campaign.skew_margin(MARGIN);
            let asked = Instant::now();
            let won = match self.rng.u8(..4) {
                0 => {
                    self.lead_while(patience).await;
                    continue;
                }
                1 => timeout(patience, campaign.try_lead()).await,
                _ => timeout(patience, async { campaign.lead().await.map(Some) }).await,
            };
            match won {
                Ok(Ok(Some(leadership))) => self.lead(asked, leadership).await,
                Ok(Ok(None)) => {}
                Ok(Err(error)) => assert!(
                    error.kind() == ErrorKind::LockUnavailable
                        || error.is_retryable()
                        || error.is_outcome_unknown(),
                    "{error}"
                ),
                Err(_) => assert!(patience < PATIENCE, "a campaign does not end"),
            }
        }
    }

    async fn lead(&mut self, asked: Instant, leadership: Leadership) {
        let term = self.won(asked, &leadership);
        let stay = self.stay();
        let mut claim = Instant::now() + leadership.guard().remaining();
        let end = Instant::now() + stay;
        while Instant::now() < end && leadership.is_leader() {
            claim = claim.max(Instant::now() + leadership.guard().remaining());
            self.records.counts_until(term, Instant::now());
            sleep(self.lease / 20).await;
        }
        let now = Instant::now();
        let remaining = now + leadership.guard().remaining();
        self.records
            .counts_until(term, if remaining > now { now } else { claim.min(now) });
        if !leadership.is_leader() {
            self.explain(term, &leadership.lost().await, claim);
        }
        if self.rng.u8(..4) == 0 {
            drop(leadership);
            return;
        }
        match leadership.resign().await {
            Ok(ReleaseOutcome::Released) => self.records.resigned(term, now),
            Ok(ReleaseOutcome::Lost(loss)) => self.explain(term, &loss, claim),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(error.is_retryable() || error.is_outcome_unknown(), "{error}"),
        }
    }

    /// Leads for some work, which is dropped if the leadership is lost.
    async fn lead_while(&mut self, patience: Duration) {
        let (stay, lease) = (self.stay(), self.lease);
        // That of later campaigns, too, which begin when a leadership is lost.
        let asked = Instant::now();
        let campaign = self.election.campaign().ttl(lease).skew_margin(MARGIN);
        let work = async |leadership: Arc<Leadership>| {
            let term = self.won(asked, &leadership);
            let end = Instant::now() + stay;
            while Instant::now() < end {
                assert!(
                    leadership.is_leader(),
                    "work goes on after term {}",
                    leadership.term()
                );
                self.records.counts_until(term, Instant::now());
                sleep(lease / 20).await;
            }
        };
        match timeout(patience, campaign.lead_while(work)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                assert_ne!(error.kind(), ErrorKind::LockUnavailable, "a standby has no limit");
                assert!(error.is_retryable() || error.is_outcome_unknown(), "{error}");
            }
            Err(_) => assert!(patience < PATIENCE, "lead_while does not end"),
        }
    }

    /// Mostly leaders resign soon; some stay longer than their lease, which is renewed.
    fn stay(&mut self) -> Duration {
        let longest = if self.rng.u8(..4) == 0 { 2.5 } else { 0.2 };
        self.lease.mul_f64(longest * self.rng.f64())
    }

    /// Adds a term that was won now. Returns its place.
    fn won(&self, asked: Instant, leadership: &Leadership) -> usize {
        let mut terms = self.records.terms.borrow_mut();
        let from = Instant::now();
        terms.push(Term {
            number: leadership.term(),
            token: leadership.guard().token(),
            candidate: self.number,
            asked,
            from,
            until: from,
            resigned: None,
        });
        terms.len() - 1
    }

    /// Checks that a loss before the end of the lease is an eviction.
    fn explain(&self, term: usize, loss: &LockLoss, claim: Instant) {
        let token = self.records.terms.borrow()[term].token.to_string();
        let is_evicted = self.records.evictions.borrow().contains_key(&token);
        assert!(
            is_evicted || *loss == LockLoss::Expired || Instant::now() >= claim,
            "leads, and no client evicts it: {loss}"
        );
    }
}

/// Reads the leader at random moments.
async fn read_often(election: Election, records: Rc<Records>, mut rng: Rng) {
    for _ in 0..READS {
        sleep(Duration::from_millis(rng.u64(..600))).await;
        let asked = Instant::now();
        if let Ok(leader) = election.leader().await {
            records.observe(asked, leader);
        }
    }
}

/// Reads the changes until the candidates have finished and there is no leader.
async fn follow(election: Election, records: Rc<Records>) {
    let mut changes = election.changes();
    let began = Instant::now();
    let mut last: Option<Option<Leader>> = None;
    let mut highest = 0;
    while !(records.is_over.get() && last == Some(None)) {
        // The poll may be dropped: no change is lost with it.
        let Ok(change) = timeout(Duration::from_millis(700), changes.next()).await else {
            continue;
        };
        let Ok(leader) = change.expect("the stream does not end") else {
            continue;
        };
        assert!(leader.is_some() || last != Some(None), "nothing has changed");
        if let Some(leader) = &leader {
            let term = leader.term.unwrap();
            assert!(term > highest, "term {term} is seen after {highest}");
            highest = term;
        }
        records.observe(began, leader.clone());
        last = Some(leader);
    }
}

/// Revokes some leaderships.
async fn evict(election: Election, records: Rc<Records>, mut rng: Rng) {
    for _ in 0..EVICTIONS {
        sleep(Duration::from_millis(rng.u64(..2_000))).await;
        let Ok(Some(leader)) = election.leader().await else {
            continue;
        };
        let token = leader.holder.token.unwrap();
        sleep(Duration::from_millis(rng.u64(..20))).await;
        let asked = Instant::now();
        // It may happen from here on.
        let place = {
            let mut evictions = records.evictions.borrow_mut();
            let evictions = evictions.entry(token.to_string()).or_default();
            evictions.push(Eviction {
                asked,
                answered: asked,
                is_done: None,
            });
            evictions.len() - 1
        };
        let evicted = timeout(PATIENCE, election.force_release(token)).await;
        let evicted = evicted.expect("an eviction ends");
        if let Ok(Some(holder)) = &evicted {
            assert_eq!(holder.name, leader.holder.name, "the evicted leader");
        }
        let mut evictions = records.evictions.borrow_mut();
        let eviction = &mut evictions.get_mut(&token.to_string()).unwrap()[place];
        eviction.answered = Instant::now();
        eviction.is_done = evicted.ok().map(|holder| holder.is_some());
    }
}

impl Records {
    fn counts_until(&self, term: usize, until: Instant) {
        let term = &mut self.terms.borrow_mut()[term];
        term.until = until.max(term.from);
    }

    fn resigned(&self, term: usize, asked: Instant) {
        self.terms.borrow_mut()[term].resigned = Some((asked, Instant::now()));
    }

    fn observe(&self, asked: Instant, leader: Option<Leader>) {
        self.observations.borrow_mut().push(Observation {
            asked,
            answered: Instant::now(),
            leader,
        });
    }

    /// Returns when a term ended for others at the latest: a leader notices its eviction later.
    fn end_of(&self, term: &Term) -> Instant {
        let evicted = self.evicted(term);
        evicted.map_or(term.until, |evicted| term.until.min(evicted).max(term.from))
    }

    /// Returns when the first eviction of the leader began.
    fn evicted(&self, term: &Term) -> Option<Instant> {
        let evictions = self.evictions.borrow();
        let evictions = evictions.get(&term.token.to_string())?;
        evictions.first().map(|eviction| eviction.asked)
    }

    fn check(&self, (began, wall): (Instant, Duration)) {
        let mut terms = self.terms.borrow_mut();
        terms.sort_unstable_by_key(|term| term.number);
        let history = History::default();
        // A winner whose answer is late may be evicted before it knows of its term, and others lead then.
        let led: Vec<&Term> = terms
            .iter()
            .filter(|term| self.evicted(term).is_none_or(|evicted| evicted > term.from))
            .collect();
        for term in &led {
            history.add(Hold {
                thing: 0,
                part: 1,
                asked: term.asked,
                from: term.from,
                until: self.end_of(term),
                fencing: term.number,
            });
        }
        history.check(&[1]);
        // A term is the server's time at which it began, as in `holds`.
        for pair in led.windows(2) {
            let until = wall + self.end_of(pair[0]).saturating_duration_since(began);
            assert!(
                until.as_millis() <= u128::try_from(pair[1].number).unwrap(),
                "{:?} began before the end of {:?}",
                pair[1],
                pair[0]
            );
        }
        for observation in &*self.observations.borrow() {
            self.check_observation(&terms, observation);
        }
        for (token, evictions) in &*self.evictions.borrow() {
            let Some(term) = terms.iter().find(|term| term.token.to_string() == *token) else {
                continue;
            };
            for eviction in evictions {
                let is_late = term.resigned.is_some_and(|(asked, _)| asked > eviction.answered);
                assert!(
                    !(is_late && eviction.is_done == Some(true)),
                    "{term:?} resigned after {eviction:?}"
                );
            }
            if let [eviction] = &evictions[..]
                && eviction.is_done == Some(false)
            {
                let leads = term.from < eviction.asked && term.until > eviction.answered;
                assert!(!leads, "{term:?} leads, and {eviction:?} did not find it");
            }
        }
    }

    /// Checks that a follower read a leader that there was at that time.
    fn check_observation(&self, terms: &[Term], observation: &Observation) {
        let token = observation
            .leader
            .as_ref()
            .map(|leader| leader.holder.token.unwrap());
        for term in terms {
            // At one moment anything may be first.
            let leads = term.from < observation.asked && self.end_of(term) > observation.answered;
            assert!(
                !leads || token == Some(term.token),
                "{term:?} leads, and {observation:?} does not say so"
            );
        }
        let Some(leader) = &observation.leader else {
            return;
        };
        // The winner of an abandoned campaign has no term here.
        let Some(term) = terms.iter().find(|term| Some(term.token) == token) else {
            let is_candidate = (0..CANDIDATES).any(|number| leader.holder.name == Some(name(number)));
            assert!(is_candidate, "{leader:?} is no candidate");
            return;
        };
        let is_right = leader.term == Some(term.number) && leader.holder.name == Some(name(term.candidate));
        assert!(is_right, "{leader:?} is not {term:?}");
        let is_over = term
            .resigned
            .is_some_and(|(_, answered)| answered < observation.asked);
        assert!(
            !is_over && term.asked <= observation.answered,
            "{observation:?} is of another time than {term:?}"
        );
    }
}
