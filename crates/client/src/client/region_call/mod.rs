//! Calls of the region of a row, with checks of the caller before each attempt.
//!
//! | file | contents |
//! |---|---|
//! | `failed_attempt` | why an attempt failed, and what it may have changed |
//! | `multi` | several actions of one region in one call |
//! | `proof` | proof that a server honours conditions, once for each start of a server |

pub(super) mod failed_attempt;
pub(super) mod multi;
pub(super) mod proof;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use self::failed_attempt::{Cause, PROVING_CONDITIONS};
use super::{ActionAnswer, EndpointCall, FailedAttempt, MultiCall, Table, dispatch::lanes, endpoint};
use crate::{
    cluster::{Attempts, CallKind, Operation, RegionLocation},
    error::{Effect, Error, Failure, FailureKind, Result},
    model::{Get, RegionInfo, Row, Scan},
    rpc::{AttemptLimit, CallError, ServiceKind},
    wire::cell_block::CellBlockDecoder,
};

/// The attempts of one call of the region of a row, within a deadline.
///
/// The region may move, split or be opened again between two attempts, so the caller checks each location
/// that it gets:
///
/// ```
/// # use bytes::Bytes;
/// # use hbase_client::{Get, Result, Row, Table, low_level::{CallKind, RegionCall}};
/// # use tokio::time::Instant;
/// # async fn read(table: &Table, get: Get, deadline: Instant) -> Result<Option<Row>> {
/// # let row = Bytes::from_static(b"a");
/// let mut call = RegionCall::new(table, "my operation", &row, CallKind::Read, deadline);
/// loop {
///     let location = call.locate().await?;
///     // Check `location.region()` and `location.server()` here.
///     match call.attempt(&location).get(&get).await {
///         Ok(row) => return Ok(row),
///         Err(failure) => call.recover(failure).await?,
///     }
/// }
/// # }
/// ```
///
/// It remembers whether an earlier attempt may have been applied, whatever happens between attempts.
#[derive(Debug)]
pub struct RegionCall<'a> {
    table: &'a Table,
    attempts: Attempts<'a>,
    /// Whether a call is sent only while its region is in the opening that the location names.
    only_this_opening: bool,
    /// Whether a location was refused since the last attempt.
    has_looked_again: bool,
}

/// One attempt of a [`RegionCall`], which goes to the server of a location.
///
/// Ends at the timeout of its kind of call, and never after the deadline of the call.
#[derive(Debug)]
pub struct RegionAttempt<'c, 'a> {
    call: &'c mut RegionCall<'a>,
    location: &'c Arc<RegionLocation>,
    /// The purpose of a probe.
    probe: Option<&'static str>,
}

impl<'a> RegionCall<'a> {
    /// Begins a call of the region of a row. Sends nothing.
    #[must_use]
    pub fn new(
        table: &'a Table,
        operation: &'static str,
        row: &'a Bytes,
        kind: CallKind,
        deadline: Instant,
    ) -> Self {
        Self::of_row(table, operation, Cow::Borrowed(row), kind, deadline)
    }

    pub(super) fn of_row(
        table: &'a Table,
        operation: &'static str,
        row: Cow<'a, Bytes>,
        kind: CallKind,
        deadline: Instant,
    ) -> Self {
        let operation = Operation {
            name: operation,
            table: &table.name,
            row,
            kind,
            deadline,
        };
        Self {
            table,
            attempts: Attempts::new(&table.connection.shared.cluster, operation),
            only_this_opening: false,
            has_looked_again: false,
        }
    }

    /// Sends each attempt only to the opening of the region that its location names. If a connection to
    /// the server has ended since the region was located, the attempt is not sent, and the region is
    /// located again.
    #[must_use]
    pub fn only_this_opening(mut self) -> Self {
        self.only_this_opening = true;
        self
    }

