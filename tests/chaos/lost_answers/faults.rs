//! The effects of the network on the requests of a run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::client::ServiceKind;
use tokio::time::sleep;

use crate::proxy::{Action, Proxy};

/// The time limit of one attempt.
pub(crate) const RPC_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest delay of a request; its outcome is settled long before.
const MAX_DETOUR: Duration = Duration::from_secs(3);

/// The time in which all writes are refused; longer than the deadline of a commit.
const REFUSAL: Duration = Duration::from_millis(3_500);

/// The numbers of faults by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    injected: Arc<Mutex<BTreeMap<&'static str, usize>>>,
    phase: Arc<Mutex<Phase>>,
}

/// The treatment of all writes for a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Random faults.
    #[default]
    Chance,
    /// Half of the answers of the server on this port are dropped, and the other servers refuse
    /// every request.
    LoseOf(u16),
    /// Every request is refused.
    Refuse,
}

impl Faults {
    /// Drops every tenth answer to a transaction or a fence after the server has performed it, and
    /// delays, doubles and cuts some of the others; reads have fewer faults.
    pub(crate) fn begin(proxy: &Proxy, mut rng: Rng) -> Self {
        let faults = Self::default();
        let injected = Arc::clone(&faults.injected);
        let phase = Arc::clone(&faults.phase);
        proxy.rule(move |request| {
            let is_write = request.service == ServiceKind::Client
                && matches!(request.method.as_str(), "ExecService" | "Multi");
            let phase = *phase.lock().unwrap();
            let (sort, action) = match (request.service, request.method.as_str()) {
                _ if is_write && phase == Phase::LoseOf(request.port) => {
                    if rng.bool() {
                        ("answer dropped before a move", Action::DropAnswer)
                    } else {
                        // The answer that the region is no longer there must arrive too.
                        ("", Action::Pass)
                    }
                }
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
    /// every write until each commit has given up. So attempts that were certainly not applied
    /// follow one that was.
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
