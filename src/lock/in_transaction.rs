//! What a transaction does with the locks of its partition: it is fenced by them, and releases
//! them. Acquiring one is in `pending`.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{FutureExt, future::BoxFuture};
use hbase_client::{Condition, TableName};
use tokio::sync::OwnedMutexGuard;

use super::{
    claim::LockClaim,
    guard::{Held, LockGuard},
    layout::{OWNER, PARTITION_FAMILY},
    location::LockLocation,
    owner::{HeldBy, Owner},
    pending::{PendingLock, Taking},
    request::LockRequest,
    row_state::Occupant,
    state::{LockHolder, LockLoss},
};
use crate::{
    error::{Error, Result},
    txn::{Changes, FailedCondition, Outcome, Part, Transaction, UpdateView},
};

/// Locks of the transaction's own partition, from [`PartitionLocks`](crate::lock::PartitionLocks).
///
/// They are no contents of the transaction: an [id](Transaction::id) stands for which locks it is
/// fenced by, acquires and releases, but not for whose they were. So another process with a guard
/// of its own can commit it again, and is told that it was [replayed](crate::Committed::replayed),
/// whoever holds the lock by then.
impl Transaction {
    /// Lets the server refuse the transaction when the lock is not held by this guard any more:
    /// then it is [`Rejected`](Outcome::Rejected), and names the lock.
    ///
    /// That is judged by the server, at the moment at which it applies the transaction, whatever
    /// this process believes: a guard that looks lost may still be held there, and one that was
    /// lost while the process stood still is not. Renewals meanwhile do no harm. A rejection that
    /// is due to the lock also ends the guard's hold here.
    ///
    /// A lock of another partition or another table, and one that is in the transaction already,
    /// make the transaction [invalid](Transaction): the server that applies it can't check them.
    /// Tables of locks are other tables.
    pub fn fenced_by(self, guard: &LockGuard) -> Self {
        self.add_part(|table| {
            check_location(table, &guard.held.location, &guard.held.name)?;
            Ok(Arc::new(Fence::by(guard)))
        })
    }

    /// Acquires a lock with the transaction: if it is committed the lock is held, and if anybody
    /// holds it, the transaction is [`Rejected`](Outcome::Rejected), names the lock, and nothing is
    /// applied. It is not waited for.
    ///
    /// Once committed, [claim](PendingLock::claim) the lock: its lease runs from the commit on, and
    /// is not renewed before.
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

    /// Gives the lock back with the transaction, which is [`Rejected`](Outcome::Rejected) when the
    /// lock is not held any more.
    ///
    /// Once committed, the guard is released, and nothing is left to do. When nothing was applied,
    /// it is held as before; it is not renewed while the commit is on its way. When the outcome is
    /// unknown, or the commit's future was dropped, the guard counts as [lost](LockLoss::Unknown),
    /// and gives back in the background what may still be held once it is released or dropped. A
    /// [replayed](crate::Committed::replayed) transaction leaves the guard as it is.
    ///
    /// The transaction becomes invalid for the same locks as by [`fenced_by`](Self::fenced_by).
    pub fn release_lock(self, guard: &LockGuard) -> Self {
        self.add_part(|table| {
            check_location(table, &guard.held.location, &guard.held.name)?;
            Ok(Arc::new(Release {
                fence: Fence::by(guard),
                changing: Mutex::default(),
            }))
        })
    }
}

impl UpdateView<'_> {
    /// Lets the server refuse the update when the lock is not held by this guard any more; see
    /// [`Transaction::fenced_by`]. The update then ends with
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
        check_location(self.table(), &guard.held.location, &guard.held.name)?;
        self.add_part(Arc::new(Fence::by(guard)))?;
        Ok(self)
    }
}

/// Refuses a lock that does not live where a transaction of this table is applied; its partition is
/// looked at later.
fn check_location(here: &TableName, location: &LockLocation, name: &str) -> Result<()> {
    let there = location.table.name();
    let why = if location.rows.family != PARTITION_FAMILY {
        format!("it lives in the table of locks {there}")
    } else if here != there {
        format!("it lives in table {there}, and the transaction is of {here}")
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "the lock can't be part of the transaction: {why}, where the server that applies the transaction can't look"
    ))
    .with_hint(
        "take a lock of PartitionLocks, in the partition of the data; or pass its fencing number to a receiver that can refuse \
         older ones",
    )
    .at_operation(format!("lock {name}"))
    .at_table(here))
}

/// That a lock is still held.
struct Fence {
    held: Arc<Held>,
    condition: Condition,
}

impl Fence {
    fn by(guard: &LockGuard) -> Self {
        let held = Arc::clone(&guard.held);
        let rows = &held.location.rows;
        let condition = Condition::begins_with(
            rows.lock_row().clone(),
            rows.family.clone(),
            OWNER,
            held.beginning.clone(),
        );
        Self {
            condition: condition.label(format!("lock {} held by {}", held.name, guard.token())),
            held,
        }
    }

    /// A rejection that is due to the lock says that it is lost.
    fn learn(&self, outcome: Option<&Outcome>) {
        let Some(Outcome::Rejected(rejection)) = outcome else {
            return;
        };
        let label = self.condition.label_text();
        if let Some(failed) = rejection.failed.iter().find(|failed| failed.label == label) {
            self.held.term.lose(self.loss(failed));
        }
    }

    fn loss(&self, failed: &FailedCondition) -> LockLoss {
        let found = failed.found.as_ref();
        match found.and_then(|cell| Some((cell.timestamp, Owner::decode(&cell.value)?))) {
            Some((since, Owner::Held(held))) => LockLoss::Taken(holder(since, held)),
            _ if self.held.is_over() => LockLoss::Expired,
            _ => LockLoss::Removed,
        }
    }
}

fn holder(since: u64, held: HeldBy) -> LockHolder {
    LockHolder::of(Occupant::Ours { since, held })
}

impl Part for Fence {
    fn deed(&self) -> Cow<'_, str> {
        "fenced by".into()
    }

    fn condition(&self) -> &Condition {
        &self.condition
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

/// That a lock is given back, if it is still held.
struct Release {
    fence: Fence,
    /// No renewal is sent while an attempt is on its way: what is given back must live as long as
    /// anything that was sent.
    changing: Mutex<Option<OwnedMutexGuard<LockClaim>>>,
}

impl Release {
    fn change(&self, claim: Option<OwnedMutexGuard<LockClaim>>) -> bool {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *changing, claim).is_some()
    }
}

impl Part for Release {
    fn deed(&self) -> Cow<'_, str> {
        "release".into()
    }

    fn condition(&self) -> &Condition {
        &self.fence.condition
    }

    fn writes(&self) -> bool {
        true
    }

    fn changes(&self) -> BoxFuture<'_, Result<Changes>> {
        async {
            // Between two attempts a renewal that has waited gets its turn.
            self.change(None);
            let held = &self.fence.held;
            let claim = Arc::clone(&held.claim).lock_owned().await;
            let mutations = claim.row_leases.iter().enumerate().map(|(index, row_lease)| {
                // Not less than any renewal that was sent and may have arrived.
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
        // Behind all that, so that no renewal is sent for a lock that may have been given back.
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