    /// Returns when the call ends.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.attempts.deadline()
    }

    /// Returns whether an attempt may have been applied.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.attempts.effect()
    }

    /// Returns the location of the row's region. Waits until the region is served, at most until the
    /// deadline.
    ///
    /// # Errors
    ///
    /// Returns an error if the region is not found before the deadline, or if the table does not exist or
    /// is disabled.
    pub async fn locate(&mut self) -> Result<Arc<RegionLocation>> {
        self.attempts.locate().await
    }

    /// Returns the location of the row's region, if it is served at the moment. Otherwise returns the
    /// region, if it is known.
    pub(super) async fn locate_now(&mut self) -> Result<Arc<RegionLocation>, Option<Box<RegionInfo>>> {
        self.attempts.locate_now().await
    }

    /// Repeats a write whose answer was lost, on the server that may have applied it.
    pub(super) fn repeat_on_one_server(&mut self) {
        self.attempts.repeat_on_one_server();
    }

    /// Returns an error if the server does not know of an earlier attempt, which has to be repeated there.
    pub(super) fn check_recognised(&mut self, location: &RegionLocation) -> Result<()> {
        self.attempts.check_recognised(location)
    }

    /// Returns the error of a write whose answer was lost, and that no server would recognise.
    pub(super) fn unrecognised(&mut self, why: &str) -> Error {
        self.attempts.unrecognised(why)
    }

    /// Returns the call of a part that begins at this row, which continues these attempts on its own.
    pub(super) fn fork(&self, row: Bytes) -> Self {
        Self {
            attempts: self.attempts.fork(row),
            ..*self
        }
    }

    /// Returns the call of a part as [`fork`](Self::fork) does, without the last look-up.
    pub(super) fn fork_before_look_up(&self, row: Bytes) -> Self {
        Self {
            attempts: self.attempts.fork_before_look_up(row),
            ..*self
        }
    }

    /// Continues at another row. Earlier failures no longer count.
    pub(super) fn continue_at(&mut self, row: Bytes) {
        self.attempts.relocate_to(row);
    }

    /// Returns the limit of an attempt that belongs to an operation with this deadline.
    pub(super) fn limit_until(&self, deadline: Instant) -> AttemptLimit {
        self.attempts.limit_until(deadline)
    }

    /// Records that the operation succeeded.
    pub(super) fn succeed(&mut self) {
        self.attempts.succeed();
    }

    /// Returns the location of the row's region, for a call that needs nothing else.
    ///
    /// # Errors
    ///
    /// Returns an error as [`locate`](Self::locate) does.
    pub async fn into_location(mut self) -> Result<Arc<RegionLocation>> {
        let location = self.locate().await?;
        self.attempts.succeed();
        Ok(location)
    }

    /// Returns whether the client knows no other location of the row's region by now.
    #[must_use]
    pub fn is_current(&self, location: &RegionLocation) -> bool {
        self.attempts.knows_no_other(location)
    }

    /// Refuses a location, which may be outdated: the next one is read from `hbase:meta`.
    ///
    /// # Errors
    ///
    /// Returns this error, with the effect of earlier attempts, if this location was read after another
    /// one was refused.
    pub fn look_again<K: FailureKind>(
        &mut self,
        location: &RegionLocation,
        refusal: Failure<K>,
    ) -> Result<(), Failure<K>> {
        if self.has_looked_again {
            return Err(self.fail(location, refusal));
        }
        self.has_looked_again = true;
        self.table.connection.shared.cluster.forget(location);
        Ok(())
    }

    /// Ends the call without another attempt. Returns the error with the server and the effect of earlier
    /// attempts.
    #[must_use]
    pub fn fail<K: FailureKind>(&mut self, location: &RegionLocation, error: Failure<K>) -> Failure<K> {
        let error = error
            .with_effect(self.attempts.effect())
            .at_server(&location.server.address());
        self.attempts.fail(&error);
        error
    }

    /// Begins an attempt on the server of a location.
    #[must_use]
    pub fn attempt<'c>(&'c mut self, location: &'c Arc<RegionLocation>) -> RegionAttempt<'c, 'a> {
        RegionAttempt {
            call: self,
            location,
            probe: None,
        }
    }

    /// Begins an attempt that changes no data of the caller, whatever it sends. Errors name its purpose.
    #[must_use]
    pub fn probe<'c>(
        &'c mut self,
        location: &'c Arc<RegionLocation>,
        purpose: &'static str,
    ) -> RegionAttempt<'c, 'a> {
        RegionAttempt {
            call: self,
            location,
            probe: Some(purpose),
        }
    }

    /// Prepares the next attempt after a failed one: forgets outdated locations, and pauses.
    ///
    /// # Errors
    ///
    /// Returns the error of the call if there is no next attempt: the failure is final, the deadline
    /// passed, or a write may have been applied that must not be repeated.
    pub async fn recover(&mut self, failed: FailedAttempt) -> Result<()> {
        let FailedAttempt {
            cause,
            location,
            probe,
        } = failed;
        self.has_looked_again = false;
        let recovered = match (cause, probe) {
            (Cause::Final(error), _) => Err(self.attempts.final_error(*error, &location)),
            (Cause::Call(failure), None) => self.attempts.recover(failure, &location).await,
            (Cause::Call(failure), Some(_)) => self.attempts.recover_probe(failure, &location).await,
        };
        recovered.map_err(|error| match probe {
            Some(purpose) => error.at_stage(purpose),
            None => error,
        })
    }

    /// Executes an operation, in a call that may be shared with others.
    pub(super) async fn execute(&mut self, operation: &lanes::Operation) -> Result<Option<Row>> {
        loop {
            let location = self.locate().await?;
            match self.attempt(&location).execute(operation).await {
                Ok(row) => return Ok(row),
                Err(failure) => self.recover(failure).await?,
            }
        }
    }

    /// Sends several actions until they are answered.
    ///
    /// # Errors
    ///
    /// Returns an error as [`RegionAttempt::multi`] and [`recover`](Self::recover) do.
    pub async fn multi(mut self, call: &MultiCall) -> Result<Vec<ActionAnswer>> {
        loop {
            let location = self.locate().await?;
            match self.attempt(&location).multi(call).await {
                Ok(answers) => return Ok(answers),
                Err(failure) => self.recover(failure).await?,
            }
        }
    }
}

