//! Fencing of transactions by locks of their partition, and release of these locks. `pending` has
//! the acquisition.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{FutureExt, future::BoxFuture};
use hbase_client::{Condition, TableName};
use tokio::sync::OwnedMutexGuard;

use super::{
    hold::{Held, guard::LockGuard},
    pending::{PendingLock, Taking},
    protocol::{
        claim::LockClaim,
        layout::{OWNER, PARTITION_FAMILY},
        location::LockLocation,
        owner::{HeldBy, Owner},
        row_state::Occupant,
    },
    request::LockRequest,
    state::{LockHolder, LockLoss},
};
use crate::{
    error::{Error, Result},
    txn::{Changes, FailedCondition, Outcome, Part, Transaction, UpdateView},
};

/// Locks of the transaction's own partition, from [`PartitionLocks`](crate::lock::PartitionLocks).
///
/// The holders of these locks are not part of the transaction's contents: an [id](Transaction::id)
/// covers which locks fence it and which it acquires and releases, but not the tokens of their
/// holders. Another process with its own guard can therefore commit the transaction again. That
/// commit is reported as [replayed](crate::Committed::replayed), no matter which process holds the
/// lock by then.
impl Transaction {
    /// Fences the transaction by a lock: the server rejects it if this guard no longer holds the
    /// lock. The outcome is then [`Rejected`](Outcome::Rejected) and names the lock.
    ///
    /// The server checks the lock when it applies the transaction, regardless of what this process
    /// believes: a guard that counts as lost here may still be held on the server, and one that
    /// counts as held may be lost. Renewals in the meantime do not matter. A rejection due to the
    /// lock also marks this guard as lost.
    ///
    /// A lock of another partition or table makes the transaction [invalid](Transaction), because
    /// the server that applies it cannot check that lock; a lock table is another table. A lock
    /// that is already part of the transaction makes it invalid too.
    pub fn fenced_by(self, guard: &LockGuard) -> Self {
        self.add_part(|table| {
            check_location(table, &guard.hold.held.location, &guard.hold.held.name)?;
            Ok(Arc::new(Fence::by(guard)))
        })
    }

    /// Acquires a lock with the transaction: if the transaction is committed, the lock is held. If
    /// the lock is held already, the transaction is [`Rejected`](Outcome::Rejected) and names the
    /// lock, and nothing is applied. The transaction does not wait for the lock.
    ///
    /// [Claim](PendingLock::claim) the lock after the commit. Its lease runs from the commit, and
    /// is not renewed before it is claimed.
    ///
    /// # Errors
    ///
    /// - [`OtherPartition`](crate::ErrorKind::OtherPartition) for a lock of another partition;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a lock of another table, a lock
    ///   that is in the transaction already, a lease out of range, and a request that
    ///   [waits](LockRequest::wait);
    /// - the error that made the transaction invalid before, if there is one.
    ///
    /// The transaction is then as it was before the call.
    pub fn acquire_lock(&mut self, request: LockRequest) -> Result<PendingLock> {
        let taking = Arc::new(Taking::new(request)?);
        self.try_add_part(|table| {
            check_location(table, &taking.request.location, &taking.request.name)?;
            Ok(Arc::clone(&taking) as _)
        })?;
        Ok(PendingLock::of(taking))
    }

    /// Releases the lock with the transaction, which is [`Rejected`](Outcome::Rejected) if the lock
    /// is not held any more.
    ///
    /// - If the transaction is committed, the guard is released, and no further call is needed.
    /// - If nothing was applied, the guard holds the lock as before. It is not renewed while the
    ///   commit is in progress.
    /// - If the outcome is unknown, or the commit's future was dropped, the guard counts as
    ///   [lost](LockLoss::Unknown). Release or drop it to release a lock that may still be held.
    /// - A [replayed](crate::Committed::replayed) transaction leaves the guard as it is.
    ///
    /// The transaction becomes invalid for the same locks as with [`fenced_by`](Self::fenced_by).
    pub fn release_lock(self, guard: &LockGuard) -> Self {
        self.add_part(|table| {
            check_location(table, &guard.hold.held.location, &guard.hold.held.name)?;
            Ok(Arc::new(Release {
                fence: Fence::by(guard),
                changing: Mutex::default(),
            }))
        })
    }
}

impl UpdateView<'_> {
    /// Fences the update by a lock: the server rejects it if this guard no longer holds the lock;
    /// see [`Transaction::fenced_by`]. The update then fails with
    /// [`ConditionNotMet`](crate::ErrorKind::ConditionNotMet).
    ///
    /// # Errors
    ///
    /// - [`OtherPartition`](crate::ErrorKind::OtherPartition) for a lock of another partition;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a lock of another table, and
    ///   one that is in the update already;
    /// - [`DeadlineExceeded`](crate::ClientErrorKind::DeadlineExceeded) once the operation timeout
    ///   is over.
    pub fn fenced_by(&mut self, guard: &LockGuard) -> Result<&mut Self> {
        check_location(self.table(), &guard.hold.held.location, &guard.hold.held.name)?;
        self.add_part(Arc::new(Fence::by(guard)))?;
        Ok(self)
    }
}

