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
    AnswerTwice { later: Duration },
    DeliverTwice { later: Duration },
    CutAnswer,
    CloseBefore,
    CloseAfter,
    WrongCallId,
    FailBefore(Exception),
    FailAfter(Exception),
    EndAfterCells(u64),
    HoldRequest,
    HoldAnswer,
    Mute,
}

/// What happens to a dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) enum DialAction {
    Refuse,
    Delay(Duration),
    Lose,
}

impl Action {
    /// Returns the name of the kind of the fault.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::LoseRequest => "lose_request",
            Self::LoseAnswer => "lose_answer",
            Self::DelayRequest(_) => "delay_request",
            Self::DelayInQueue(_) => "delay_in_queue",
            Self::DelayAnswer(_) => "delay_answer",
            Self::AnswerTwice { .. } => "answer_twice",
            Self::DeliverTwice { .. } => "deliver_twice",
            Self::CutAnswer => "cut_answer",
            Self::CloseBefore => "close_before",
            Self::CloseAfter => "close_after",
            Self::WrongCallId => "wrong_call_id",
            Self::FailBefore(_) => "fail_before",
            Self::FailAfter(_) => "fail_after",
            Self::EndAfterCells(_) => "heartbeat_after",
            Self::HoldRequest => "hold_request",
            Self::HoldAnswer => "hold_answer",
            Self::Mute => "mute",
        }
    }
}

impl DialAction {
    /// Returns the name of the kind of the fault.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Refuse => "refuse_dial",
            Self::Delay(_) => "delay_dial",
            Self::Lose => "lose_dial",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoseRequest => f.write_str("lose request"),
            Self::LoseAnswer => f.write_str("lose answer"),
            Self::DelayRequest(delay) => write!(f, "delay request by {delay:?}"),
            Self::DelayInQueue(delay) => write!(f, "delay in queue by {delay:?}"),
            Self::DelayAnswer(delay) => write!(f, "delay answer by {delay:?}"),
            Self::AnswerTwice { later } => write!(f, "answer twice, {later:?} later"),
            Self::DeliverTwice { later } => write!(f, "deliver twice, {later:?} later"),
            Self::CutAnswer => f.write_str("cut answer"),
            Self::CloseBefore => f.write_str("close before execution"),
            Self::CloseAfter => f.write_str("close after execution"),
            Self::WrongCallId => f.write_str("wrong call id"),
            Self::FailBefore(exception) => write!(f, "{} before execution", exception.class),
            Self::FailAfter(exception) => write!(f, "{} after execution", exception.class),
            Self::EndAfterCells(cells) => write!(f, "end after {cells} cells"),
            Self::HoldRequest => f.write_str("hold request"),
            Self::HoldAnswer => f.write_str("hold answer"),
            Self::Mute => f.write_str("mute the connection"),
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
