//! A lock that a transaction acquires.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{FutureExt, future::BoxFuture};
use hbase_client::{Condition, low_level::TableCalls};

use super::{
    hold::{clock::Moment, guard::LockGuard},
    protocol::{
        acquire::{AttemptOutcome, LockAttempt},
        claim,
        layout::MARKER,
        owner::{HeldBy, LockToken},
    },
    queue::TicketChange,
    request::LockRequest,
};
use crate::{
    error::{Error, ErrorKind, Result},
    txn::{Changes, Outcome, Part},
};

/// A lock that a [transaction acquires](crate::Transaction::acquire_lock). Claim it once the
/// transaction is committed.
///
/// If it is dropped instead, on any thread, the lock is released in the background, once the commit has
/// completed. A transaction whose pending lock was dropped
/// before it was sent fails. Bind it to a name: `let _ = …` drops it at once.
///
/// # Example
///
/// ```
/// use hbase_txn::{Outcome, client::Put};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f", "_lock"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// # let locks = hbase_txn::lock::PartitionLocks::open(&orders).await?;
/// let mut transaction = orders
///     .transaction("xxx")
///     .put(Put::new("xxxabc").cell("f", "state", "started"));
/// let pending = transaction.acquire_lock(locks.lock("xxx", "writer")?.auto_renew())?;
/// match transaction.commit().await {
///     Outcome::Committed(_) => {
///         let guard = pending.claim().await?;
///         println!("started, with the fencing number {}", guard.fencing());
///         # assert!(guard.is_held());
///     }
///     # other => panic!("{other}"),
///     other => println!("{other}"),
/// }
/// # Ok(()) });
/// ```
#[must_use = "a lock that is not claimed is released at once"]
pub struct PendingLock {
    taking: Arc<Taking>,
    is_claimed: bool,
}

/// The acquisition of a lock as a part of a transaction.
pub(super) struct Taking {
    pub(super) request: LockRequest,
    held: HeldBy,
    condition: Condition,
    state: Mutex<State>,
}

enum State {
    /// No attempt was sent, or none that was applied or still can be.
    Free,
    /// An attempt was sent, not before this moment.
    Sent(Moment),
    /// The `PendingLock` was dropped, so no caller will claim it.
    Unwanted,
}

impl Taking {
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a request that a
    /// transaction cannot fulfil.
    pub(super) fn new(request: LockRequest) -> Result<Self> {
        request.check()?;
        if !request.wait.is_zero() {
            return Err(request.in_context(
                Error::invalid("a transaction does not wait for a lock")
                    .with_hint("remove the wait, and commit again if it is rejected"),
            ));
        }
        let rows = &request.location.rows;
        let condition = Condition::absent(rows.lock_row().clone(), rows.family.clone(), MARKER);
        Ok(Self {
            condition: condition.label(format!("lock {}", request.name)),
            held: request.held(),
            state: Mutex::new(State::Free),
            request,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part for Taking {
    fn description(&self) -> Cow<'_, str> {
        "acquire".into()
    }

    fn condition(&self) -> &Condition {
        &self.condition
    }

    fn failure(&self) -> String {
        format!("lock {} is not free", self.request.name)
    }

    fn writes(&self) -> bool {
        true
    }

    fn changes(&self) -> BoxFuture<'_, Result<Changes>> {
        let mutations = || {
            let mut state = self.state();
            if matches!(*state, State::Unwanted) {
                return Err(self.request.in_context(
                    Error::invalid("the PendingLock of the lock was dropped before the commit")
                        .with_hint("keep the PendingLock until the transaction is committed"),
                ));
            }
            *state = State::Sent(self.request.location.now());
            let location = &self.request.location;
            let rows = 0..location.rows.rows.len();
            let mutations: Vec<_> = rows
                .flat_map(|index| location.taking(index, &self.held))
                .collect();
            Ok(mutations.into())
        };
        std::future::ready(mutations()).boxed()
    }

    fn ended(&self, outcome: Option<&Outcome>) {
        let is_not_taken = match outcome {
            // If replayed, another attempt with another token was committed.
            Some(Outcome::Committed(committed)) => committed.replayed,
            Some(outcome) => outcome.is_not_applied(),
            None => false,
        };
        let mut state = self.state();
        if is_not_taken && matches!(*state, State::Sent(_)) {
            *state = State::Free;
        }
    }
}

impl PendingLock {
    pub(super) fn of(taking: Arc<Taking>) -> Self {
        Self {
            taking,
            is_claimed: false,
        }
    }

    /// Returns the token of the acquisition.
    #[must_use]
    pub fn token(&self) -> LockToken {
        self.taking.held.token
    }

    /// Reads the lock and returns a guard for it. Sends one call, or two if an earlier holder's
    /// lease would have lasted longer.
    ///
    /// The cells of the lock decide, not the reported outcome of the commit, so the lock can also
    /// be claimed after an outcome was [settled](crate::Unsettled::settle). The lease is counted
    /// from when the commit was sent.
    ///
    /// # Errors
    ///
    /// - [`LockLost`](ErrorKind::LockLost) if the lock is not held by this transaction: the
    ///   transaction was not applied, or was replayed, or the lease expired;
    /// - the errors of the calls.
    ///
    /// After an error, a lock that may have been acquired is released in the background.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a lock that may have been acquired is released in the background.
    pub async fn claim(mut self) -> Result<LockGuard> {
        let Taking { request, held, .. } = &*self.taking;
        let State::Sent(since) = *self.taking.state() else {
            return Err(request.in_context(Error::new(
                ErrorKind::LockLost,
                "the lock is not held: no transaction was committed that acquires it for this token",
            )));
        };
        let location = &request.location;
        let attempt = location.find_won(held, since, location.table.deadline()).await;
        let claim = match attempt.map_err(|error| {
            request.in_context(
                error.with_hint_if_unknown("if the lock was acquired, it is released in the background"),
            )
        })? {
            AttemptOutcome::Won(claim) => claim,
            AttemptOutcome::Lost(states) => {
                let is_over = location.now().since(since) >= held.ttl.into();
                let loss = claim::loss(held.token, is_over, &states);
                return Err(request.in_context(Error::new(
                    ErrorKind::LockLost,
                    format!(
                        "the lock is not held: the transaction was not applied so far, or {}",
                        loss.at(location.wall_clock())
                    ),
                )));
            }
        };
        let guard = request.guard(claim);
        self.is_claimed = true;
        let guard = request.admit(guard).map_err(|error| request.in_context(error))?;
        if guard.is_held() {
            return Ok(guard);
        }
        // Dropping the guard releases the lock.
        Err(self.taking.request.in_context(
            Error::new(
                ErrorKind::LockLost,
                "the lock was acquired, but its lease expired before it was claimed",
            )
            .with_hint("use a longer lease"),
        ))
    }
}

impl Drop for PendingLock {
    fn drop(&mut self) {
        if self.is_claimed {
            return;
        }
        let before = std::mem::replace(&mut *self.taking.state(), State::Unwanted);
        if let State::Sent(_) = before {
            let attempt = LockAttempt {
                location: self.taking.request.location.clone(),
                held: self.taking.held.clone(),
                ticket: TicketChange::default(),
            };
            self.taking.request.local.watchers.watch(attempt);
        }
    }
}

impl fmt::Debug for PendingLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingLock")
            .field("name", &self.taking.request.name)
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Taking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "acquisition of lock {}", self.request.name)
    }
}
