//! What a transaction does with the locks of its partition: it is fenced by them, and releases them.
//! Acquiring one is in `pending`.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::OwnedMutexGuard;

use super::{
    guard::{Held, LockGuard},
    hold::Hold,
    layout::{OWNER, PARTITION_FAMILY},
    owner::{HeldBy, Owner},
    pending::{PendingLock, Taking},
    place::Place,
    request::LockRequest,
    sight::Occupant,
    state::{LockHolder, LockLoss},
};
use crate::{
    error::{Error, Result},
    model::{Condition, TableName},
    txn::{Changes, FailedCondition, Outcome, Part, Transaction, UpdateView},
};

/// Locks of the transaction's own partition, from [`PartitionLocks`](crate::PartitionLocks).
///
/// They are no contents of the transaction: an [id](Transaction::id) stands for which locks it is fenced by, acquires and
/// releases, but not for whose they were. So another process with a guard of its own can commit it again, and is told
/// that it was [replayed](crate::Committed::replayed), whoever holds the lock by then.
impl Transaction {
    /// Lets the server refuse the transaction when the lock is not held by this guard any more: then it is
    /// [`Rejected`](Outcome::Rejected), and names the lock.
    ///
    /// That is judged by the server, at the moment at which it applies the transaction, whatever this process believes:
    /// a guard that looks lost may still be held there, and one that was lost while the process stood still is not.
    /// Renewals meanwhile do no harm. A rejection that is due to the lock also ends the guard's hold here.
    ///
    /// # Errors
    ///
    /// [`OtherPartition`](crate::ErrorKind::OtherPartition) for a lock of another partition, and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for one of another table, a table of locks above all: no server can check
    /// it while it applies this; and for a lock that is in the transaction already. The transaction stays as it was.
    pub fn fenced_by(&mut self, guard: &LockGuard) -> Result<&mut Self> {
        check_place(self.table().name(), &guard.held.place, &guard.held.name)?;
        self.add_part(Arc::new(Fence::by(guard)))?;
        Ok(self)
    }

    /// Acquires a lock with the transaction: if it is committed the lock is held, and if anybody holds it, the transaction is
    /// [`Rejected`](Outcome::Rejected), names the lock, and nothing is applied. It is not waited for.
    ///
    /// Once committed, [claim](PendingLock::claim) the lock: its lease runs from the commit on, and is not renewed before.
    ///
    /// # Errors
    ///
    /// As [`fenced_by`](Self::fenced_by); [`InvalidInput`](crate::ErrorKind::InvalidInput) for a lease out of range, and a
    /// request that [waits](LockRequest::wait).
    pub fn acquire_lock(&mut self, request: LockRequest) -> Result<PendingLock> {
        check_place(self.table().name(), &request.place, &request.name)?;
        let taking = Arc::new(Taking::new(request)?);
        self.add_part(Arc::clone(&taking) as _)?;
        Ok(PendingLock::of(taking))
    }

    /// Gives the lock back with the transaction, which is [`Rejected`](Outcome::Rejected) when the lock is not held any more.
    ///
    /// Once committed, the guard is released, and nothing is left to do. When nothing was applied, it is held as before; it is
    /// not renewed while the commit is on its way. When the outcome is unknown, or the commit's future was dropped, the
    /// guard counts as [lost](LockLoss::Unknown), and gives back in the background what may still be held once it is released
    /// or dropped. A [replayed](crate::Committed::replayed) transaction leaves the guard as it is.
    ///
    /// # Errors
    ///
    /// As [`fenced_by`](Self::fenced_by).
    pub fn release_lock(&mut self, guard: &LockGuard) -> Result<&mut Self> {
        check_place(self.table().name(), &guard.held.place, &guard.held.name)?;
        self.add_part(Arc::new(Release {
            fence: Fence::by(guard),
            changing: Mutex::default(),
        }))?;
        Ok(self)
    }
}

impl UpdateView<'_> {
    /// Lets the server refuse the update when the lock is not held by this guard any more; see
    /// [`Transaction::fenced_by`]. The update then ends with [`ConditionNotMet`](crate::ErrorKind::ConditionNotMet).
    ///
    /// # Errors
    ///
    /// As [`Transaction::fenced_by`]; [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded) once the operation timeout is
    /// over.
    pub fn fenced_by(&mut self, guard: &LockGuard) -> Result<&mut Self> {
        check_place(self.table(), &guard.held.place, &guard.held.name)?;
        self.add_part(Arc::new(Fence::by(guard)))?;
        Ok(self)
    }
}

/// Refuses a lock that does not live where a transaction of this table is applied; its partition is looked at later.
fn check_place(here: &TableName, place: &Place, name: &str) -> Result<()> {
    let there = place.table.name();
    let why = if place.rows.family != PARTITION_FAMILY {
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
        "take a lock of PartitionLocks, in the partition of the data; or hand its fencing number to whoever can refuse \
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
        let rows = &held.place.rows;
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
    /// No renewal is sent while an attempt is on its way: what is given back must live as long as anything that was sent.
    changing: Mutex<Option<OwnedMutexGuard<Hold>>>,
}

impl Release {
    fn change(&self, hold: Option<OwnedMutexGuard<Hold>>) -> bool {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *changing, hold).is_some()
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
            let hold = Arc::clone(&held.hold).lock_owned().await;
            let mutations = hold.grips.iter().enumerate().map(|(index, grip)| {
                // Not less than any renewal that was sent and may have arrived.
                held.place
                    .giving_back(index, grip, hold.longest.max(grip.whole_depth()))
            });
            let mutations: Vec<_> = mutations.collect();
            self.change(Some(hold));
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
