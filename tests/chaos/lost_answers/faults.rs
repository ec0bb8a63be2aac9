//! What the network does to the requests of a run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::ServiceKind;

use crate::proxy::{Action, Proxy};

/// The time of one attempt.
pub(crate) const RPC_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest that a request stays on the way; by then its outcome is settled long since.
const LONGEST_DETOUR: Duration = Duration::from_secs(3);

/// How many faults of each sort there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    injected: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl Faults {
    /// Drops every tenth answer to a transaction or a fence after the server did it, and of the rest delays, doubles and
    /// cuts some; reads are disturbed less.
    pub(crate) fn begin(proxy: &Proxy, mut rng: Rng) -> Self {
        let faults = Self::default();
        let injected = Arc::clone(&faults.injected);
        proxy.rule(move |request| {
            let (sort, action) = match (request.service, request.method.as_str()) {
                (ServiceKind::Client, "ExecService" | "Multi") if request.earlier % 10 == 9 => {
                    ("answer dropped", Action::DropAnswer)
                }
                (ServiceKind::Client, "ExecService" | "Multi") => of_write(&mut rng),
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

    pub(crate) fn injected(&self) -> BTreeMap<&'static str, usize> {
        self.injected.lock().unwrap().clone()
    }
}

fn of_write(rng: &mut Rng) -> (&'static str, Action) {
    let detour =
        Duration::from_millis(rng.u64(RPC_TIMEOUT.as_millis() as u64 / 2..LONGEST_DETOUR.as_millis() as u64));
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
