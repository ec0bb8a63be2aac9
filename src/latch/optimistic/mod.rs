//! The loop of all changes of a latch or a barrier: read, plan, write on the condition that the row is
//! as it was read, judge, pause, and read again. A plan on a read from before the pause would conflict
//! with every change that was applied meanwhile.

use hbase_client::low_level::Pauses;
use tokio::time::Instant;

use crate::error::{ClientErrorKind, Error, Result};

/// What is known about a change that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Applied,
    /// It was not applied, and no copy of it in flight can be.
    NotApplied,
    /// Nothing has changed since it was planned, so it may be sent again: at most one of all copies
    /// is applied.
    Open,
    /// It is noted, but its count is not written.
    #[cfg(feature = "thrift")]
    Noted,
    /// Too many changes followed.
    Unknown,
}

/// What to do with a row as it was read.
pub(crate) enum Planned<P, A> {
    Write(P),
    /// There is nothing to do.
    Done(A),
    /// The row cannot be changed yet.
    Later,
}

/// A change of one row. Its methods end by the deadline of the change.
pub(crate) trait Change {
    type Row;
    type Plan;
    type Answer;

    async fn read(&self) -> Result<Self::Row>;

    /// Plans the change. It may write what other changes left unfinished, and read the row again.
    async fn plan(&self, row: &mut Self::Row) -> Result<Planned<Self::Plan, Self::Answer>>;

    /// Writes the plan, if the row is as it was planned on, and judges it by the row as it is then.
    async fn write(&self, plan: &Self::Plan, base: &Self::Row) -> Result<(Verdict, Self::Row)>;

    /// Judges a plan of which copies may be in flight.
    fn judge(&self, plan: &Self::Plan, base: &Self::Row, row: &Self::Row) -> Verdict;

    /// Completes a plan that was applied. Returns `None` if it must be planned again.
    async fn complete(&mut self, plan: Self::Plan, row: Self::Row) -> Result<Option<Self::Answer>>;

    /// Returns the error of a change that conflicted with others until its deadline.
    fn contended() -> Error;
}

/// A change of which a copy may be applied later: an answer was lost.
struct InFlight<C: Change> {
    /// The plan and the row that it was planned on. `None` if another copy was refused although the note
    /// is as it was: then the change is planned again, since the rest of the row is not. All plans have
    /// the note as a condition, and change it, so at most one copy of all is applied.
    sent: Option<(C::Plan, C::Row)>,
    lost: Error,
}

/// Applies a change.
///
/// # Errors
///
/// Returns the errors of planning and of the calls, and [`contended`](Change::contended) if other
/// changes took the time. If the outcome is unknown, the change may have been applied.
pub(crate) async fn apply<C: Change>(change: &mut C, deadline: Instant) -> Result<C::Answer> {
    let mut pauses = Pauses::after_conflicts();
    let mut in_flight = None;
    let mut is_first = true;
    loop {
        match attempt(change, &mut in_flight).await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            // The conflicts before this call left it too little time.
            Err(error) if !is_first && is_late(&error) => return Err(C::contended().with_source(error)),
            Err(error) => return Err(error),
        }
        if !pauses.wait_before(deadline).await {
            return Err(in_flight.map_or_else(C::contended, |sent| sent.lost));
        }
        is_first = false;
    }
}

/// Returns `None` if the change is not applied, or its outcome is still to be found out.
async fn attempt<C: Change>(
    change: &mut C,
    in_flight: &mut Option<InFlight<C>>,
) -> Result<Option<C::Answer>> {
    let (mut row, lost) = match (change.read().await, in_flight.take()) {
        (Ok(row), None) => (row, None),
        (Err(error), None) => return Err(error),
        (Err(error), Some(sent)) if error.is_retryable() => {
            *in_flight = Some(sent);
            return Ok(None);
        }
        (Err(_), Some(sent)) => return Err(sent.lost),
        (Ok(row), Some(InFlight { sent: None, lost })) => (row, Some(lost)),
        (
            Ok(row),
            Some(InFlight {
                sent: Some((plan, base)),
                lost,
            }),
        ) => match change.judge(&plan, &base, &row) {
            Verdict::NotApplied => (row, None),
            Verdict::Open => return write(change, plan, base, Some(lost), in_flight).await,
            Verdict::Unknown => return Err(lost),
            _ => return change.complete(plan, row).await,
        },
    };
    match change.plan(&mut row).await? {
        Planned::Write(plan) => write(change, plan, row, lost, in_flight).await,
        Planned::Done(answer) => Ok(Some(answer)),
        Planned::Later => {
            *in_flight = lost.map(|lost| InFlight { sent: None, lost });
            Ok(None)
        }
    }
}

/// Writes a plan; `lost` is the first lost answer to it.
async fn write<C: Change>(
    change: &mut C,
    plan: C::Plan,
    base: C::Row,
    lost: Option<Error>,
    in_flight: &mut Option<InFlight<C>>,
) -> Result<Option<C::Answer>> {
    let lost = match (change.write(&plan, &base).await, lost) {
        // The server did not apply it, and no other copy was sent.
        (Ok((Verdict::Open | Verdict::Unknown, _)), None) | (Ok((Verdict::NotApplied, _)), _) => {
            return Ok(None);
        }
        (Ok((Verdict::Open, _)), Some(lost)) => {
            *in_flight = Some(InFlight { sent: None, lost });
            return Ok(None);
        }
        (Ok((Verdict::Unknown, _)), Some(lost)) => return Err(lost),
        (Ok((_, row)), _) => return change.complete(plan, row).await,
        (Err(error), lost) if error.is_outcome_unknown() => {
            tracing::debug!(%error, "the outcome of a change is unknown");
            lost.unwrap_or(error)
        }
        (Err(error), Some(lost)) if error.is_retryable() => lost,
        (Err(error), lost) => return Err(lost.unwrap_or(error)),
    };
    let sent = Some((plan, base));
    *in_flight = Some(InFlight { sent, lost });
    Ok(None)
}

fn is_late(error: &Error) -> bool {
    error.kind() == ClientErrorKind::DeadlineExceeded && !error.is_outcome_unknown()
}

#[cfg(test)]
mod tests;
