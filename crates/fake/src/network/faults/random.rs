//! Latency, and faults at random.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use super::action::{Action, DialAction};
use crate::exception::Exception;

/// How long calls take, apart from faults. Each call draws its durations from the ranges. The
/// resolution is that of tokio's timer: one millisecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// From the client to the server.
    pub request: Range<Duration>,
    /// From the arrival at the server to the execution. A call whose timeout passes is dropped.
    pub queue: Range<Duration>,
    /// From the server to the client.
    pub answer: Range<Duration>,
}

const NONE: Range<Duration> = Duration::ZERO..Duration::ZERO;

impl Latency {
    /// No latency: calls are executed and answered at once.
    pub const NONE: Self = Self {
        request: NONE,
        queue: NONE,
        answer: NONE,
    };
}

impl Default for Latency {
    fn default() -> Self {
        Self::NONE
    }
}

/// Faults that happen to calls at random, each with its probability from 0 to 1. At most one
/// happens to a call.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "each is described by the method of `Call` or `Dial` with its name"
)]
pub struct RandomFaults {
    pub lose_request: f64,
    pub lose_answer: f64,
    pub delay_request: f64,
    pub delay_in_queue: f64,
    pub delay_answer: f64,
    pub answer_twice: f64,
    pub deliver_twice: f64,
    pub cut_answer: f64,
    pub close_before: f64,
    pub close_after: f64,
    pub wrong_call_id: f64,
    pub fail_before: f64,
    pub fail_after: f64,
    pub mute: f64,
    pub refuse_dial: f64,
    pub delay_dial: f64,
    pub lose_dial: f64,
    /// The classes of the exceptions of `fail_before` and `fail_after`.
    pub exceptions: Vec<&'static str>,
    /// The upper limit of delays, which are drawn between this and 0.
    pub max_delay: Duration,
}

impl Default for RandomFaults {
    /// Returns no faults, an `IOException`, and delays of up to a second.
    fn default() -> Self {
        Self {
            lose_request: 0.0,
            lose_answer: 0.0,
            delay_request: 0.0,
            delay_in_queue: 0.0,
            delay_answer: 0.0,
            answer_twice: 0.0,
            deliver_twice: 0.0,
            cut_answer: 0.0,
            close_before: 0.0,
            close_after: 0.0,
            wrong_call_id: 0.0,
            fail_before: 0.0,
            fail_after: 0.0,
            mute: 0.0,
            refuse_dial: 0.0,
            delay_dial: 0.0,
            lose_dial: 0.0,
            exceptions: vec!["java.io.IOException"],
            max_delay: Duration::from_secs(1),
        }
    }
}

impl RandomFaults {
    fn draw(&self, rng: &mut fastrand::Rng) -> Option<Action> {
        let mut at = rng.f64();
        let mut happens = |probability: f64| {
            at -= probability;
            at < 0.0
        };
        // The first one that makes the sum pass what was drawn.
        let pick = [
            self.lose_request,
            self.lose_answer,
            self.delay_request,
            self.delay_in_queue,
            self.delay_answer,
            self.answer_twice,
            self.deliver_twice,
            self.cut_answer,
            self.close_before,
            self.close_after,
            self.wrong_call_id,
            self.fail_before,
            self.fail_after,
            self.mute,
        ]
        .into_iter()
        .position(&mut happens)?;
        Some(match pick {
            0 => Action::LoseRequest,
            1 => Action::LoseAnswer,
            2 => Action::DelayRequest(self.delay(rng)),
            3 => Action::DelayInQueue(self.delay(rng)),
            4 => Action::DelayAnswer(self.delay(rng)),
            5 => Action::AnswerTwice {
                later: self.delay(rng),
            },
            6 => Action::DeliverTwice {
                later: self.delay(rng),
            },
            7 => Action::CutAnswer,
            8 => Action::CloseBefore,
            9 => Action::CloseAfter,
            10 => Action::WrongCallId,
            11 => Action::FailBefore(self.exception(rng)?),
            12 => Action::FailAfter(self.exception(rng)?),
            _ => Action::Mute,
        })
    }

    fn draw_dial(&self, rng: &mut fastrand::Rng) -> Option<DialAction> {
        let at = rng.f64();
        if at < self.refuse_dial {
            Some(DialAction::Refuse)
        } else if at < self.refuse_dial + self.delay_dial {
            Some(DialAction::Delay(self.delay(rng)))
        } else if at < self.refuse_dial + self.delay_dial + self.lose_dial {
            Some(DialAction::Lose)
        } else {
            None
        }
    }

    fn delay(&self, rng: &mut fastrand::Rng) -> Duration {
        draw(&(Duration::ZERO..self.max_delay), rng)
    }

    fn exception(&self, rng: &mut fastrand::Rng) -> Option<Exception> {
        let class = rng.choice(&self.exceptions)?;
        Some(Exception::new(class, "a random fault of the test"))
    }
}

/// The random faults of a cluster. Those of a call follow from the seed and its number, so they stay
/// the same if others are left out.
#[derive(Clone, Debug)]
pub(crate) struct RandomDraws {
    faults: RandomFaults,
    seed: u64,
    /// The numbers of the calls and dials to which a fault may happen, or `None` for all.
    only: Option<BTreeSet<u64>>,
    dials: u64,
    happened: Vec<Happened>,
}

/// A random fault that happened.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    /// The number of the call or dial.
    pub(crate) number: u64,
    /// The kind of the fault.
    pub(crate) kind: &'static str,
    /// The call or dial, and the fault.
    pub(crate) text: String,
}

/// What makes the number of a dial differ from that of a call.
const DIALS: u64 = 1 << 62;

impl RandomDraws {
    pub(crate) fn new(faults: RandomFaults, seed: u64, only: Option<BTreeSet<u64>>) -> Self {
        Self {
            faults,
            seed,
            only,
            dials: 0,
            happened: Vec::new(),
        }
    }

    pub(super) fn of_call(&mut self, number: u64, call: impl std::fmt::Display) -> Option<Action> {
        let action = self.faults.draw(&mut self.rng(number)?)?;
        self.happened.push(Happened {
            number,
            kind: action.name(),
            text: format!("{call}: {action}"),
        });
        Some(action)
    }

    pub(super) fn of_dial(&mut self, server: usize) -> Option<DialAction> {
        self.dials += 1;
        let number = DIALS + self.dials;
        let action = self.faults.draw_dial(&mut self.rng(number)?)?;
        self.happened.push(Happened {
            number,
            kind: action.name(),
            text: format!("dial of server {server}: {action}"),
        });
        Some(action)
    }

    fn rng(&self, number: u64) -> Option<fastrand::Rng> {
        let may_happen = self.only.as_ref().is_none_or(|only| only.contains(&number));
        may_happen.then(|| fastrand::Rng::with_seed(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns the faults that happened.
    pub(crate) fn into_happened(self) -> Vec<Happened> {
        self.happened
    }
}

/// Draws a duration, which is the start of an empty range.
pub(in crate::network) fn draw(range: &Range<Duration>, rng: &mut fastrand::Rng) -> Duration {
    if range.is_empty() {
        return range.start;
    }
    let nanos = u64::try_from((range.end - range.start).as_nanos()).unwrap_or(u64::MAX);
    range.start + Duration::from_nanos(rng.u64(0..nanos))
}
