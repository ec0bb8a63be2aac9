//! The treatment of a call's requests by the proxy.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::client::ServiceKind;

use super::DEADLINE;
use crate::proxy::{Action, Request};

/// An event during a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Corner {
    Delayed,
    Muted,
    MasterMuted,
    Moved,
}

impl Corner {
    /// Returns each corner alone, and each pair.
    pub(super) fn combinations() -> [&'static [Self]; 10] {
        use Corner::{Delayed, MasterMuted, Moved, Muted};
        [
            &[Delayed],
            &[Muted],
            &[MasterMuted],
            &[Moved],
            &[Delayed, Muted],
            &[Delayed, MasterMuted],
            &[Delayed, Moved],
            &[Muted, MasterMuted],
            &[Muted, Moved],
            &[MasterMuted, Moved],
        ]
    }
}

/// The random choices of a case.
pub(super) struct Luck {
    rng: Rng,
}

/// The treatment of the requests of one case, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) master_muted: bool,
    actions: VecDeque<Action>,
    /// The treatment of all further requests.
    rest: Option<Action>,
    pub(super) story: Arc<Mutex<Story>>,
}

/// The events of a case.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// The methods of its disturbed requests, with the actions.
    pub(super) lost: Vec<String>,
    /// Whether a request to the master was not answered.
    pub(super) master_was_silent: bool,
}

impl Luck {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng }
    }

    /// Returns the time limit of an attempt: short for several attempts, or long for one.
    pub(super) fn time_of_attempt(&mut self) -> Duration {
        Duration::from_millis(self.rng.u64(400..900)) * if self.rng.u8(..4) == 0 { 20 } else { 1 }
    }

    pub(super) fn script(&mut self, corners: &[Corner]) -> Script {
        let late = DEADLINE + Duration::from_millis(500);
        let mut script = Script::default();
        for corner in corners {
            match corner {
                Corner::Delayed => {
                    let delayed = Action::DelayAnswer(late);
                    script.actions.push_back(delayed);
                    script.rest = self.rng.bool().then_some(delayed);
                }
                Corner::Muted => script.actions.push_back(match self.rng.u8(..3) {
                    0 => Action::Blackhole,
                    1 => Action::BlackholeAnswers,
                    _ => Action::BlackholeUntil(late),
                }),
                Corner::MasterMuted => script.master_muted = true,
                Corner::Moved => {}
            }
        }
        if self.rng.bool() {
            script.actions.make_contiguous().reverse();
        }
        // A call may have several requests; any of them may be affected.
        for _ in 0..self.rng.usize(..3).saturating_sub(1) {
            script.actions.push_front(Action::Pass);
        }
        script
    }
}

impl Script {
    pub(super) fn action(&mut self, asks_master: bool, request: &Request) -> Action {
        let action = match (request.service, asks_master) {
            (ServiceKind::Master, _) if self.master_muted => Action::DropRequest,
            (ServiceKind::Master, true) | (ServiceKind::Client | ServiceKind::Admin, false) => {
                self.actions.pop_front().or(self.rest).unwrap_or(Action::Pass)
            }
            _ => Action::Pass,
        };
        if action != Action::Pass {
            let mut story = self.story.lock().unwrap();
            let is_of_master = request.service == ServiceKind::Master;
            story.master_was_silent |= is_of_master;
            if is_of_master == asks_master {
                story.lost.push(format!("{} {action:?}", request.method));
            }
        }
        action
    }
}
