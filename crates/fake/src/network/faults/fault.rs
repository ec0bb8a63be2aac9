//! Faults and their handles.

use std::{fmt, sync::Arc};

use super::{
    action::{Action, DialAction},
    call::{Call, Dial},
};
use crate::network::signal::Signal;

/// Calls or dials, and what happens to them.
///
/// Made by the methods of [`Call`] and [`Dial`]. Of the faults that select a call, the first one
/// that was added happens.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(super) kind: Kind,
    /// How often it happens at most.
    pub(super) times: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Call(Call, Action),
    Dial(Dial, DialAction),
}

impl Fault {
    pub(super) fn of_call(call: Call, action: Action) -> Self {
        Self {
            kind: Kind::Call(call, action),
            times: None,
        }
    }

    pub(super) fn of_dial(dial: Dial, action: DialAction) -> Self {
        Self {
            kind: Kind::Dial(dial, action),
            times: None,
        }
    }

    /// Limits how often the fault happens. Without a limit it happens to all selected calls.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Call(call, action) => write!(f, "{call}: {action}"),
            Kind::Dial(dial, action) => write!(f, "{dial}: {action}"),
        }
    }
}

/// A fault that was added to a cluster. Dropping the handle does not end the fault.
#[derive(Clone, Debug)]
pub struct FaultHandle {
    pub(super) progress: Arc<Progress>,
}

/// How far a fault is. The cluster and the handle share it.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) happened: Signal<usize>,
    pub(super) released: Signal<bool>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            happened: Signal::new(0),
            released: Signal::new(false),
        }
    }
}

impl FaultHandle {
    /// Returns how often the fault has happened.
    pub fn happened(&self) -> usize {
        self.progress.happened.get()
    }

    /// Waits until the fault has happened this often.
    pub async fn wait_for(&self, times: usize) {
        self.progress
            .happened
            .wait_for(|happened| happened >= times)
            .await;
    }

    /// Ends the fault, and lets the calls continue that it holds. The end of the test does not complain of
    /// it if it has not happened.
    pub fn release(&self) {
        self.progress.released.set(true);
    }
}
