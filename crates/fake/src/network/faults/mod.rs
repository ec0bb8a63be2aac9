//! Faults: which calls, what happens to them, and how often.

mod action;
mod call;
mod fault;
mod random;

use std::sync::Arc;

use self::fault::{Kind, Progress};
pub(crate) use self::random::RandomDraws;
pub(super) use self::{
    action::{Action, DialAction},
    random::draw,
};
pub use self::{
    call::{Call, Dial, ReceivedCall},
    fault::{Fault, FaultHandle},
    random::{Latency, RandomFaults},
};
use super::signal::Signal;

/// The faults of a cluster.
#[derive(Debug, Default)]
pub(super) struct Faults {
    entries: Vec<Entry>,
    pub(super) random: Option<RandomDraws>,
}

#[derive(Debug)]
struct Entry {
    fault: Fault,
    /// The calls that matched, apart from [`Call::nth`].
    matched: u64,
    progress: Arc<Progress>,
}

/// A fault that happens to a call.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) action: Action,
    /// Becomes true when calls that are held may continue.
    pub(super) released: Option<Signal<bool>>,
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) -> FaultHandle {
        let progress = Arc::new(Progress::new());
        self.entries.push(Entry {
            fault,
            matched: 0,
            progress: Arc::clone(&progress),
        });
        FaultHandle { progress }
    }

    /// Returns the fault that happens to a call. It counts as happened.
    pub(super) fn of_call(&mut self, call: &ReceivedCall) -> Option<Applied> {
        let mut applied = None;
        // All of them count the call, also those that do not happen to it.
        for entry in &mut self.entries {
            if let Kind::Call(selection, action) = &entry.fault.kind
                && selection.selects(call, &mut entry.matched)
                && applied.is_none()
                && entry.happens()
            {
                applied = Some(Applied {
                    action: action.clone(),
                    released: Some(entry.progress.released.clone()),
                });
            }
        }
        applied.or_else(|| {
            let action = self.random.as_mut()?.of_call(call.number, call)?;
            Some(Applied {
                action,
                released: None,
            })
        })
    }

    /// Returns the fault that happens to a dial. It counts as happened.
    pub(super) fn of_dial(&mut self, server: usize) -> Option<DialAction> {
        for entry in &mut self.entries {
            if let Kind::Dial(selection, action) = &entry.fault.kind
                && selection.selects(server)
                && entry.happens()
            {
                return Some(action.clone());
            }
        }
        self.random.as_mut()?.of_dial(server)
    }

    /// Returns the faults that did not happen, or not as often as they were to.
    pub(super) fn unused(&self) -> Vec<String> {
        self.entries.iter().filter_map(Entry::unused).collect()
    }
}

impl Entry {
    fn happens(&self) -> bool {
        let happened = self.progress.happened.get();
        let happens = !self.progress.released.get() && self.fault.times.is_none_or(|times| happened < times);
        if happens {
            self.progress.happened.set(happened + 1);
        }
        happens
    }

    fn unused(&self) -> Option<String> {
        let happened = self.progress.happened.get();
        let wanted = self.fault.times.unwrap_or(1);
        let how_often = match happened {
            0 => "never happened".to_owned(),
            _ => format!("happened {happened} of {wanted} times"),
        };
        (happened < wanted && !self.progress.released.get()).then(|| format!("{}: {how_often}", self.fault))
    }
}
