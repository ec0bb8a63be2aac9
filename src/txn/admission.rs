//! Admits one call at a time for each partition; the other writers queue.
//!
//! A call that waits for rows on the server holds one of its few handlers, so a hot partition would
//! stall all others. The writers of one partition wait in the client instead, in arrival order.
//!
//! A partition has a *queue*, its queue, while a writer holds its *turn*, the right to send. Each
//! waiting writer has a *ticket* in the queue. Dropping the ticket leaves the queue, and dropping the
//! turn passes it to the next waiter: neither a dropped future nor a panic can block the other
//! writers. The only clock here is the caller's deadline.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hbase_client::{BytesBinary, Partition, TableName};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    group_commit::{Member, ShareLimits},
    outcome::Outcome,
};
use crate::error::{ClientErrorKind, Error, Result};

/// How long after its deadline a writer still waits while a shared call carries its mutations. That
/// call ends with the first deadline of its members, and reports the outcome a moment later.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// The queues of one table's partitions.
pub(super) struct Admission {
    table: TableName,
    share_limits: ShareLimits,
    queues: Mutex<PartitionQueues>,
}

#[derive(Default)]
struct PartitionQueues {
    of: HashMap<Partition, PartitionQueue>,
    next_ticket: u64,
}

/// The waiters of one partition, while a writer has the turn. Tickets are in the order of arrival.
#[derive(Default)]
struct PartitionQueue {
    waiting: BTreeMap<u64, Waiter>,
    /// Writers whose mutations are sent in the call of the turn's holder.
    sharing: BTreeMap<u64, Sharer>,
}

struct Waiter {
    reply: oneshot::Sender<Reply>,
    /// The mutations that may share a call, or `None` if the transaction must be sent alone.
    member: Option<Member>,
}

struct Sharer {
    reply: oneshot::Sender<Reply>,
    share: Share,
}

/// One member's share of a shared call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) rows: usize,
    pub(super) mutations: usize,
}

enum Reply {
    Turn(Turn, Option<Member>),
    Outcome(Outcome),
}

/// The right to send one call to a partition. Dropping it passes it to the next waiter.
pub(super) struct Turn {
    admission: Arc<Admission>,
    /// `None` after the turn was passed on.
    partition: Option<Partition>,
}

/// A ticket in a queue. Dropping it leaves the queue.
pub(super) struct QueueTicket {
    admission: Arc<Admission>,
    partition: Partition,
    ticket: u64,
    reply: oneshot::Receiver<Reply>,
}

/// The result of waiting in a queue.
pub(super) enum Waited {
    /// The waiter has the turn. Its member is returned, unless it must be sent alone.
    Turn(Turn, Option<Member>),
    /// Its mutations were sent in a shared call, with this outcome.
    Shared(Outcome),
    /// Its mutations were sent in a shared call, and no outcome was reported.
    Lost,
    /// The turn did not come by the deadline. No request of this writer can be applied any more.
    NotSent,
}

/// The state of a ticket.
enum TicketState {
    Waiting,
    Sharing,
    /// Not in the queue: the reply was sent, or is being sent at this moment.
    Called,
}

