//! What a fault does.

use std::{fmt, time::Duration};

use crate::exception::Exception;

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) enum Action {
    LoseRequest,
    LoseAnswer,
    DelayRequest(Duration),
    DelayInQueue(Duration),
    DelayAnswer(Duration),
    DeliverTwice { later: Duration },
    CutAnswer,
    CloseBefore,
    CloseAfter,
    WrongCallId,
    FailBefore(Exception),
    FailAfter(Exception),
    HoldRequest,
    HoldAnswer,
}

/// What happens to a dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) enum DialAction {
    Refuse,
    Delay(Duration),
    Lose,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoseRequest => f.write_str("lose request"),
            Self::LoseAnswer => f.write_str("lose answer"),
            Self::DelayRequest(delay) => write!(f, "delay request by {delay:?}"),
            Self::DelayInQueue(delay) => write!(f, "delay in queue by {delay:?}"),
            Self::DelayAnswer(delay) => write!(f, "delay answer by {delay:?}"),
            Self::DeliverTwice { later } => write!(f, "deliver twice, {later:?} later"),
            Self::CutAnswer => f.write_str("cut answer"),
            Self::CloseBefore => f.write_str("close before execution"),
            Self::CloseAfter => f.write_str("close after execution"),
            Self::WrongCallId => f.write_str("wrong call id"),
            Self::FailBefore(exception) => write!(f, "{} before execution", exception.class),
            Self::FailAfter(exception) => write!(f, "{} after execution", exception.class),
            Self::HoldRequest => f.write_str("hold request"),
            Self::HoldAnswer => f.write_str("hold answer"),
        }
    }
}

impl fmt::Display for DialAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse => f.write_str("refuse"),
            Self::Delay(delay) => write!(f, "delay by {delay:?}"),
            Self::Lose => f.write_str("lose"),
        }
    }
}
