//! Admits the writers of each partition: any number whose calls do not wait for each other on the
//! server, or one of the others.
//!
//! A call that waits for rows on the server holds one of its few handlers, so a hot partition would
//! stall all others. The writers of one partition wait in the client instead, in arrival order.
//! Transactions of mutations only have a *shared* turn, because [`GroupCommit`](super::group_commit)
//! keeps their rows apart. All others have the turn alone.
//!
//! Dropping the turn passes it to the next writer, and dropping a future that waits leaves the
//! queue: neither a dropped future nor a panic can block the other writers. The only clock here is
//! the caller's deadline.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::FutureExt;
use tokio::{
    sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock},
    time::{Instant, timeout_at},
};

use super::group_commit::{GroupCommit, ShareLimits, not_sent};
use crate::{error::Result, partition::Partition};

/// The queues of one table's partitions, and the calls that transactions share.
#[derive(Debug)]
pub(in crate::txn) struct Admission {
    pub(in crate::txn) group_commit: Arc<GroupCommit>,
    /// A partition has a queue while a writer waits or has the turn. The lock admits in the order
    /// of arrival.
    queues: Mutex<HashMap<Partition, Arc<RwLock<()>>>>,
}

/// Which other writers of the partition may have the turn at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::txn) enum Sharing {
    /// All others that share it.
    Shared,
    /// None.
    Alone,
}

/// The right to send calls to a partition. Dropping it passes it on.
pub(in crate::txn) struct Turn {
    // Dropped before the ticket, which removes the queue.
    _held: Held,
    ticket: QueueTicket,
}

#[expect(dead_code, reason = "the guards are held until they are dropped")]
enum Held {
    Shared(OwnedRwLockReadGuard<()>),
    Alone(OwnedRwLockWriteGuard<()>),
}

/// A use of a partition's queue. Dropping the last one removes the queue.
struct QueueTicket {
    admission: Arc<Admission>,
    partition: Partition,
}

impl Admission {
    pub(in crate::txn) fn new(limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self {
            group_commit: GroupCommit::new(limits),
            queues: Mutex::default(),
        })
    }

    /// Waits for the turn of a partition, after all earlier writers that it can't share with.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) if the turn does not come in
    /// time.
    pub(super) async fn enter(
        self: &Arc<Self>,
        partition: &Partition,
        sharing: Sharing,
        deadline: Instant,
    ) -> Result<Turn> {
        let ticket = QueueTicket {
            admission: Arc::clone(self),
            partition: partition.clone(),
        };
        let queue = Arc::clone(self.queues().entry(partition.clone()).or_default());
        let mut held = pin!(async {
            match sharing {
                Sharing::Shared => Held::Shared(queue.read_owned().await),
                Sharing::Alone => Held::Alone(queue.write_owned().await),
            }
        });
        if let Some(held) = held.as_mut().now_or_never() {
            return Ok(Turn { _held: held, ticket });
        }
        match timeout_at(deadline, held).await {
            Ok(held) if Instant::now() < deadline => Ok(Turn { _held: held, ticket }),
            _ => Err(not_sent()),
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Partition, Arc<RwLock<()>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        let mut queues = self.admission.queues();
        // Writers that wait or have the turn have a reference each.
        if let Entry::Occupied(queue) = queues.entry(self.partition.clone())
            && Arc::strong_count(queue.get()) == 1
        {
            queue.remove();
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.ticket.partition).finish()
    }
}

#[cfg(test)]
impl Admission {
    /// Returns the number of partitions that have a queue.
    pub(super) fn queue_count(&self) -> usize {
        self.queues().len()
    }
}

#[cfg(test)]
mod tests;
