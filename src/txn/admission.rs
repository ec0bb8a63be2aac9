//! One call at a time for each partition: who may send, and who waits.
//!
//! A call that waits for rows on the server holds one of its few handlers, so a hot partition would
//! stall all others. The writers of one partition wait here instead, in the order of their arrival.
//!
//! A partition has a *lane* while one writer holds its *turn*. The other writers have a *place* in
//! the lane. Dropping the place leaves the lane, and dropping the turn passes it on: no future that
//! ends early, and no panic, can block the others. The only clock here is the caller's deadline.

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

/// How much longer than its deadline a writer waits while a shared call carries its mutations. That
/// call ends with the first deadline of its members, and reports the outcome a moment later.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// The lanes of one table's partitions.
pub(super) struct Admission {
    table: TableName,
    share_limits: ShareLimits,
    lanes: Mutex<Lanes>,
}

#[derive(Default)]
struct Lanes {
    of: HashMap<Partition, Lane>,
    next_ticket: u64,
}

/// The waiters of one partition, while a writer has its turn. Tickets are in the order of arrival.
#[derive(Default)]
struct Lane {
    waiting: BTreeMap<u64, Waiter>,
    /// Writers whose mutations the holder of the turn sends with its own.
    sharing: BTreeMap<u64, Sharer>,
}

struct Waiter {
    reply: oneshot::Sender<Reply>,
    /// What may be sent together with others; none of one who goes alone.
    member: Option<Member>,
}

struct Sharer {
    reply: oneshot::Sender<Reply>,
    share: Share,
}

/// How much of a shared call is one member's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) rows: usize,
    pub(super) mutations: usize,
}

enum Reply {
    Turn(Turn, Option<Member>),
    Outcome(Outcome),
}

/// The right to send one call to a partition. Dropping it passes it on.
pub(super) struct Turn {
    admission: Arc<Admission>,
    /// None when it was passed on.
    partition: Option<Partition>,
}

/// A place in a lane. Dropping it leaves the lane.
pub(super) struct QueueTicket {
    admission: Arc<Admission>,
    partition: Partition,
    ticket: u64,
    reply: oneshot::Receiver<Reply>,
}

/// How waiting in a place ended.
pub(super) enum Waited {
    /// It is its turn. What it brought is given back, unless it must go alone.
    Turn(Turn, Option<Member>),
    /// Its mutations were sent with others'; this is how it ended.
    Shared(Outcome),
    /// Its mutations were sent with others', and nothing was heard of them.
    Lost,
    /// Its turn did not come by the deadline. Nothing of it was sent that can still be applied.
    NotSent,
}

/// Where a ticket is found.
enum Whereabouts {
    Waiting,
    Sharing,
    /// Out of the lane: the reply is there, or is being sent at this moment.
    Called,
}