impl Admission {
    pub(super) fn new(table: TableName, share_limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self {
            table,
            share_limits,
            queues: Mutex::default(),
        })
    }

    /// Waits for the turn of a partition, after all earlier writers.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) if the turn does not come in
    /// time.
    pub(super) async fn enter(self: &Arc<Self>, partition: &Partition, deadline: Instant) -> Result<Turn> {
        if let Some(turn) = self.enter_at_once(partition) {
            return Ok(turn);
        }
        let mut place = self.queue(partition, None);
        match place.wait(deadline).await {
            Waited::Turn(turn, _) => Ok(turn),
            // A waiter without a member gets no other reply.
            Waited::NotSent | Waited::Shared(_) | Waited::Lost => Err(self.not_sent(partition)),
        }
    }

    /// Returns the turn if no writer holds it.
    pub(super) fn enter_at_once(self: &Arc<Self>, partition: &Partition) -> Option<Turn> {
        match self.queues().of.entry(partition.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(queue) => {
                queue.insert(PartitionQueue::default());
                Some(self.turn(partition.clone()))
            }
        }
    }

    /// Adds a ticket at the end of the queue.
    pub(super) fn queue(self: &Arc<Self>, partition: &Partition, member: Option<Member>) -> QueueTicket {
        let (reply, receiver) = oneshot::channel();
        let mut queues = self.queues();
        let ticket = queues.next_ticket;
        queues.next_ticket += 1;
        // The turn may have become free after the caller's first check.
        let is_free = !queues.of.contains_key(partition);
        let queue = queues.of.entry(partition.clone()).or_default();
        queue.waiting.insert(ticket, Waiter { reply, member });
        drop(queues);
        if is_free {
            self.pass_on(partition.clone());
        }
        QueueTicket {
            admission: Arc::clone(self),
            partition: partition.clone(),
            ticket,
            reply: receiver,
        }
    }

    pub(super) fn share_limits(&self) -> ShareLimits {
        self.share_limits
    }

    pub(super) fn not_sent(&self, partition: &Partition) -> Error {
        let error = Error::new(
            ClientErrorKind::DeadlineExceeded,
            "not sent: its turn did not come, other transactions of the partition went before it",
        );
        self.in_context(error.with_retryable(true), partition)
    }

    pub(super) fn in_context(&self, error: Error, partition: &Partition) -> Error {
        error
            .at_operation("transaction")
            .at_table(&self.table)
            .at_row(&BytesBinary(partition.prefix()))
    }

    fn turn(self: &Arc<Self>, partition: Partition) -> Turn {
        Turn {
            admission: Arc::clone(self),
            partition: Some(partition),
        }
    }

    fn queues(&self) -> MutexGuard<'_, PartitionQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a closure on a partition's queue. Returns `None` if the partition has no queue.
    fn in_lane<T>(&self, partition: &Partition, act: impl FnOnce(&mut PartitionQueue) -> T) -> Option<T> {
        self.queues().of.get_mut(partition).map(act)
    }

    /// Passes the turn to the first waiter that is still there. Removes the queue if there is none.
    fn pass_on(self: &Arc<Self>, mut partition: Partition) {
        // Closing these channels notifies the members of a shared call that ended without an
        // outcome. This wakes them, so it does not happen under the lock.
        drop(self.in_lane(&partition, |queue| mem::take(&mut queue.sharing)));
        loop {
            let mut queues = self.queues();
            let first = queues
                .of
                .get_mut(&partition)
                .and_then(|queue| queue.waiting.pop_first());
            let Some((_, waiter)) = first else {
                queues.of.remove(&partition);
                return;
            };
            drop(queues);
            let turn = self.turn(partition);
            match waiter.reply.send(Reply::Turn(turn, waiter.member)) {
                Err(Reply::Turn(mut turn, _)) => match turn.partition.take() {
                    Some(back) => partition = back,
                    None => return,
                },
                Ok(()) | Err(Reply::Outcome(_)) => return,
            }
        }
    }
}

/// Waits for the turn of a partition; returns `None` at once if admission is turned off.
pub(super) async fn enter(
    admission: Option<&Arc<Admission>>,
    partition: &Partition,
    deadline: Instant,
) -> Result<Option<Turn>> {
    match admission {
        Some(admission) => admission.enter(partition, deadline).await.map(Some),
        None => Ok(None),
    }
}

impl Turn {
    /// Returns whether the first waiter has a member and it fits.
    pub(super) fn can_share_with_next(&self, fits: impl FnOnce(&Member) -> bool) -> bool {
        let first = |queue: &mut PartitionQueue| {
            let (_, next) = queue.waiting.first_key_value()?;
            next.member.as_ref().map(fits)
        };
        self.in_lane(first).flatten().unwrap_or(false)
    }

    /// Moves waiters, in their order, into the shared call of this turn, until one has no member or
    /// `take` returns its member.
    pub(super) fn gather(&self, mut take: impl FnMut(Member) -> Result<Share, Member>) {
        self.in_lane(|queue| {
            while let Some(mut first) = queue.waiting.first_entry() {
                let Some(member) = first.get_mut().member.take() else {
                    break;
                };
                match take(member) {
                    Ok(share) => {
                        let (ticket, Waiter { reply, .. }) = first.remove_entry();
                        queue.sharing.insert(ticket, Sharer { reply, share });
                    }
                    Err(member) => {
                        first.get_mut().member = Some(member);
                        break;
                    }
                }
            }
        });
    }

