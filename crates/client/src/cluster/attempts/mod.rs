//! One call's attempts within its deadline.
//!
//! A call is a loop: locate, send, and on failure let [`Attempts::recover`] decide. That forgets
//! outdated locations and pauses for the next attempt, or returns the error for the user.

use std::{borrow::Cow, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt;
use tokio::time::{Instant, timeout_at};

use super::{Cluster, RegionLocation, locator::STATE_LOOK_UP, no_location::NoLocation, pause};
use crate::{
    error::{Effect, Error, ErrorKind, Failure, FailureKind, Result},
    model::{BytesBinary, RegionInfo, ServerName, TableName, TableState},
    observe::{ObservedOperation, client_metrics::RETRIES},
    rpc::{AttemptLimit, CallError, Recovery, rounded},
};

/// The hint for a write that may be applied.
const READ_BACK: &str = "read the rows back before sending it again";

/// The effect of a call on the server. Decides whether the client repeats a call whose answer was
/// lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Changes nothing. The call may be repeated.
    Read,
    /// Changes data, and has another result if it is applied twice. The call is repeated only if it
    /// certainly was not applied.
    Write,
    /// Changes data, and has the same result if it is applied twice. The call may be repeated.
    IdempotentWrite,
}

/// An operation and its target.
#[derive(Clone, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) name: &'static str,
    pub(crate) table: &'a TableName,
    pub(crate) row: Cow<'a, Bytes>,
    pub(crate) kind: CallKind,
    pub(crate) deadline: Instant,
}