/// Refuses a lock that is not in the table to which the transaction is applied. The partition is
/// checked later.
fn check_location(here: &TableName, location: &LockLocation, name: &str) -> Result<()> {
    let there = location.table.name();
    let why = if location.rows.family != PARTITION_FAMILY {
        format!("it is in lock table {there}")
    } else if here != there {
        format!("it is in table {there}, and the transaction in {here}")
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "the lock can't be part of the transaction: {why}, which the server that applies the transaction cannot check"
    ))
    .with_hint(
        "take a lock of PartitionLocks, in the partition of the data; or pass its fencing number to a receiver that can refuse \
         older ones",
    )
    .at_operation(format!("lock {name}"))
    .at_table(here))
}

/// The condition that a lock is still held.
struct Fence {
    held: Arc<Held<LockLocation>>,
    condition: Condition,
}

impl Fence {
    fn by(guard: &LockGuard) -> Self {
        let held = Arc::clone(&guard.hold.held);
        let rows = &held.location.rows;
        let condition = Condition::begins_with(
            rows.lock_row().clone(),
            rows.family.clone(),
            OWNER,
            guard.beginning.clone(),
        );
        Self {
            condition: condition.label(format!("lock {}", held.name)),
            held,
        }
    }

    /// Marks the guard as lost if the transaction was rejected due to the lock.
    fn learn(&self, outcome: Option<&Outcome>) {
        let Some(Outcome::Rejected(rejection)) = outcome else {
            return;
        };
        // No two parts of a transaction have one row.
        let is_own = |failed: &&FailedCondition| failed.is_of_part && failed.row == *self.condition.row();
        if let Some(failed) = rejection.failed.iter().find(is_own) {
            self.held.term.lose(self.loss(failed));
        }
    }

    fn loss(&self, failed: &FailedCondition) -> LockLoss {
        let found = failed.found.as_ref();
        match found.and_then(|cell| Some((cell.timestamp, Owner::decode(&cell.value)?))) {
            Some((since, Owner::Held(held))) => LockLoss::Taken(holder(since, held)),
            _ => LockLoss::Removed,
        }
    }
}

fn holder(since: u64, held: HeldBy) -> LockHolder {
    LockHolder::of(Occupant::Ours { since, held })
}

impl Part for Fence {
    fn description(&self) -> Cow<'_, str> {
        "fenced by".into()
    }

    fn condition(&self) -> &Condition {
        &self.condition
    }

    fn failure(&self) -> String {
        format!("lock {} is no longer held by this guard", self.held.name)
    }

    fn writes(&self) -> bool {
        false
    }

    fn changes(&self) -> BoxFuture<'_, Result<Changes>> {
        std::future::ready(Ok(Changes::default())).boxed()
    }

    fn ended(&self, outcome: Option<&Outcome>) {
        self.learn(outcome);
    }
}

/// The release of a lock, on the condition that it is still held.
struct Release {
    fence: Fence,
    /// Locked while an attempt is in progress, so that no renewal is sent: the released cells must
    /// live as long as any cell that was sent.
    changing: Mutex<Option<OwnedMutexGuard<LockClaim>>>,
}

impl Release {
    fn change(&self, claim: Option<OwnedMutexGuard<LockClaim>>) -> bool {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *changing, claim).is_some()
    }
}

impl Part for Release {
    fn description(&self) -> Cow<'_, str> {
        "release".into()
    }

    fn condition(&self) -> &Condition {
        &self.fence.condition
    }

    fn failure(&self) -> String {
        self.fence.failure()
    }

    fn writes(&self) -> bool {
        true
    }

    fn changes(&self) -> BoxFuture<'_, Result<Changes>> {
        async {
            // Lets a waiting renewal proceed between two attempts.
            self.change(None);
            let held = &self.fence.held;
            let claim = Arc::clone(&held.claim).lock_owned().await;
            let mutations = claim.row_leases.iter().enumerate().map(|(index, row_lease)| {
                // At least as long as any renewal that was sent and may have been applied.
                held.location
                    .giving_back(index, row_lease, claim.longest.max(row_lease.whole_depth()))
            });
            let mutations: Vec<_> = mutations.collect();
            self.change(Some(claim));
            Ok(mutations.into())
        }
        .boxed()
    }

    fn ended(&self, outcome: Option<&Outcome>) {
        let held = &self.fence.held;
        let is_open = matches!(outcome, None | Some(Outcome::Unknown(_)));
        match outcome {
            Some(Outcome::Committed(committed)) if !committed.replayed => held.term.released(),
            _ => self.fence.learn(outcome),
        }
        let was_sent = self
            .changing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some();
        if is_open && was_sent {
            held.term.lose(LockLoss::Unknown);
        }
        // Last, so that no renewal is sent for a lock that may have been released.
        self.change(None);
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fenced by lock {}", self.held.name)
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "release of lock {}", self.fence.held.name)
    }
}