    /// Reports the outcome to all members of the shared call.
    pub(super) fn notify(&self, outcome: impl Fn(Share) -> Outcome) {
        let sharing = self.in_lane(|queue| mem::take(&mut queue.sharing));
        for Sharer { reply, share } in sharing.unwrap_or_default().into_values() {
            // A member that has left the queue needs no outcome.
            drop(reply.send(Reply::Outcome(outcome(share))));
        }
    }

    /// Moves the members of the shared call back to the head of the queue, each to be sent alone.
    pub(super) fn send_back(&self) {
        self.in_lane(|queue| {
            let back = mem::take(&mut queue.sharing).into_iter();
            queue.waiting.extend(back.map(|(ticket, Sharer { reply, .. })| {
                let alone = Waiter { reply, member: None };
                (ticket, alone)
            }));
        });
    }

    pub(super) fn in_context(&self, error: Error) -> Error {
        match &self.partition {
            Some(partition) => self.admission.in_context(error, partition),
            None => error,
        }
    }

    fn in_lane<T>(&self, act: impl FnOnce(&mut PartitionQueue) -> T) -> Option<T> {
        self.admission.in_lane(self.partition.as_ref()?, act)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(partition) = self.partition.take() {
            self.admission.pass_on(partition);
        }
    }
}

impl QueueTicket {
    /// Waits for the turn, or for the outcome of a shared call.
    pub(super) async fn wait(&mut self, deadline: Instant) -> Waited {
        let mut limit = deadline;
        loop {
            match timeout_at(limit, &mut self.reply).await {
                Ok(reply) => return Self::judge(reply, deadline),
                Err(_) => match self.leave() {
                    TicketState::Waiting => return Waited::NotSent,
                    TicketState::Sharing if limit == deadline => limit += LAST_MOMENT,
                    TicketState::Sharing => return Waited::Lost,
                    // No await lies between removing the ticket from the queue and replying.
                    TicketState::Called => return Self::judge((&mut self.reply).await, deadline),
                },
            }
        }
    }

    fn judge(reply: Result<Reply, oneshot::error::RecvError>, deadline: Instant) -> Waited {
        match reply {
            Ok(Reply::Turn(..)) if deadline <= Instant::now() => Waited::NotSent,
            Ok(Reply::Turn(turn, member)) => Waited::Turn(turn, member),
            Ok(Reply::Outcome(outcome)) => Waited::Shared(outcome),
            Err(_) => Waited::Lost,
        }
    }

    /// Waits again, at the head of the queue, for the shared call that the holder of the turn is
    /// about to send.
    pub(super) fn rejoin(&mut self, turn: &Turn, member: Member) {
        let (reply, receiver) = oneshot::channel();
        self.reply = receiver;
        let waiter = Waiter {
            reply,
            member: Some(member),
        };
        turn.in_lane(|queue| queue.waiting.insert(self.ticket, waiter));
    }

    /// Leaves the queue, unless the ticket has left it already or its mutations are in flight.
    fn leave(&self) -> TicketState {
        let found = self.admission.in_lane(&self.partition, |queue| {
            if let Some(waiter) = queue.waiting.remove(&self.ticket) {
                return (TicketState::Waiting, Some(waiter));
            }
            match queue.sharing.contains_key(&self.ticket) {
                true => (TicketState::Sharing, None),
                false => (TicketState::Called, None),
            }
        });
        found.map_or(TicketState::Called, |(whereabouts, _)| whereabouts)
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        // Dropping the receiver passes on a turn that was already sent to it.
        self.leave();
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.partition).finish()
    }
}

#[cfg(test)]
impl Admission {
    /// Returns the number of partitions that have a queue.
    pub(super) fn lane_count(&self) -> usize {
        self.queues().of.len()
    }
}

#[cfg(test)]
mod tests;
