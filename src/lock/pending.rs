//! A lock that a transaction acquires.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{FutureExt, future::BoxFuture};

use super::{
    abandoned,
    acquire::{Attempt, Bid},
    clock::Moment,
    guard::LockGuard,
    hold,
    layout::MARKER,
    owner::{HeldBy, LockToken},
    request::LockRequest,
};
use crate::{
    error::{Error, ErrorKind, Result},
    model::Condition,
    txn::{Changes, Outcome, Part},
};

/// A lock that a [transaction acquires](crate::Transaction::acquire_lock): claim it when that was committed.
///
/// One that is dropped instead is given back in the background, once the commit is through; and a transaction whose pending
/// lock was dropped before it was sent fails.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable, locks: hbase_txn::PartitionLocks) -> hbase_txn::Result<()> {
/// use hbase_txn::{Outcome, Put};
///
/// let mut transaction = orders.at("xxx")?;
/// let pending = transaction.acquire_lock(locks.lock("xxx", "writer")?.renewed())?;
/// transaction.put(Put::new("xxxabc").cell("f", "state", "started"))?;
/// match transaction.commit().await {
///     Outcome::Committed(_) => {
///         let guard = pending.claim().await?;
///         println!("started, as number {}", guard.fencing());
///     }
///     other => println!("{other}"),
/// }
/// # Ok(()) }
/// ```
#[must_use = "a lock that is not claimed is given back at once"]
pub struct PendingLock {
    taking: Arc<Taking>,
    is_claimed: bool,
}

/// Takes a lock, as a part of a transaction.
pub(super) struct Taking {
    request: LockRequest,
    held: HeldBy,
    condition: Condition,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
enum State {
    /// No attempt was made, or none that was applied or can be.
    Free,
    /// One was sent, not before this.
    Sent(Moment),
    /// There is nobody to claim it.
    Unwanted,
}

impl Taking {
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for what no transaction can do.
    pub(super) fn new(request: LockRequest) -> Result<Self> {
        request.check()?;
        if !request.wait.is_zero() {
            return Err(request.blame(
                Error::invalid("a transaction does not wait for a lock")
                    .with_hint("leave the wait out, and commit it again when it was rejected"),
            ));
        }
        let rows = &request.place.rows;
        let condition = Condition::absent(rows.lock_row().clone(), rows.family.clone(), MARKER);
        Ok(Self {
            condition: condition.label(format!("lock {} free", request.name)),
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
    fn deed(&self) -> Cow<'_, str> {
        "acquire".into()
    }

    fn condition(&self) -> &Condition {
        &self.condition
    }

    fn writes(&self) -> bool {
        true
    }

    fn changes(&self) -> BoxFuture<'_, Result<Changes>> {
        let mutations = || {
            let mut state = self.state();
            if matches!(*state, State::Unwanted) {
                return Err(self.request.blame(
                    Error::invalid("the lock was to be acquired, and what would claim it was dropped")
                        .with_hint("keep the PendingLock until the transaction is committed"),
                ));
            }
            *state = State::Sent(Moment::now());
            let place = &self.request.place;
            let rows = 0..place.rows.rows.len();
            let mutations: Vec<_> = rows.flat_map(|index| place.taking(index, &self.held)).collect();
            Ok(mutations.into())
        };
        std::future::ready(mutations()).boxed()
    }

    fn ended(&self, outcome: Option<&Outcome>) {
        let is_not_taken = match outcome {
            // What was committed was another attempt, with another token.
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

    /// The token with which the lock is acquired.
    #[must_use]
    pub fn token(&self) -> LockToken {
        self.taking.held.token
    }

    /// Looks for the lock, and takes it over. One call; two when an earlier holder's lease would have lasted longer.
    ///
    /// Only what is seen counts, not what is known of the commit: it may be claimed after an outcome that was
    /// [settled](crate::Unsettled::settle), too. The lease is counted from when the commit was sent.
    ///
    /// # Errors
    ///
    /// - [`LockLost`](ErrorKind::LockLost) when it is not held by what the transaction wrote: it was not applied, or replayed,
    ///   or the lease was over;
    /// - those of the calls.
    ///
    /// After any of them, and when the future is dropped, what may have been acquired is given back in the background.
    pub async fn claim(mut self) -> Result<LockGuard> {
        let Taking { request, held, .. } = &*self.taking;
        let State::Sent(since) = *self.taking.state() else {
            return Err(request.blame(Error::new(
                ErrorKind::LockLost,
                "the lock is not held: no transaction was committed that acquires it for this token",
            )));
        };
        let place = &request.place;
        let attempt = place.claim(held, since, place.table.deadline()).await;
        let hold = match attempt.map_err(|error| {
            request.blame(error.with_hint_if_unknown("what was won is given back in the background"))
        })? {
            Attempt::Won(hold) => hold,
            Attempt::Lost(sights) => {
                let is_over = since.elapsed() >= held.ttl.into();
                let loss = hold::loss(held.token, is_over, &sights);
                return Err(request.blame(Error::new(
                    ErrorKind::LockLost,
                    format!("the lock is not held: the transaction was not applied so far, or {loss}"),
                )));
            }
        };
        let guard = request.guard(hold);
        self.is_claimed = true;
        if guard.is_held() {
            return Ok(guard);
        }
        // The guard gives it back when it is dropped.
        Err(self.taking.request.blame(
            Error::new(
                ErrorKind::LockLost,
                "the lock was acquired, but the lease was over before it was claimed",
            )
            .with_hint("take a longer lease"),
        ))
    }
}

impl Drop for PendingLock {
    fn drop(&mut self) {
        if self.is_claimed {
            return;
        }
        let before = std::mem::replace(&mut *self.taking.state(), State::Unwanted);
        // Outside of a runtime nothing can be sent, and the lease ends it.
        if let (State::Sent(_), Ok(runtime)) = (before, tokio::runtime::Handle::try_current()) {
            let bid = Bid {
                place: self.taking.request.place.clone(),
                held: self.taking.held.clone(),
            };
            runtime.spawn(async move { abandoned::watch(&bid).await });
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