impl RegionAttempt<'_, '_> {
    /// Reads a row, in a call that may be shared with others.
    ///
    /// # Errors
    ///
    /// Returns the failure, for [`RegionCall::recover`].
    pub async fn get(self, get: &Get) -> Result<Option<Row>, FailedAttempt> {
        self.execute(&lanes::Operation::get(get)).await
    }

    async fn execute(self, operation: &lanes::Operation) -> Result<Option<Row>, FailedAttempt> {
        let Table {
            connection, options, ..
        } = self.call.table;
        let (location, options, limit) = (self.location, &options.call, self.limit());
        let answer = connection
            .shared
            .execute(location, options, operation, limit, operation.is_get())
            .await;
        self.ended(answer)
    }

    /// Sends several actions in one call. Returns one answer for each action, of the action's kind.
    ///
    /// If an action has a condition, the server is first proven to honour conditions, unless that is
    /// known.
    ///
    /// # Errors
    ///
    /// Returns the failure, for [`RegionCall::recover`]: an action failed, or the server does not honour
    /// conditions, and nothing was changed.
    pub async fn multi(mut self, call: &MultiCall) -> Result<Vec<ActionAnswer>, FailedAttempt> {
        self.prove_conditions(call).await?;
        let request = call.message(&self.location.region);
        self.send("Multi", &request, |answer, block| {
            multi::read(&call.actions, answer, block)
        })
        .await
    }

    /// Calls an endpoint on the region.
    ///
    /// # Errors
    ///
    /// Returns the failure, for [`RegionCall::recover`].
    pub async fn endpoint(self, call: &EndpointCall) -> Result<Bytes, FailedAttempt> {
        let request = call.message(&self.location.region);
        self.send("ExecService", &request, endpoint::read).await
    }

    /// Calls the administrative service of the region's server.
    ///
    /// # Errors
    ///
    /// Returns the failure, for [`RegionCall::recover`].
    pub async fn admin<M: Message, A: Message + Default>(
        self,
        method: &'static str,
        request: &M,
    ) -> Result<A, FailedAttempt> {
        let cluster = self.call.table.connection.cluster();
        let (options, limit) = (&self.call.table.options.call, self.limit());
        let answer = cluster
            .call_region_server(self.location, ServiceKind::Admin, options, method, request, limit)
            .await;
        self.ended(answer.map(|(answer, _)| answer))
    }

    /// Reads all rows of a scan from the region as of one moment. Returns `None` if their keys and values
    /// have more bytes than this.
    ///
    /// A region's scanner reads all rows as of the moment of its opening, in any number of calls. A second
    /// scanner could not continue: once the region is opened again, the server no longer has the versions
    /// of that moment, and rows would be missing silently. So another attempt reads all rows again.
    ///
    /// # Errors
    ///
    /// Returns the failure, for [`RegionCall::recover`]: a call failed, or the scan has rows of another
    /// region.
    pub async fn scan(self, scan: &Scan, max_bytes: usize) -> Result<Option<Vec<Row>>, FailedAttempt> {
        let table = self.call.table;
        let rows = table
            .scan_region(scan, self.location, max_bytes, || self.limit())
            .await;
        self.ended(rows)
    }

    /// Proves that the server honours the conditions of a call, unless that is known or it has none.
    pub(super) async fn prove_conditions(&mut self, call: &MultiCall) -> Result<(), FailedAttempt> {
        let RegionCall { table, attempts, .. } = &*self.call;
        let proven = table.prove_conditions(attempts, self.location, call).await;
        proven.map_err(|failure| FailedAttempt {
            probe: Some(PROVING_CONDITIONS),
            ..self.failed(failure)
        })
    }

    async fn send<M, A, T>(
        self,
        method: &'static str,
        request: &M,
        read: impl FnOnce(A, CellBlockDecoder) -> Result<T, CallError>,
    ) -> Result<T, FailedAttempt>
    where
        M: Message,
        A: Message + Default,
    {
        let table = self.call.table;
        let answer = table.call(self.location, method, request, self.limit()).await;
        self.ended(answer.and_then(|(answer, block)| read(answer, block)))
    }

    pub(super) fn limit(&self) -> AttemptLimit {
        let RegionCall {
            attempts,
            only_this_opening,
            ..
        } = &*self.call;
        let limit = if self.probe.is_some() {
            attempts.probe_limit(self.location)
        } else {
            attempts.attempt_limit(self.location)
        };
        AttemptLimit {
            located_at: only_this_opening.then_some(self.location.asked_at),
            ..limit
        }
    }

    /// Records the result of an attempt that a call shares with others.
    pub(super) fn ended<T, E: Into<Cause>>(self, answer: Result<T, E>) -> Result<T, FailedAttempt> {
        match answer {
            Ok(answer) => {
                if self.probe.is_none() {
                    self.call.attempts.succeed();
                }
                Ok(answer)
            }
            Err(failure) => Err(self.failed(failure)),
        }
    }

    pub(super) fn failed(&self, cause: impl Into<Cause>) -> FailedAttempt {
        FailedAttempt {
            cause: cause.into(),
            location: Arc::clone(self.location),
            probe: self.probe,
        }
    }
}