impl Admission {
    pub(super) fn new(table: TableName, share_limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self {
            table,
            share_limits,
            lanes: Mutex::default(),
        })
    }

    /// Waits for the turn of a partition, behind all who came before.
    ///
    /// # Errors
    ///
    /// [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) when it does not come in time.
    pub(super) async fn enter(self: &Arc<Self>, partition: &Partition, deadline: Instant) -> Result<Turn> {
        if let Some(turn) = self.enter_at_once(partition) {
            return Ok(turn);
        }
        let mut place = self.queue(partition, None);
        match place.wait(deadline).await {
            Waited::Turn(turn, _) => Ok(turn),
            // Who brings nothing to share gets no other reply.
            Waited::NotSent | Waited::Shared(_) | Waited::Lost => Err(self.not_sent(partition)),
        }
    }

    /// Returns the turn if it is free and has no waiter.
    pub(super) fn enter_at_once(self: &Arc<Self>, partition: &Partition) -> Option<Turn> {
        match self.lanes().of.entry(partition.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(lane) => {
                lane.insert(Lane::default());
                Some(self.turn(partition.clone()))
            }
        }
    }

    /// A place at the end of the lane.
    pub(super) fn queue(self: &Arc<Self>, partition: &Partition, member: Option<Member>) -> QueueTicket {
        let (reply, receiver) = oneshot::channel();
        let mut lanes = self.lanes();
        let ticket = lanes.next_ticket;
        lanes.next_ticket += 1;
        // The turn may have become free after the caller's first look.
        let is_free = !lanes.of.contains_key(partition);
        let lane = lanes.of.entry(partition.clone()).or_default();
        lane.waiting.insert(ticket, Waiter { reply, member });
        drop(lanes);
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

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a partition's lane. None when it has none.
    fn in_lane<T>(&self, partition: &Partition, act: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        self.lanes().of.get_mut(partition).map(act)
    }

    /// Gives the turn to the first who waits and is still there; ends the lane when there is none.
    fn pass_on(self: &Arc<Self>, mut partition: Partition) {
        // Who shared a call that ended without a word finds out by this. Not under the lock: it
        // wakes them.
        drop(self.in_lane(&partition, |lane| mem::take(&mut lane.sharing)));
        loop {
            let mut lanes = self.lanes();
            let first = lanes
                .of
                .get_mut(&partition)
                .and_then(|lane| lane.waiting.pop_first());
            let Some((_, waiter)) = first else {
                lanes.of.remove(&partition);
                return;
            };
            drop(lanes);
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

/// Waits for the turn of a partition if there is an admission at all.
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
    /// Whether the next one who waits has something to share, and it fits.
    pub(super) fn has_company(&self, fits: impl FnOnce(&Member) -> bool) -> bool {
        let first = |lane: &mut Lane| {
            let (_, next) = lane.waiting.first_key_value()?;
            next.member.as_ref().map(fits)
        };
        self.in_lane(first).flatten().unwrap_or(false)
    }

    /// Takes those who wait, in their order, into the call of this turn, for as long as they have
    /// something to share and `take` does not give it back.
    pub(super) fn gather(&self, mut take: impl FnMut(Member) -> Result<Share, Member>) {
        self.in_lane(|lane| {
            while let Some(mut first) = lane.waiting.first_entry() {
                let Some(member) = first.get_mut().member.take() else {
                    break;
                };
                match take(member) {
                    Ok(share) => {
                        let (ticket, Waiter { reply, .. }) = first.remove_entry();
                        lane.sharing.insert(ticket, Sharer { reply, share });
                    }
                    Err(member) => {
                        first.get_mut().member = Some(member);
                        break;
                    }
                }
            }
        });
    }

    /// Notifies all who shared the call how it ended.
    pub(super) fn notify(&self, outcome: impl Fn(Share) -> Outcome) {
        let sharing = self.in_lane(|lane| mem::take(&mut lane.sharing));
        for Sharer { reply, share } in sharing.unwrap_or_default().into_values() {
            // One who has left meanwhile does not want to know.
            drop(reply.send(Reply::Outcome(outcome(share))));
        }
    }

    /// Puts those who shared the call back to the head of the lane, each to go alone.
    pub(super) fn send_back(&self) {
        self.in_lane(|lane| {
            let back = mem::take(&mut lane.sharing).into_iter();
            lane.waiting.extend(back.map(|(ticket, Sharer { reply, .. })| {
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

    fn in_lane<T>(&self, act: impl FnOnce(&mut Lane) -> T) -> Option<T> {
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
    /// Waits for the turn, or for what became of a call that was shared.
    pub(super) async fn wait(&mut self, deadline: Instant) -> Waited {
        let mut limit = deadline;
        loop {
            match timeout_at(limit, &mut self.reply).await {
                Ok(reply) => return Self::judge(reply, deadline),
                Err(_) => match self.leave() {
                    Whereabouts::Waiting => return Waited::NotSent,
                    Whereabouts::Sharing if limit == deadline => limit += LAST_MOMENT,
                    Whereabouts::Sharing => return Waited::Lost,
                    // There is no await between taking it out of the lane and replying.
                    Whereabouts::Called => return Self::judge((&mut self.reply).await, deadline),
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

    /// Waits again, at the head of the lane, for the call that another holder of the turn is about
    /// to send.
    pub(super) fn rejoin(&mut self, turn: &Turn, member: Member) {
        let (reply, receiver) = oneshot::channel();
        self.reply = receiver;
        let waiter = Waiter {
            reply,
            member: Some(member),
        };
        turn.in_lane(|lane| lane.waiting.insert(self.ticket, waiter));
    }

    /// Leaves the lane, unless it is not there any more, or its mutations are on their way.
    fn leave(&self) -> Whereabouts {
        let found = self.admission.in_lane(&self.partition, |lane| {
            if let Some(waiter) = lane.waiting.remove(&self.ticket) {
                return (Whereabouts::Waiting, Some(waiter));
            }
            match lane.sharing.contains_key(&self.ticket) {
                true => (Whereabouts::Sharing, None),
                false => (Whereabouts::Called, None),
            }
        });
        found.map_or(Whereabouts::Called, |(whereabouts, _)| whereabouts)
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        // A turn that has been given already is passed on by the receiver's end.
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
    /// How many partitions have a lane.
    pub(super) fn lane_count(&self) -> usize {
        self.lanes().of.len()
    }
}

#[cfg(test)]
mod tests;