/// The attempts of one operation.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    cluster: &'a Cluster,
    operation: Operation<'a>,
    started: Instant,
    /// The number of the current attempt, from 1. Each lookup raises it.
    attempt: u32,
    last_error: Option<Error>,
    /// Whether an attempt may have been applied. A later failure does not reset it.
    may_be_applied: bool,
    /// Whether a write carries a nonce.
    has_nonce: bool,
    /// The server that may have applied a write with a nonce, and that would recognise it.
    recognised_by: Option<ServerName>,
    /// When the location was forgotten that led to that server: the next one is newer.
    forgotten_at: Option<Instant>,
    observed: ObservedOperation,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(cluster: &'a Cluster, operation: Operation<'a>) -> Self {
        Self {
            cluster,
            observed: observed(cluster, &operation),
            operation,
            started: Instant::now(),
            attempt: 0,
            last_error: None,
            may_be_applied: false,
            has_nonce: false,
            recognised_by: None,
            forgotten_at: None,
        }
    }

    /// Repeats a write whose answer was lost, on the server that may have applied it: the write
    /// carries a nonce.
    pub(crate) fn repeat_on_one_server(&mut self) {
        self.has_nonce = true;
    }

    /// Returns the attempts of a part of the operation that begins at this row, which continue these
    /// on their own.
    pub(crate) fn fork(&self, row: Bytes) -> Self {
        let operation = Operation {
            row: Cow::Owned(row),
            ..self.operation.clone()
        };
        Self {
            cluster: self.cluster,
            observed: observed(self.cluster, &operation),
            operation,
            started: self.started,
            attempt: self.attempt,
            last_error: self.last_error.clone(),
            may_be_applied: self.may_be_applied,
            has_nonce: self.has_nonce,
            recognised_by: self.recognised_by.clone(),
            forgotten_at: self.forgotten_at,
        }
    }

    /// Returns the attempts of a part as [`fork`](Self::fork) does, without the last look-up.
    pub(crate) fn fork_before_look_up(&self, row: Bytes) -> Self {
        let mut forked = self.fork(row);
        forked.attempt = forked.attempt.saturating_sub(1);
        forked
    }

    /// Records that the operation succeeded.
    pub(crate) fn succeed(&mut self) {
        self.observed.succeed();
    }

    /// Records that the operation failed with an error that is not one of an attempt.
    pub(crate) fn fail<K: FailureKind>(&mut self, error: &Failure<K>) {
        self.observed.fail(error);
    }

    /// Continues at another row, as a scan does. Earlier failures no longer count, or the pause for
    /// the thousandth region would be as long as after a thousand failures.
    pub(crate) fn relocate_to(&mut self, row: Bytes) {
        if *self.operation.row != row {
            self.operation.row = Cow::Owned(row);
            self.attempt = 0;
            self.last_error = None;
        }
    }

    /// Continues at another row of the same operation. Earlier failures still count.
    pub(crate) fn move_to(&mut self, row: Bytes) {
        self.operation.row = Cow::Owned(row);
    }

    /// Returns the time until the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.operation.deadline.saturating_duration_since(Instant::now())
    }

    pub(crate) fn kind(&self) -> CallKind {
        self.operation.kind
    }

    /// Continues with a part of the operation that has the same effect if it is applied twice.
    pub(crate) fn make_idempotent(&mut self) {
        self.operation.kind = CallKind::IdempotentWrite;
    }

    /// Continues with an operation that has another effect if it is applied twice.
    pub(crate) fn repeat_only_if_unapplied(&mut self) {
        self.operation.kind = CallKind::Write;
    }

    /// Returns the possible effect of the attempts so far.
    pub(crate) fn effect(&self) -> Effect {
        if self.may_be_applied {
            Effect::Unknown
        } else {
            Effect::None
        }
    }

    /// Returns the location of the row. Waits until its region is served, within the deadline.
    pub(crate) async fn locate(&mut self) -> Result<Arc<RegionLocation>> {
        loop {
            let table = self.operation.table;
            let failure = match self.look_up().await {
                Some(Ok(location)) => {
                    self.check_recognised(&location)?;
                    return Ok(location);
                }
                Some(Err(failure)) => failure,
                None => {
                    let error = Error::new(
                        ErrorKind::DeadlineExceeded,
                        "the row's region was not found in time",
                    );
                    self.pause_or_give_up(error, Recovery::Wait, "timeout").await?;
                    continue;
                }
            };
            if failure.is_final() {
                return Err(self.in_context(failure.into_error(table)));
            }
            // If `hbase:meta` itself does not answer, another query to it is useless.
            if let NoLocation::InTransition(_, server, _) = &failure {
                Box::pin(self.check_table_state(server)).await?;
            }
            let reason = failure.reason();
            self.pause_or_give_up(failure.into_error(table), Recovery::Wait, reason)
                .await?;
        }
    }

    /// Returns whether this location of the row is the one that is known.
    pub(crate) fn knows_no_other(&self, location: &RegionLocation) -> bool {
        let known = self
            .cluster
            .known_location(self.operation.table, &self.operation.row);
        known.is_some_and(|known| {
            let opening = |location: &RegionLocation| (location.open_sequence, location.server.clone());
            known.region.name == location.region.name && opening(&known) == opening(location)
        })
    }

    /// Returns an error if the server does not know of an earlier attempt, which has to be repeated there.
    pub(crate) fn check_recognised(&mut self, location: &RegionLocation) -> Result<()> {
        match &self.recognised_by {
            Some(server) if *server != location.server => {
                let owner = location.server.address();
                Err(self.unrecognised(&format!("{owner} has the region now")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error of a write whose answer was lost, and that no server would recognise.
    pub(crate) fn unrecognised(&mut self, why: &str) -> Error {
        let what = format!("its answer was lost, and {why}");
        let mut error = Error::new(ErrorKind::ConnectionLost, what);
        if let Some(server) = &self.recognised_by {
            error = error.at_server(&server.address());
        }
        self.in_context(error.with_hint(READ_BACK))
    }

    /// Returns the location of the row, if its region is served at the moment. Otherwise returns
    /// the region, if it is known.
    pub(crate) async fn locate_now(&mut self) -> Result<Arc<RegionLocation>, Option<Box<RegionInfo>>> {
        match self.look_up().await {
            Some(Ok(location)) => Ok(location),
            Some(Err(NoLocation::InTransition(_, _, region))) => Err(region),
            Some(Err(_)) | None => Err(None),
        }
    }

    /// Makes one attempt to find the region. Returns `None` if it takes too long.
    async fn look_up(&mut self) -> Option<Result<Arc<RegionLocation>, NoLocation>> {
        self.attempt += 1;
        let Operation { table, deadline, .. } = self.operation;
        let attempt_deadline = deadline.min(Instant::now() + self.cluster.config.read_timeout());
        let locator = &self.cluster.locator;
        let mut look_up = pin!(locator.locate(table, &self.operation.row, attempt_deadline));
        // Most locations are cached, and need no timer.
        match look_up.as_mut().now_or_never() {
            Some(answer) => Some(answer),
            None => timeout_at(attempt_deadline, look_up).await.ok(),
        }
    }

    /// Returns the deadline of the operation.
    pub(crate) fn deadline(&self) -> Instant {
        self.operation.deadline
    }

    /// Returns the limit of the next attempt, which goes to this location. A repeatable attempt ends
    /// at its timeout, or earlier on a silent connection. A non-repeatable attempt gets the whole
    /// write timeout, because ending it early only leaves its outcome unknown.
    pub(crate) fn attempt_limit(&self, location: &RegionLocation) -> AttemptLimit {
        self.observe_attempt(location);
        self.limit_until(self.operation.deadline)
    }

    /// Returns the limit of an attempt that changes no data of the caller, whatever the operation does.
    pub(crate) fn probe_limit(&self, location: &RegionLocation) -> AttemptLimit {
        self.observe_attempt(location);
        self.limit_as(CallKind::Read, self.operation.deadline)
    }

    /// Returns the limit of an attempt that begins now and belongs to an operation with this
    /// deadline.
    pub(crate) fn limit_until(&self, deadline: Instant) -> AttemptLimit {
        self.limit_as(self.operation.kind, deadline)
    }

    fn limit_as(&self, kind: CallKind, deadline: Instant) -> AttemptLimit {
        let config = &self.cluster.config;
        let timeout = match kind {
            CallKind::Read => config.read_timeout(),
            CallKind::IdempotentWrite => config.read_timeout().min(config.write_timeout()),
            CallKind::Write => config.write_timeout(),
        };
        AttemptLimit {
            deadline: deadline.min(Instant::now() + timeout),
            repeatable: kind != CallKind::Write || self.has_nonce,
            connected_before: self.forgotten_at,
            located_at: None,
            trace: self.observed.trace_headers(&self.cluster.span_options),
        }
    }

    fn observe_attempt(&self, location: &RegionLocation) {
        let attempt = self.attempt.max(1);
        self.observed
            .attempt(Some(&location.region), &location.server, attempt);
    }

    /// Prepares the next attempt after a failed call: forgets outdated locations, and pauses.
    ///
    /// # Errors
    ///
    /// Returns the error for the user if there is no next attempt: the failure is final, the
    /// deadline passed, or a write may have been applied.
    pub(crate) async fn recover(&mut self, failure: CallError, location: &RegionLocation) -> Result<()> {
        self.recover_as(self.operation.kind, failure, location).await
    }

    /// Prepares the next attempt after a failed call that changes no data of the caller, whatever the
    /// operation does.
    ///
    /// # Errors
    ///
    /// Returns the error for the user if there is no next attempt: the failure is final, or the deadline
    /// passed.
    pub(crate) async fn recover_probe(
        &mut self,
        failure: CallError,
        location: &RegionLocation,
    ) -> Result<()> {
        self.recover_as(CallKind::Read, failure, location).await
    }

    async fn recover_as(
        &mut self,
        kind: CallKind,
        failure: CallError,
        location: &RegionLocation,
    ) -> Result<()> {
        let (classification, reason) = (failure.classify(), failure.reason());
        self.cluster.forget_after(classification.recovery, location);
        let effect = match kind {
            CallKind::Read => Effect::None,
            CallKind::Write | CallKind::IdempotentWrite => classification.effect,
        };
        self.may_be_applied |= effect == Effect::Unknown;
        // A region that is not served may belong to a disabled table. A timeout is no evidence of that.
        let unserved = classification.recovery == Recovery::Relocate
            && matches!(failure, CallError::Remote(_) | CallError::Action { .. });
        let error = failure
            .into_error()
            .with_effect(effect)
            .at_server(&location.server.address());
        if effect == Effect::Unknown && kind == CallKind::Write {
            if !self.has_nonce {
                return Err(self.in_context(error.with_hint(READ_BACK)));
            }
            self.recognised_by = Some(location.server.clone());
        }
        if self.recognised_by.is_some() {
            // The server may end, and another process may take its address and the region.
            self.cluster.forget(location);
            self.forgotten_at = Some(Instant::now());
        }
        match classification.recovery {
            Recovery::Fail => return Err(self.in_context(error)),
            _ if unserved => Box::pin(self.check_table_state(&location.server)).await?,
            _ => {}
        }
        self.pause_or_give_up(error, classification.recovery, reason)
            .await
    }

    /// Returns the error of an operation that another attempt on any server does not help.
    pub(crate) fn final_error(&mut self, error: Error, location: &RegionLocation) -> Error {
        self.in_context(error.at_server(&location.server.address()))
    }

    /// Checks for a disabled table, whose regions are not served.
    async fn check_table_state(&mut self, server: &ServerName) -> Result<()> {
        // Only at attempts 1, 2, 4, 8 and so on: most moved regions are served again soon.
        if self.operation.table.is_system() || !self.attempt.is_power_of_two() {
            return Ok(());
        }
        let timeout = self.cluster.config.read_timeout().min(STATE_LOOK_UP);
        let deadline = self.operation.deadline.min(Instant::now() + timeout);
        let look_up = self.cluster.locator.table_state(self.operation.table, deadline);
        let error = match timeout_at(deadline, look_up).await {
            Ok(Ok(Some(state @ (TableState::Disabled | TableState::Disabling)))) => {
                Error::new(ErrorKind::TableDisabled, format!("the table is {state}"))
            }
            Ok(Ok(None)) => Error::new(ErrorKind::TableNotFound, "the table does not exist"),
            _ => return Ok(()),
        };
        Err(self.in_context(error.at_server(&server.address()).at_stage("finding the region")))
    }

    /// Pauses before the next attempt. Returns the error if no time is left for one.
    async fn pause_or_give_up(
        &mut self,
        error: Error,
        recovery: Recovery,
        reason: &'static str,
    ) -> Result<()> {
        let pause = pause::for_recovery(recovery, self.time_left(), &self.cluster.config, self.attempt);
        let Some(pause) = pause else {
            return Err(self.give_up(error));
        };
        RETRIES.count(|| [reason]);
        self.observed.in_scope(|| {
            let (operation, attempt) = (self.operation.name, self.attempt);
            tracing::debug!(operation, attempt, reason, ?pause, %error, "retrying");
        });
        self.last_error = Some(error);
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Returns the error of an operation whose time does not allow another attempt.
    fn give_up(&mut self, error: Error) -> Error {
        let waited = rounded(self.started.elapsed());
        let cause = pause::more_telling(error, self.last_error.take(), self.operation.deadline);
        let server = cause.server().map(str::to_owned);
        let what = format!("gave up after {waited:?}");
        let mut error = Error::new(ErrorKind::DeadlineExceeded, what).with_retryable(true);
        if self.operation.kind != CallKind::Read {
            error = error.tell_no_effect();
        }
        if let Some(server) = server {
            error = error.at_server(&server);
        }
        self.in_context(error.with_source(cause))
    }

    /// Adds the context of the operation to its last error.
    fn in_context(&mut self, error: Error) -> Error {
        let error = match self.effect() {
            Effect::Unknown => error.with_effect(Effect::Unknown),
            Effect::None => error,
        };
        let error = error
            .at_operation(self.operation.name)
            .at_table(self.operation.table);
        self.observed.fail(&error);
        if self.operation.row.is_empty() {
            error.at_attempt(self.attempt)
        } else {
            error
                .at_row(&BytesBinary(&self.operation.row))
                .at_attempt(self.attempt)
        }
    }
}

fn observed(cluster: &Cluster, operation: &Operation<'_>) -> ObservedOperation {
    ObservedOperation::begin(
        &cluster.span_options,
        operation.name,
        Some(operation.table),
        &operation.row,
    )
}

#[cfg(test)]
mod tests;
