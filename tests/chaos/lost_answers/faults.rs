//! What the network does to the requests of a run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::ServiceKind;
use tokio::time::sleep;

use crate::proxy::{Action, Proxy};

/// The time of one attempt.
pub(crate) const RPC_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest that a request stays on the way; by then its outcome is settled long since.
const MAX_DETOUR: Duration = Duration::from_secs(3);

/// How long all writes are refused; longer than the patience of a commit.
const REFUSAL: Duration = Duration::from_millis(3_500);

/// How many faults of each sort there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    injected: Arc<Mutex<BTreeMap<&'static str, usize>>>,
    phase: Arc<Mutex<Phase>>,
}

/// What happens to all writes at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Faults come by chance.
    #[default]
    Chance,
    /// Half of the answers of the server on this port are dropped, and the other servers refuse
    /// every request.
    LoseOf(u16),
    /// Every request is refused.
    Refuse,
}

impl Faults {
    /// Drops every tenth answer to a transaction or a fence after the server did it, and of the
    /// rest delays, doubles and cuts some; reads are disturbed less.
    pub(crate) fn begin(proxy: &Proxy, mut rng: Rng) -> Self {
        let faults = Self::default();
        let injected = Arc::clone(&faults.injected);
        let phase = Arc::clone(&faults.phase);
        proxy.rule(move |request| {
            let is_write = request.service == ServiceKind::Client
                && matches!(request.method.as_str(), "ExecService" | "Multi");
            let phase = *phase.lock().unwrap();
            let (sort, action) = match (request.service, request.method.as_str()) {
                _ if is_write && phase == Phase::LoseOf(request.port) => match rng.bool() {
                    true => ("answer dropped before a move", Action::DropAnswer),
                    // The answer that the region is there no more must arrive, too.
                    false => ("", Action::Pass),
                },
                _ if is_write && phase != Phase::Chance => ("refused after a move", Action::Refuse),
                _ if is_write && request.earlier % 10 == 9 => ("answer dropped", Action::DropAnswer),
                _ if is_write => of_write(&mut rng),
                (ServiceKind::Client, _) => of_read(&mut rng),
                _ => return Action::Pass,
            };
            if action != Action::Pass {
                *injected.lock().unwrap().entry(sort).or_default() += 1;
            }
            action
        });
        faults
    }

    /// Drops answers of one server while a region moves away from it, and lets all others refuse
    /// every write until each commit has given up: behind an attempt that was applied come attempts
    /// that surely are not.
    pub(crate) async fn lose_then_refuse<T>(&self, home: u16, moving: impl Future<Output = T>) -> T {
        let set = |phase| *self.phase.lock().unwrap() = phase;
        set(Phase::LoseOf(home));
        let moved = moving.await;
        set(Phase::Refuse);
        sleep(REFUSAL).await;
        set(Phase::Chance);
        moved
    }

    pub(crate) fn injected(&self) -> BTreeMap<&'static str, usize> {
        self.injected.lock().unwrap().clone()
    }
}

fn of_write(rng: &mut Rng) -> (&'static str, Action) {
    let detour =
        Duration::from_millis(rng.u64(RPC_TIMEOUT.as_millis() as u64 / 2..MAX_DETOUR.as_millis() as u64));
    match rng.u32(..1_000) {
        0..30 => ("request late", Action::Detour(detour)),
        30..60 => ("delivered twice", Action::Again(detour / 2)),
        60..70 => ("delivered twice at once", Action::Duplicate),
        70..80 => ("request dropped", Action::DropRequest),
        80..90 => ("answer late", Action::DelayAnswer(2 * RPC_TIMEOUT)),
        90..95 => ("cut", cut(rng)),
        _ => ("", Action::Pass),
    }
}

fn of_read(rng: &mut Rng) -> (&'static str, Action) {
    match rng.u32(..1_000) {
        0..10 => ("read dropped", Action::DropAnswer),
        10..13 => ("cut", cut(rng)),
        _ => ("", Action::Pass),
    }
}

fn cut(rng: &mut Rng) -> Action {
    let cuts = [
        Action::CutBeforeRequest,
        Action::CutInRequest,
        Action::CutAfterRequest,
        Action::CutBeforeAnswer,
        Action::CutInAnswer,
    ];
    *rng.choice(&cuts).unwrap()
}
